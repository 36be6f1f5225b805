"""What the page about changing a cluster shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.change.plan import KEYS
from coterie.cluster.membership.ports import free_ports
from coterie.testing.nodes import write_document
from tests.cluster.changed_cluster import Joined
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = (Path(__file__).parent.parent / "docs" / "change.md").read_text(encoding="utf-8")


VOTERS = "abc"

# A section or a block that shows another cluster than the page's first.
RENUMBERED = "## Another address"
MISTYPED = "**A lease with a typing error.**"


def shown(text: str) -> list[tuple[str, str]]:
    """Cut the console blocks of a text into commands and what each prints."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def cut(begin: str, end: str) -> tuple[str, str]:
    """Return the part of the page between two texts, and the page without it."""
    before, rest = PAGE.split(begin)
    part, after = rest.split(end, 1)
    return part, before + after


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path, 3, lease=5.0)
    made.start(*VOTERS, new=True)
    made.wait_for_number(1)
    yield made
    made.end()


def addresses(cluster: Processes) -> list[str]:
    return [str(member.address) for member in cluster.config.membership.members]


def check(
    cluster: Processes,
    commands: list[tuple[str, str]],
    places: dict[str, str],
    *,
    config: Path | None = None,
    steady: Callable[[str], str] = lambda text: re.sub(" +", " ", text),
) -> None:
    """Run what is shown, with these places instead of those shown, and compare what it prints.

    `config` is the file of the cluster, for nodes; `steady` leaves out what is different each time.
    """
    assert commands
    for command in commands:
        line, expected = (_at(places, text) for text in command)
        outcome = subprocess.run(
            [*COTERIE, *line.split()[1:]],
            env=os.environ | {"COTERIE_URL": cluster.url, "COTERIE_CONFIG": str(config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert steady(outcome.stdout) == steady(expected), line


def _at(places: dict[str, str], text: str) -> str:
    for written, place in places.items():
        text = text.replace(written, place)
    return text


def test_voters_are_replaced_and_removed(cluster: Processes) -> None:
    renumbered, _ = cut(RENUMBERED, "## ")
    mistyped, _ = cut(MISTYPED, "`vouch` asks")
    apart = shown(renumbered) + shown(mistyped)
    joined = Joined(cluster, "d")
    there = [*addresses(cluster), joined.address]
    try:
        commands = [command for command in shown(PAGE) if command not in apart]
        check(
            cluster,
            commands,
            {f"{n}.example:7420": at for n, at in zip("abcd", there, strict=True)},
        )
    finally:
        joined.kill()


def test_all_nodes_have_other_addresses(cluster: Processes, tmp_path: Path) -> None:
    places = {f"127.0.0.1:1742{place}": at for place, at in enumerate(addresses(cluster))}
    for name in VOTERS:
        cluster.stop(name)
    for place, (name, port) in enumerate(zip(VOTERS, free_ports(3), strict=True)):
        cluster.document["nodes"][name] = {"address": f"127.0.0.1:{port}"}
        places[f"127.0.0.1:1743{place}"] = f"127.0.0.1:{port}"
    write_document(cluster.document, tmp_path)
    cluster.url = cluster.url.replace("coterie://", f"coterie://{','.join(places.values())},")
    cluster.start(*VOTERS)
    cluster.wait(lambda state: state.health == 0, "all nodes at their new addresses")
    check(cluster, shown(cut(RENUMBERED, "## ")[0]), places)


def test_a_lease_with_a_typing_error_is_mended(cluster: Processes) -> None:
    assert cluster.change("set", "lease=20000m", "--yes")
    for name in VOTERS:
        cluster.kill(name)
    cluster.start(*VOTERS)
    cluster.wait(lambda state: all(node.report for node in state.nodes), "all nodes to be back")
    check(cluster, shown(cut(MISTYPED, "`vouch` asks")[0]), {})


def test_the_page_names_every_key() -> None:
    assert [key for key in KEYS if f"`{key}`" not in PAGE] == []
