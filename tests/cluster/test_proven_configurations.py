"""With an operator secret, a program without it changes no voters: nodes and programs do not follow it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.changer import Goal
from coterie.algorithms.mutex.quorum.leased.configuration import (
    Configuration,
    Member,
    Part,
    Rule,
    founding,
)
from coterie.algorithms.mutex.quorum.leased.frames import Condition, NewConfiguration, Query
from coterie.cluster.change.host import Change
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import check_decided
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.membership.proof import Prover
from coterie.cluster.node import Node
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.listener import Listener
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import (
    Abstention,
    GetAbstention,
    GetTokenBound,
    TokenBound,
    ToVoter,
    decode_to_voter,
)
from coterie.errors import ProtocolError
from tests.cluster.changed_cluster import Fleet, fleet
from tests.cluster.local_cluster import document, running, until
from tests.cluster.test_who_may_say_what import settled, successor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello

pytestmark = pytest.mark.real

LEASE = 1.0


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    """Return a file with the secret of operators."""
    path = tmp_path / "operators"
    path.write_text("only operators know this\n")
    path.chmod(0o600)
    return path


@contextlib.asynccontextmanager
async def program_at(cluster: Fleet, node: Node) -> AsyncIterator[Connection]:
    """Connect to a node as a program does: with all that a program has."""
    membership = node.voting.membership
    place = next(each for each in membership.members if each.name == node.name)
    connection = await dial(place.address, None)
    try:
        caller = Caller(
            membership.credentials(cluster.config.security.secret_bytes()),
            "participant",
            new_identity("mallory:1"),
            node.name,
        )
        await caller.greet(connection)
        connection.use(lambda _: None)
        yield connection
    finally:
        connection.close("said everything")
        await connection.wait_closed()


def invented(present: Configuration, names: str = "xyz", steps: int = 1) -> Configuration:
    """Return a successor with other voters, which no nodes have decided."""
    ports = free_ports(len(names))
    seats = tuple(range(present.last_seat + 10, present.last_seat + 10 + len(names)))
    members = tuple(
        Member(seat, name, f"{name}'s disk", f"127.0.0.1:{port}")
        for seat, name, port in zip(seats, names, ports, strict=True)
    )
    settings = present.settings
    rule = Rule(present.number + steps, (Part(seats, settings),))
    made = Configuration(
        rule,
        members,
        present.floor,
        (),
        present.protocol,
        "mallory",
        seats[-1],
        present.cluster_identity,
    )
    check_decided(made)  # it makes sense: nothing but the decision is missing
    return made


async def heard(nodes: list[Node], frames: int) -> None:
    """Wait until these nodes have handled so many frames that name a configuration, in all."""
    await until(
        lambda: sum(node.voting.received["NewConfiguration"] for node in nodes) >= frames,
        "the frames of the program",
    )


def test_a_program_cannot_replace_the_voters(tmp_path: Path, operators: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            nodes = list(cluster.nodes.values())
            present = nodes[0].voting.membership.configuration
            async with (
                coterie.connect(cluster.url) as holder,
                holder.lock("precious") as held,
                coterie.connect(cluster.url) as other,
            ):
                for node in nodes:  # to each another one: holders would be divided
                    async with program_at(cluster, node) as connection:
                        connection.send(NewConfiguration(invented(present)))
                        await heard([node], 1)
                assert all(node.voting.membership.configuration == present for node in nodes)
                assert await other.lock("precious").acquire(timeout=1.5 * LEASE) is None
                assert held.valid
            for name in list(cluster.addresses):
                await cluster.stop(name)
            for name in cluster.addresses:
                node = await cluster.start(name)
                assert node.voting.voter.number == present.number
            async with coterie.connect(cluster.url) as program, program.lock("precious"):
                pass

    asyncio.run(main())


def test_a_program_cannot_note_that_a_number_has_ended(tmp_path: Path, operators: Path) -> None:
    """What is noted beside a decision is no part of it, and locks rest on it as well."""

    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            nodes = list(cluster.nodes.values())
            present = nodes[0].voting.membership.configuration
            forged = msgspec.structs.replace(present, floor=present.floor + 1000)
            async with program_at(cluster, nodes[0]) as connection:
                connection.send(NewConfiguration(forged))
                await heard(nodes[:1], 1)
            assert nodes[0].voting.membership.configuration.floor == present.floor

    asyncio.run(main())


@contextlib.asynccontextmanager
async def liar(cluster: Fleet, name: str, told: Configuration) -> AsyncIterator[list[Hello]]:
    """Stand at the address of a node that is down, with what a program has, and tell this one.

    The generated list has what the callers have said of themselves.
    """
    disk = cluster.nodes[name].voting.voter.identity
    config = cluster.config
    membership = cluster.nodes[name].voting.membership
    await cluster.stop(name)
    shown = membership.after(told).credentials(config.security.secret_bytes())
    callers: list[Hello] = []

    def admit(connection: Connection, hello: Hello) -> None:
        callers.append(hello)
        if hello.role == "participant":
            connection.use(lambda _: connection.send(NewConfiguration(told)))
            connection.send(NewConfiguration(told))
        else:
            connection.use(lambda frame: answer(connection, decode_to_voter(frame)))

    def answer(connection: Connection, question: ToVoter) -> None:
        match question:
            case GetMembership():
                forged = membership.after(told)
                connection.send(MembershipReply(msgspec.msgpack.encode(forged)))
            case Query():
                connection.send(Condition(told, 0, False, disk, told.protocol))
            case GetTokenBound():
                connection.send(TokenBound(name, 1))
            case GetAbstention():
                connection.send(Abstention(0.0, ""))
            case _:
                raise AssertionError(f"a liar is not asked {question}")

    listener = Listener(
        config.local_node(name),
        "a start",
        lambda: 5,
        admit,
        credentials=lambda: shown,
        disk=lambda: disk,
    )
    await listener.open()
    try:
        yield callers
    finally:
        await listener.close()


def test_a_program_does_not_follow_what_one_of_three_voters_tells(
    tmp_path: Path, operators: Path
) -> None:
    """Somebody stands at the address of a dead node, and has voters of his own at others."""

    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            present = cluster.nodes["a"].voting.membership.configuration
            forged = invented(present)
            async with liar(cluster, "a", forged) as callers:
                calls: list[asyncio.StreamWriter] = []

                def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    calls.append(writer)

                ports = [parse_address(member.address).port for member in forged.members]
                strangers = [await asyncio.start_server(take, "127.0.0.1", port) for port in ports]
                others = [cluster.nodes["b"], cluster.nodes["c"]]
                url = ",".join(cluster.addresses[name] for name in "bc")
                async with coterie.connect(f"coterie://{url}") as program:
                    async with program.lock("x") as held:
                        await until(
                            lambda: any(hello.role == "participant" for hello in callers),
                            "the program to call the liar",
                        )
                        await heard(others, 2)  # the program asks the two others about it
                        assert held.valid
                    async with program.lock("y"):
                        pass
                assert not calls, "the invented voters are not called"
                assert all(node.voting.voter.number == present.number for node in others)
                for server in strangers:
                    server.close()

    asyncio.run(main())


def test_a_node_with_an_empty_disk_does_not_learn_from_one_that_lies(
    tmp_path: Path, operators: Path
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            present = cluster.nodes["a"].voting.membership.configuration
            forged = invented(present)
            await cluster.stop("b", wipe=True)
            async with liar(cluster, "a", forged) as callers:
                node = cluster.nodes["b"] = Node(cluster.config, "b")
                await node.start()
                await until(lambda: callers, "the node to ask the liar")
                await until(
                    lambda: node.voting.membership.configuration.number >= present.number,
                    "the node to learn from the honest one",
                )
                assert node.voting.membership.configuration.is_same(present)

    asyncio.run(main())


def test_an_order_does_not_begin_with_what_a_program_has_made_up(
    tmp_path: Path,
    operators: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A changer gives the nodes the newest configuration that was found, in the name of the operator."""
    monkeypatch.setenv("COTERIE_OPERATOR_SECRET_FILE", str(operators))

    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            present = cluster.nodes["a"].voting.membership.configuration
            # The same voters by a later number, so that the honest ones take orders.
            rule = Rule(present.number + 1, present.rule.parts)
            forged = msgspec.structs.replace(present, rule=rule, floor=present.floor + 10**6)
            async with liar(cluster, "a", forged):
                assert await cluster.command("finish") == 75
                assert "vouches for configuration 2" in capsys.readouterr().err
                left = [cluster.nodes["b"], cluster.nodes["c"]]
                assert all(node.voting.voter.number == present.number for node in left)

    asyncio.run(main())


