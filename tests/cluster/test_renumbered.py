"""Nodes that were given other addresses, with all disks kept."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
import coterie.sync
from coterie.cluster.change.plan import change_settings
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.wire.address import Address, parse_address
from coterie.cluster.wire.places import Places
from coterie.errors import UsageError
from coterie.testing.nodes import write_document
from tests.cluster.changed_cluster import Fleet, fleet
from tests.cluster.local_cluster import NAMES, document, processes, until, url_of
from tests.cluster.test_change_plan import configuration

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")

LONG_LEASE = 20.0  # far more than nodes take to start
A, B, C, NEW_A, NEW_B = (Address("127.0.0.1", port) for port in range(1, 6))


# Where to look


def test_a_node_is_called_where_its_disk_was_met_before_the_address_on_record() -> None:
    places = Places([NEW_B, NEW_A])
    assert places.ways("a", "disk a", [A], [B, C]) == [A, NEW_B, NEW_A]
    places.note(NEW_A, "a", "disk a")
    assert places.ways("a", "disk a", [A], [B, C]) == [NEW_A, A, NEW_B]
    assert places.ways("b", "disk b", [B], [A, C]) == [B, NEW_B]
    places.note(NEW_B, "b", "disk b")
    assert places.ways("a", "disk a", [A], [B, C]) == [NEW_A, A]
    places.note(NEW_A, "b", "disk b")  # they were swapped, or a balancer stands there
    assert places.ways("b", "disk b", [B], [A, C]) == [NEW_B, B, NEW_A]
    assert places.ways("a", "another disk of a", [A], [B, C]) == [A]


def test_an_address_that_is_on_record_for_another_voter_is_left_to_that_one() -> None:
    assert Places([A, B, C]).ways("a", "disk a", [A], [B, C]) == [A]


def test_a_wildcard_or_a_name_may_be_any_address_of_its_port() -> None:
    for listen, recorded, elsewhere in (
        ("0.0.0.0:7420", "a.example:7420", False),
        ("0.0.0.0:7421", "a.example:7420", True),
        ("10.0.0.1:7420", "10.0.0.2:7420", True),
        ("[::]:7420", "10.0.0.2:7420", False),
        ("10.0.0.1:7420", "a.example:7420", False),
    ):
        assert parse_address(listen).leads_elsewhere_than(parse_address(recorded)) is elsewhere


def test_addresses_change_and_voters_disks_and_quorums_stay() -> None:
    present = configuration()
    goal = change_settings(present, {"address.b": "new.example", "lease": "20"})
    assert goal.part is not None
    assert goal.part.seats == present.rule.parts[0].seats
    assert [member.address for member in goal.members] == ["a:7420", "new.example:7420", "c:7420"]
    assert [m.identity for m in goal.members] == [m.identity for m in present.members]
    swapped = change_settings(present, {"address.b": "c", "address.c": "b"})
    assert [member.address for member in swapped.members] == ["a:7420", "c:7420", "b:7420"]


def test_two_voters_do_not_get_one_address() -> None:
    with pytest.raises(UsageError, match="c:7420 would be the address of b and of c"):
        change_settings(configuration(), {"address.b": "c:7420"})
    with pytest.raises(UsageError, match="no voter is called 'x'"):
        change_settings(configuration(), {"address.x": "c:7420"})


# On processes


@pytest.mark.real
def test_three_nodes_are_renumbered_under_load(tmp_path: Path) -> None:
    """A URL that names the old and the new addresses is enough: what is held stays held."""
    with processes(tmp_path, lease=LONG_LEASE) as cluster:
        cluster.wait_for_number(1)
        old, question, parameters = cluster.url.partition("?")
        new = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
        both = f"{old},{','.join(new.values())}{question}{parameters}"
        tokens = tmp_path / "tokens"
        holder = cluster.program("hold", "x", url=both)
        first = int(holder.read()[1])
        busy = cluster.program("turns", "y", str(tokens), "0.01", url=both)
        assert busy.read() == ["going"]
        for name in "abc":
            cluster.stop(name)
        entries = len(tokens.read_text().split())
        for name in "abc":
            cluster.document["nodes"][name] = {"address": new[name]}
        write_document(cluster.document, tmp_path)
        cluster.start(*"abc")
        cluster.url = f"coterie://{','.join(new.values())}{question}{parameters}"
        cluster.wait(lambda state: state.health == 0, "both programs to be back at all nodes")
        status, out, errors = cluster.command("status")
        moves = [f"address.{name}={new[name]}" for name in "abc"]
        assert (status, "votes, at" in out) == (1, True)
        assert " ".join(moves) in errors
        assert cluster.change("set", *moves) == "configuration 2: a, b, c\n"
        assert cluster.command("status")[0] == 0
        holder.write("")
        assert holder.read() == ["valid"]
        assert busy.rest()[0][0] == "entries"
        taken = [int(line) for line in tokens.read_text().split()]
        assert taken == sorted(set(taken))
        assert len(taken) > entries
        with coterie.sync.connect(cluster.url) as program, program.lock("x") as held:
            assert held.token > first


# On nodes


def renumber(made: Fleet, *names: str) -> None:
    """Give nodes that are stopped other addresses, in the file and in the URL."""
    written = document(len(made.addresses), data=str(made.folder))
    for name in NAMES[: len(made.addresses)]:
        written["nodes"][name] = {"address": made.addresses[name]}
    for name, port in zip(names, free_ports(len(names)), strict=True):
        made.addresses[name] = f"127.0.0.1:{port}"
        written["nodes"][name] = {"address": made.addresses[name]}
    made.config = convert(written, made.folder)
    # In another order than that of the voters: nothing but its disk says which node is where.
    _, question, parameters = url_of(made.config).partition("?")
    addresses = ",".join(reversed(made.addresses.values()))
    made.url = f"coterie://{addresses}{question}{parameters}"


def recorded(made: Fleet) -> list[dict[str, str]]:
    found = []
    for node in made.nodes.values():
        configuration = node.voting.voter.configuration
        assert configuration is not None
        found.append({member.name: member.address for member in configuration.members})
    return found


def test_all_nodes_are_renumbered_and_found_by_their_disks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Status showed everything down, and every command refused."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            for name in "abc":
                await made.stop(name)
            old = dict(made.addresses)
            renumber(made, *"abc")
            for name in "abc":
                await made.start(name)
            assert f"node b is at {made.addresses['b']}, and configuration 1 says" in caplog.text
            async with coterie.connect(made.url) as program, program.lock("x", timeout=20) as held:
                assert held.valid
                capsys.readouterr()
                assert await made.command("status") == 1
                said = capsys.readouterr()
                for name in "abc":
                    assert f"votes, at {made.addresses[name]}" in said.out
                moves = [f"address.{name}={made.addresses[name]}" for name in "abc"]
                assert f"coterie cluster set {' '.join(moves)}" in said.err
                assert recorded(made) == [old] * 3
                assert await made.command("set", *moves) == 0
                assert capsys.readouterr().out == "configuration 2: a, b, c\n"
                assert recorded(made) == [made.addresses] * 3
                assert await made.command("status") == 0
                assert held.valid
            caplog.clear()
            await made.stop("b")
            await made.start("b")
            assert "and configuration" not in caplog.text

    asyncio.run(main())


def is_served_by(made: Fleet, number: int) -> bool:
    """Return whether one program goes by this number at all nodes."""
    known = [node.voting.voter for node in made.nodes.values()]
    sessions = [[link.number for link in voter.sessions.values()] for voter in known]
    return [voter.number for voter in known] == [number] * 3 and sessions == [[number]] * 3


def test_programs_follow_nodes_that_are_renumbered_one_after_the_other(tmp_path: Path) -> None:
    """In the end none of the addresses that a program was started with leads anywhere."""

    async def main() -> None:
        async with fleet(tmp_path) as made, coterie.connect(made.url) as program:
            async with program.lock("x", timeout=20) as held:
                for number, name in enumerate("bca", 2):
                    await made.stop(name)
                    renumber(made, name)
                    await made.start(name)
                    move = f"address.{name}={made.addresses[name]}"
                    assert await made.command("set", move) == 0
                    await until(
                        partial(is_served_by, made, number),
                        "the program to reach the node at its new address",
                    )
                assert held.valid
            async with program.lock("x", timeout=20) as again:
                assert again.token > held.token

    asyncio.run(main())


def test_an_address_is_taken_only_if_the_disk_of_the_voter_answers_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            nowhere = f"127.0.0.1:{free_ports(1)[0]}"
            assert await made.command("set", f"address.b={nowhere}") == 69
            assert f"b does not answer at {nowhere}" in capsys.readouterr().err
            await made.join("d")
            assert await made.command("set", f"address.b={made.addresses['d']}") == 69
            assert "this is node 'd' where 'b' was expected" in capsys.readouterr().err
            await made.stop("b", wipe=True)
            nodes = dict(made.config.nodes)
            made.addresses["b"] = f"127.0.0.1:{free_ports(1)[0]}"
            listen = parse_address(made.addresses["b"])
            nodes["b"] = msgspec.structs.replace(nodes["b"], listen=listen)
            made.config = msgspec.structs.replace(made.config, nodes=nodes)
            await made.start("b")
            assert await made.command("set", f"address.b={made.addresses['b']}") == 78
            assert "has another data directory than the voter b" in capsys.readouterr().err
            assert [made.nodes[name].voting.voter.number for name in "ac"] == [1, 1]

    asyncio.run(main())


def test_a_program_finds_the_one_node_that_was_renumbered(tmp_path: Path) -> None:
    """The two others were as on record, so it looked for that one on record alone."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            renumber(made, "b")
            await made.start("b")
            await made.stop("c")
            async with coterie.connect(made.url) as program, program.lock("x", timeout=20) as held:
                assert held.valid

    asyncio.run(main())
