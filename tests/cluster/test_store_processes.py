"""Sites as processes, killed with -9 in the middle of transfers: nothing is lost, nothing is half."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cluster.membership.config import load
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.cluster.store_cluster import document, fill, keys_at, running, total

if TYPE_CHECKING:
    from coterie.transactions.store.transaction import Transaction

ACCOUNTS = [key for site in (1, 2, 3) for key in keys_at(site, 2)]
PROGRAM = Path(__file__).with_name("store_program.py")


class SiteProcess:
    """A running `store_program.py`, and the highest count that it has told."""

    def __init__(self, config: Path, node: str) -> None:
        self.count = 0
        command = [sys.executable, str(PROGRAM), str(config), node, ",".join(ACCOUNTS)]
        self.process = subprocess.Popen(
            command,
            bufsize=0,  # what is read ahead could not be waited for
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def read_until(self, word: bytes, times: int = 1) -> None:
        assert self.process.stdout is not None
        while times:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            assert ready, f"the site does not say {word!r}"
            line = self.process.stdout.readline()
            assert line, f"the site ended before it said {word!r}"
            self._hear(line)
            times -= line.startswith(word)

    def _hear(self, line: bytes) -> None:
        if line.startswith(b"count "):
            self.count = max(self.count, int(line.split()[1]))

    def kill(self) -> None:
        self.process.kill()
        rest, _ = self.process.communicate()
        for line in rest.splitlines():
            self._hear(line)

    def end(self) -> None:
        """Let it finish what it does, and begin nothing more."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"enough\n")
        self.process.stdin.flush()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    written = document(lease=1.0)
    lines = ['cluster = "test"', "lease = 1.0", 'data = "data"']
    for name, node in written["nodes"].items():
        lines += [f"[nodes.{name}]", f'address = "{node["address"]}"', f'store = "{node["store"]}"']
    lines += ["[store]", 'variant = "wound-wait"']
    path = tmp_path / "coterie.toml"
    path.write_text("\n".join(lines))
    return path


def test_kill_9_loses_no_acknowledged_transfer_and_shows_no_half_one(config: Path) -> None:
    async def prepare() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), running(load(config)) as sites:
            await fill(sites["a"], ACCOUNTS)

    asyncio.run(prepare())
    sites = {name: SiteProcess(config, name) for name in "abc"}
    counts: dict[str, int] = dict.fromkeys("abc", 0)
    try:
        for name in "abc":
            sites[name].read_until(b"count", 5)
        for victim in ("b", "a", "b"):
            sites[victim].kill()
            counts[victim] = max(counts[victim], sites[victim].count)
            sites[victim] = SiteProcess(config, victim)
            sites[victim].read_until(b"count", 5)
        for site in sites.values():
            site.end()
        for site in sites.values():
            site.read_until(b"over")
    finally:
        for name, site in sites.items():
            site.kill()
            counts[name] = max(counts[name], site.count)
    asyncio.run(judge(config, counts))


async def judge(config: Path, told: dict[str, int]) -> None:
    """Start all sites on what the processes have left on disk."""
    async with asyncio.timeout(PATIENCE_SECONDS), running(load(config)) as sites:

        async def look(transaction: Transaction) -> dict[str, Any]:
            return dict(await transaction.scan())

        values = await sites["b"].run(look)
        counts = {name: values.pop(f"count-{name}") for name in "abc"}
        assert sum(values.values()) == 100 * len(ACCOUNTS)
        for name in "abc":
            assert counts[name] >= told[name] > 0, "an acknowledged transfer is lost"
        assert await total(sites["c"]) == sum(values.values()) + sum(counts.values())