def test_a_voter_that_was_away_learns_of_a_change_from_programs(
    tmp_path: Path, operators: Path
) -> None:
    """They pass on the proof, and need no operator secret for that."""

    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE, secret=operators) as cluster:
            present = cluster.nodes["a"].voting.membership.configuration
            standing = await cluster.look()
            part = present.rule.parts[0]
            longer = Part(part.seats, msgspec.structs.replace(part.settings, lock_delay=0.01))
            goal = Goal(present.number, longer, present.members, present.protocol)
            await Change(standing.membership, cluster.config.security, goal).run()
            changed = cluster.nodes["b"].voting.membership.configuration
            assert changed.number == present.number + 1
            away = cluster.nodes["a"]
            # As the disk of a voter that missed it: nobody but the program tells it.
            away.voting.voter.configuration = present
            async with coterie.connect(cluster.url) as program, program.lock("x"):
                await until(lambda: away.voting.voter.number == changed.number, "the news")
            adopted = away.voting.voter.configuration
            assert adopted is not None
            assert adopted.is_same(changed)

    asyncio.run(main())


def test_a_disk_of_an_earlier_version_and_a_new_operator_secret_are_proven_at_the_start(
    tmp_path: Path, operators: Path
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, lease=LEASE) as cluster:  # without an operator secret: no proofs
            present = cluster.nodes["a"].voting.membership.configuration
            assert present.proof == b""
        for secret in ("only operators know this", "and later they know this"):
            operators.write_text(secret)  # noqa: ASYNC240 - nothing runs yet
            again = Fleet(tmp_path, 3, lease=LEASE, secret=operators)
            prover = Prover(again.config.membership.cluster, again.config.security)
            try:
                for name in again.addresses:
                    node = await again.start(name)
                    known = node.voting.membership.configuration
                    assert known.is_same(present)
                    assert prover.is_proven(known)
                async with coterie.connect(again.url) as program, program.lock("x"):
                    pass
            finally:
                for node in again.nodes.values():
                    await node.stop()

    asyncio.run(main())


