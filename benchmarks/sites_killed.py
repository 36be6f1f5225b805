"""Every operation of a store over sites that are processes, while these are killed; the history is judged.

    python -m benchmarks.sites_killed [--commits 2000] [--scheme two-phase-locking/wound-wait] [--calm]

Three sites run on loopback, with data directories. Programs at each carry out transactions of every operation on few keys;
whatever they and the sites say is written down at once. Every few seconds a site is killed with SIGKILL and
started again; with --calm none is. In the end everything has to be settled, and the history serializable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie import system
from coterie.cluster.membership.config import load
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.store import ClusterStore
from coterie.errors import Conflict, OutcomeUnknown, Unavailable
from coterie.lab.serializability import check
from coterie.lab.stack.campaign import variants_of_schemes
from coterie.lab.stack.workloads.store_mixture import (
    KEYS,
    WatchedSite,
    carry_out,
    draw_program,
    write_of,
)
from coterie.lab.trials.chronicle import Chronicle
from coterie.lab.trials.clients import Began, Wrote
from coterie.lab.trials.trial import Program, declaration
from coterie.transactions.schemes.scheduler import Committed, Found, Listed
from coterie.transactions.site.events import Answered, Installed
from coterie.transactions.store.values import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Event
    from coterie.transactions import Transaction

NAMES = "abc"
USERS = 3  # of each site
TRIES = 4
LEASE = 1.0
BETWEEN_KILLS = (1.0, 4.0)  # seconds
SETTLED_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05

Note: TypeAlias = Began | Wrote | Installed | Answered
decode_note = msgspec.json.Decoder(tuple[float, Note]).decode


# A site


async def be_site(config: str, node: str, path: str) -> None:
    """Keep a share of the keys, and carry out transactions until the input ends."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, over.set)

    def note(event: Event) -> None:
        if isinstance(event, Note):
            os.write(log, msgspec.json.encode((system.now(), event)) + b"\n")

    executor = WatchedSite(load(config), node, note)
    await executor.open()
    async with ClusterStore(executor, timeout=None, record=False) as store:
        dice = random.Random()  # which transaction meets which kill is open anyway
        async with asyncio.TaskGroup() as users:
            for _ in range(USERS):
                users.create_task(use(store, note, dice, over))
        while any(store.facts().values()):  # noqa: ASYNC110 - nobody tells when all is settled
            await asyncio.sleep(POLL_SECONDS)
        print("over", flush=True)
        await asyncio.Event().wait()  # the others may need this site yet; it is killed


async def use(
    store: ClusterStore, note: Callable[[Event], None], dice: random.Random, over: asyncio.Event
) -> None:
    """Carry out one transaction after the other."""
    while not over.is_set():
        script = draw_program(dice)
        declared = declaration(script)

        async def work(transaction: Transaction, script: Program = script) -> None:
            note(Began(transaction.name, transaction.failures))
            for place, request in enumerate(script):
                if request.op == "a":
                    transaction.abort()
                    return
                if request.op in "wd":
                    note(write_of(transaction, request, place))
                await carry_out(transaction, request, place, dice)

        with contextlib.suppress(Conflict, OutcomeUnknown, Unavailable):
            await store.run(work, tries=TRIES, reads=declared.reads, writes=declared.writes)
        await asyncio.sleep(dice.expovariate(1 / 0.01))


# All of them


