"""What the page about wrong disks, addresses and orders shows is what happens, on processes."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.change import force as forcing
from coterie.cluster.change.force import force
from coterie.cluster.membership.ports import free_ports
from coterie.testing.nodes import write_document
from tests.cluster.local_cluster import Processes
from tests.test_change_page import check, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., Processes]

PAGE = (Path(__file__).parent.parent / "docs" / "mix-ups.md").read_text(encoding="utf-8")
LEASE = 5.0


def steady(text: str) -> str:
    """Leave out times, durations, numbers that were drawn, and the width of columns."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "TIME", text)
    text = re.sub(r"\d+(\.\d+)? s\b", "N s", text)
    return re.sub(" +", " ", re.sub(r"\b\d{6,}\b", "NUMBER", text))


def told(title: str) -> list[tuple[str, str]]:
    """Return the commands of a section, and what each prints."""
    return shown(PAGE.split(f"## {title}\n")[1].split("\n## ")[0])


def places(cluster: Processes) -> dict[str, str]:
    nodes = cluster.document["nodes"].items()
    return {f"{name}.example:7420": node["address"] for name, node in nodes}


def form(cluster: Processes) -> Processes:
    cluster.start("a", "b", "c", new=True)
    cluster.wait_for_number(1)
    return cluster


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make clusters that are ended with the test; each has a folder of its own."""
    made: list[Processes] = []

    def make_one(lease: float = LEASE) -> Processes:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Processes(folder, 3, lease=lease))
        return made[-1]

    yield make_one
    for cluster in made:
        cluster.end()


def test_a_disk_of_an_earlier_installation_comes_back(make: Make) -> None:
    cluster = form(make())
    data = cluster.folder / "data"
    for lease in ("lease=6", f"lease={LEASE:g}"):
        cluster.change("set", lease)
    for name in "abc":
        cluster.stop(name)
    (data / "c").rename(cluster.folder / "earlier")
    for name in "ab":
        shutil.rmtree(data / name)
    form(cluster)
    cluster.stop("c")
    shutil.rmtree(data / "c")
    (cluster.folder / "earlier").rename(data / "c")
    commands = told("A disk of an earlier installation")
    file = cluster.folder / "coterie.toml"
    check(cluster, commands, places(cluster), config=file, steady=steady)


def test_an_address_is_given_again(make: Make) -> None:
    cluster, other = form(make()), make()
    cluster.stop("c")
    other.document["nodes"]["c"] = cluster.document["nodes"]["c"]
    write_document(other.document, other.folder)
    other.url = "coterie://" + ",".join(places(other).values())
    form(other).join("d")
    there = places(cluster) | {"d.example:7420": other.spares["d"]}
    check(cluster, told("An address that was given again"), there, steady=steady)


def test_volumes_are_swapped(make: Make) -> None:
    cluster = form(make())
    data = cluster.folder / "data"
    for name in "ab":
        cluster.stop(name)
    (data / "a").rename(data / "of a")
    (data / "b").rename(data / "a")
    (data / "of a").rename(data / "b")
    cluster.start("a", "b")
    cluster.wait(lambda state: all(node.report for node in state.nodes), "all nodes to answer")
    check(cluster, told("Volumes that were swapped"), places(cluster), steady=steady)


def test_a_lease_in_the_file_becomes_shorter(make: Make) -> None:
    cluster = make(lease=20.0)
    cluster.start("a", "b", new=True)
    cluster.wait(lambda state: state.health < 69, "a quorum of votes")
    assert cluster.program("hold", "x").read()[0] == "held"
    for name in "ab":
        cluster.kill(name)
    cluster.end()
    cluster.document["lease"] = 1.0
    write_document(cluster.document, cluster.folder)
    cluster.start("a", "b")
    cluster.wait(lambda state: sum(bool(node.report) for node in state.nodes) == 2, "both nodes")
    check(cluster, told("A lease in the file that became shorter"), places(cluster), steady=steady)


def test_two_operators_force(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a leads nowhere, as the network is cut: else it would hear of the other one any moment."""
    cluster = form(make())
    cluster.stop("a")
    nowhere = {
        name: {"address": f"127.0.0.1:{port}"}
        for name, port in zip("bc", free_ports(2), strict=True)
    }
    apart = cluster.document | {"nodes": cluster.document["nodes"] | nowhere}
    write_document(apart, cluster.folder)
    cluster.start("a")
    cluster.wait(lambda state: state.health == 0, "all nodes to vote")
    known = cluster.standing()
    kept = {voter.name: voter for voter in known.voters}
    cluster.kill("c")
    for name, leaps in (("a", 1), ("b", forcing.LEAPS_MAX)):
        monkeypatch.setattr(forcing, "LEAPS_MAX", leaps)
        asyncio.run(force(known, [kept[name]]))
    check(cluster, told("Two operators who force"), places(cluster), steady=steady)


def test_a_machine_is_copied(make: Make) -> None:
    cluster, copy = form(make()), make()
    shutil.copytree(cluster.folder / "data" / "c", copy.folder / "data" / "c")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    copy.document["nodes"] = cluster.document["nodes"] | {"c": {"address": address}}
    file = write_document(copy.document, copy.folder)
    there = places(cluster) | {"c2.example:7420": address}
    commands = told("A machine that was copied")
    check(cluster, commands, there, config=file, steady=steady)