def test_a_proof_that_a_program_has_kept_moves_no_node_back_nor_to_another_installation() -> None:
    """Two installations may have one name and one operator secret, as after a cluster was set up again."""

    async def main() -> None:
        config = settled()
        async with running(config) as nodes:
            voting = nodes[0].voting
            prover = Prover(config.membership.cluster, config.security)
            first = successor(config)
            second = msgspec.structs.replace(
                first, rule=Rule(2, first.rule.parts), open=(first.rule,), floor=5
            )
            older = msgspec.structs.replace(second, floor=0)
            foreign = msgspec.structs.replace(
                second, rule=Rule(9, first.rule.parts), cluster_identity="another"
            )
            for known in (first, second):
                voting.receive(1, "a program", NewConfiguration(prover.prove(known)))
            for again in (first, older):
                voting.receive(1, "a program", NewConfiguration(prover.prove(again)))
                assert voting.membership.configuration == prover.prove(second)
            with pytest.raises(ProtocolError, match="another installation"):
                voting.receive(1, "a program", NewConfiguration(prover.prove(foreign)))
            assert voting.membership.configuration == prover.prove(second)
            assert voting.voter.number == 2

    asyncio.run(main())


def test_a_proof_covers_everything_and_is_of_one_cluster_and_one_secret() -> None:
    ours, theirs = Security("", operator_secret="x" * 16), Security("", operator_secret="y" * 16)
    prover = Prover("orders", ours)
    present = founding(convert(document(3)).membership.settings)
    decided = msgspec.structs.replace(
        present,
        rule=Rule(1, present.rule.parts),
        members=tuple(Member(seat, f"n{seat}", f"d{seat}", "h:1") for seat in (1, 2, 3)),
        open=(present.rule,),
        cluster_identity="changer",
    )
    proven = prover.prove(decided)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(proven), type=Configuration)
    assert prover.is_proven(sent)
    assert not prover.is_proven(decided)
    assert not Prover("orders", theirs).is_proven(sent)
    assert not Prover("bills", ours).is_proven(sent)
    changes = {
        "rule": Rule(2, present.rule.parts),
        "members": proven.members[:2],
        "floor": 1,
        "open": (),
        "protocol": 8,
        "by": "mallory",
        "last_seat": 9,
        "cluster_identity": "another",
        "proof": bytes(32),
    }
    assert set(changes) == set(Configuration.__struct_fields__)
    for name, value in changes.items():
        assert not prover.is_proven(msgspec.structs.replace(proven, **{name: value})), name