class Sites:
    """The processes, and what they have written down."""

    def __init__(self, folder: Path, scheme: str) -> None:
        """Start them."""
        self.folder = folder
        name, _, variant = scheme.partition("/")
        lines = ['cluster = "sites"', f"lease = {LEASE}", 'data = "data"']
        for node, (port, store) in zip(NAMES, pairs(free_ports(2 * len(NAMES))), strict=True):
            lines += [f"[nodes.{node}]", f'address = "127.0.0.1:{port}"']
            lines += [f'store = "127.0.0.1:{store}"']
        lines += ["[store]", f'scheme = "{name}"', f'variant = "{variant}"']
        (folder / "coterie.toml").write_text("\n".join(lines), encoding="utf-8")
        self.processes = {node: self._start(node) for node in NAMES}

    def _start(self, node: str) -> subprocess.Popen[bytes]:
        arguments = ["--site", str(self.folder / "coterie.toml"), node, str(self.folder / node)]
        command = [sys.executable, "-m", "benchmarks.sites_killed", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def kill(self, node: str) -> None:
        """Kill a site, and start it again."""
        self.processes[node].kill()
        self.processes[node].communicate()
        self.processes[node] = self._start(node)

    def commits(self) -> int:
        """Count the transactions that were told to have committed."""
        return sum(
            isinstance(each, Answered) and isinstance(each.answer, Committed)
            for each in self.notes()
        )

    def notes(self) -> list[Note]:
        """Return all that was written down, in its order."""
        found = []
        for path in map(self.folder.joinpath, NAMES):
            with contextlib.suppress(FileNotFoundError):
                whole, _, _ = path.read_bytes().rpartition(
                    b"\n"
                )  # a kill may have cut the last line
                found += [decode_note(line) for line in whole.splitlines() if line]
        return [event for _, event in sorted(found, key=lambda each: each[0])]

    def settle(self) -> None:
        """Let all end what they do; raises `AssertionError` if that does not come."""
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        for name, process in self.processes.items():
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            while process.stdout.read() is None:
                assert time.monotonic() < deadline, f"site {name} does not settle"
                time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Kill all of them."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def pairs(ports: list[int]) -> list[tuple[int, int]]:
    """Put ports together, two by two."""
    return list(zip(ports[::2], ports[1::2], strict=True))


def judge(notes: list[Note]) -> tuple[int, str]:
    """Return how many transactions committed, and what is wrong."""
    chronicle = Chronicle(KEYS)
    for event in notes:
        chronicle.add(event)
    for event in notes:
        match event:
            case Answered(Found() as found):
                read = [found]
            case Answered(Listed(_, items, _)):
                read = list(items)
            case _:
                read = []
        for each in read:
            if each.value is None or not each.number:
                continue
            # A site that was killed when its disk had the commit, and we had no word of it yet.
            writer = str(decode(each.value)).partition("/")[0]
            if writer != each.transaction:  # its own writes it reads before they count
                chronicle.committed.setdefault(writer, each.number)
    report = check(chronicle.history())
    wrong = "" if report.serializable else "; ".join(map(str, report.anomalies[:2])) or "undecided"
    return len(chronicle.committed), wrong


def run(scheme: str, commits: int, *, calm: bool) -> tuple[int, int, str]:
    """Run one scheme; return its commits, the kills, and what was wrong."""
    killed, dice = 0, random.Random()
    with tempfile.TemporaryDirectory() as name:
        sites = Sites(Path(name), scheme)
        try:
            while sites.commits() < commits:
                time.sleep(dice.uniform(*BETWEEN_KILLS))
                if not calm:
                    sites.kill(dice.choice(NAMES))
                    killed += 1
            sites.settle()
            made, wrong = judge(sites.notes())
        finally:
            sites.end()
    return made, killed, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--scheme", choices=variants_of_schemes(), action="append")
    parser.add_argument("--calm", action="store_true")
    chosen = parser.parse_args()
    broken = 0
    print("| scheme/variant | commits | kills | wrong |")
    print("|---|---:|---:|---|")
    for scheme in chosen.scheme or variants_of_schemes():
        made, killed, wrong = run(scheme, chosen.commits, calm=chosen.calm)
        broken += bool(wrong)
        print(f"| {scheme} | {made:,} | {killed} | {wrong or 'nothing'} |", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--site"]:
        asyncio.run(be_site(*sys.argv[2:]))
    sys.exit(main())
