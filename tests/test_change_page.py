"""What the page about changing a cluster shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.change.plan import KEYS
from tests.cluster.changed_cluster import Joined
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Processes

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parent.parent / "docs" / "change.md").read_text(encoding="utf-8")


def sessions() -> list[tuple[str, str]]:
    """Cut the console blocks into commands and what each prints."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path, 3)
    path = tmp_path / "coterie.toml"
    path.write_text(path.read_text().replace("lease = 1.0", "lease = 5.0"))
    made.start("a", "b", "c", new=True)
    made.wait(lambda state: state.number == 1, "configuration 1")
    yield made
    made.end()


def _at(addresses: dict[str, str], text: str) -> str:
    for name, address in addresses.items():
        text = text.replace(f"{name}.example:7420", address)
    return text


def test_the_commands_print_what_is_shown(cluster: Processes) -> None:
    joined = Joined(cluster, "d")
    addresses = {m.name: str(m.address) for m in cluster.config.membership.members}
    addresses["d"] = joined.address
    try:
        for shown in sessions():
            line, expected = (_at(addresses, text) for text in shown)
            outcome = subprocess.run(
                [*COTERIE, *line.split()[1:]],
                env=os.environ | {"COTERIE_URL": cluster.url},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            )
            assert re.sub(" +", " ", outcome.stdout) == re.sub(" +", " ", expected), line
    finally:
        joined.kill()


def test_the_page_names_every_key() -> None:
    assert [key for key in KEYS if f"`{key}`" not in PAGE] == []
