"""The tables in docs/deploy/operators.md: every kind of frame, from every role, to a node and to a program."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Ack,
    Answer,
    Attempt,
    Beat,
    Behind,
    Bye,
    Close,
    Closed,
    Condition,
    CopyValue,
    Data,
    GetValue,
    ListValues,
    Look,
    Nack,
    NewConfiguration,
    Prepare,
    Probe,
    Promise,
    Query,
    Refused,
    Reply,
    Request,
    Seen,
    SessionName,
    Stale,
    Term,
    ValueCopied,
    ValueFound,
    ValueList,
)
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.cluster.classic.frames import (
    GetClassicStatus,
    GetRecords,
    Question,
    StartRecording,
    decode_answer,
)
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.membership.proof import Prover
from coterie.cluster.wire.frames import (
    ClassicMessage,
    GetMembership,
    MembershipReply,
    Receipt,
    Role,
    decode_receipt,
)
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import (
    Abstention,
    AbstentionEnded,
    AskDeath,
    BreakHold,
    Deaths,
    EndAbstention,
    Figures,
    FindOwners,
    FromVoter,
    GetAbstention,
    GetStatus,
    GetTokenBound,
    HoldBroken,
    Impose,
    NodeStatus,
    Reach,
    Reached,
    TokenBound,
    ToVoter,
    decode_from_voter,
)
from coterie.errors import ProtocolError
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.leases.frames import AskOwner, OwnerReport, Owners
from tests.cluster.local_cluster import document, running
from tests.cluster.test_cluster_engine import World, in_world

if TYPE_CHECKING:
    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.node import Node
    from coterie.cluster.wire.connection import Connection

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[2] / "docs" / "deploy" / "operators.md"
SECRETS = Security("s" * 16, operator_secret="o" * 16)
ATTEMPT = Attempt(1, "changer")
SENDERS: tuple[tuple[Role, str], ...] = (
    ("participant", "itself"),
    ("participant", "another"),
    ("admin", ""),
    ("operator", ""),
)


def table(mark: str) -> dict[str, list[str]]:
    """Return the row of each frame in one of the tables."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- {mark} -->")[2].lstrip("\n")
    rows: dict[str, list[str]] = {}
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        frames, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for frame in re.findall(r"`(\w+)`", frames):
            assert frame not in rows, f"{frame} has two rows"
            rows[frame] = cells
    return rows


def settled() -> Config:
    return msgspec.structs.replace(convert(document(1)), security=SECRETS)


def successor(config: Config) -> Configuration:
    """Return what the voter of a cluster that is not formed could have decided."""
    present, [member] = config.membership.configuration, config.membership.members
    return Configuration(
        Rule(1, present.rule.parts),
        (Member(1, member.name, "", str(member.address)),),
        open=(present.rule,),
        protocol=7,
        by="changer",
        last_seat=1,
        cluster_identity="changer",
    )


def frames_to_a_voter(config: Config, name: str) -> dict[type, msgspec.Struct]:
    """Make a frame of each kind, that a program of this name could send of itself."""
    session, decided = SessionName(name, 1), successor(config)
    made = (
        Data(session, 1, 0, 5, 1.0, (Request("x", 1, 5, 5),)),
        Beat(session, 0, 5, 2.0),
        Probe(session),
        Term(session, 0.5),
        Bye(session),
        NewConfiguration(decided),
        Look(1, "x", 0, 0),
        ListValues(0),
        GetValue("x"),
        CopyValue(0, "x", StoredValue(1, 1, b"data")),
        Query(),
        Close(0),
        Prepare(0, ATTEMPT),
        Accept(ATTEMPT, decided),
        Impose(decided),
        Reach("b", "127.0.0.1:1"),
        BreakHold("held by another", ("holder",), 1 << 62),
        EndAbstention(),
        AskDeath(("a kernel 1",)),
        Deaths(("a kernel 1",)),
        FindOwners(1, (Wanted("x"),), search=True),
        OwnerReport(1, 1, name, ()),
        GetMembership(),
        GetTokenBound(),
        GetStatus(locks=True),
        GetAbstention(),
    )
    return {type(frame): frame for frame in made}


async def outcome(connection: Connection, answered: asyncio.Event) -> str:
    """Wait until the node has answered or ended the connection; return which."""
    waits = [asyncio.ensure_future(each) for each in (answered.wait(), connection.wait_ended())]
    async with asyncio.timeout(10):
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    refused = not answered.is_set()
    for each in waits:
        each.cancel()
    connection.close("all is said")
    await connection.wait_closed()
    return "refused" if refused else "taken"


async def fate(node: Node, config: Config, role: Role, whose: str, kind: type) -> str:
    """Send a frame as this role may see itself; return what becomes of it."""
    identity, other = new_identity("a program:1"), new_identity("another program:1")
    name = other.name if whose == "another" else identity.name
    frame = frames_to_a_voter(config, name)[kind]
    connection = await dial(config.membership.members[0].address, None)
    answered = asyncio.Event()

    def take(answer: memoryview) -> None:
        if isinstance(decode_from_voter(answer), Abstention):
            answered.set()

    security = config.security
    operator = security.operator_bytes() if role == "operator" else b""
    credentials = node.voting.membership.credentials(security.secret_bytes(), operator)
    await Caller(credentials, role, identity, "a").greet(connection)
    connection.use(take)
    connection.send(frame)
    connection.send(GetAbstention())
    return await outcome(connection, answered)


def test_the_table_has_every_kind_of_frame() -> None:
    assert set(table("to-voter")) == {kind.__name__ for kind in get_args(ToVoter)}
    assert set(table("from-voter")) == {kind.__name__ for kind in get_args(FromVoter)}
    assert set(frames_to_a_voter(settled(), "x")) == set(get_args(ToVoter))


@pytest.mark.parametrize("kind", get_args(ToVoter), ids=lambda kind: kind.__name__)
def test_a_node_does_with_each_frame_what_the_table_says(kind: type) -> None:
    expected = table("to-voter")[kind.__name__]
    assert len(expected) == len(SENDERS)

    async def main() -> None:
        for (role, whose), says in zip(SENDERS, expected, strict=True):
            config = settled()
            async with running(config) as nodes:
                [node] = nodes
                found = await fate(node, config, role, whose, kind)
                number = node.voting.voter.number
                if says == "with its proof":
                    assert (found, number) == ("taken", 0), "without a proof nothing follows"
                    proven = Prover(config.membership.cluster, SECRETS).prove(successor(config))
                    node.voting.receive(1, "a program", NewConfiguration(proven))
                    assert node.voting.voter.number == 1
                    continue
                assert found == says, (role, whose)
                changes = kind in (NewConfiguration, Impose) and says == "taken"
                assert number == int(changes), (role, whose)
                if says == "refused":
                    assert not node.voting.voter.ballots

    asyncio.run(main())


def test_no_other_role_is_let_in_and_none_without_its_secret() -> None:
    async def main() -> None:
        config = settled()
        async with running(config):
            membership = config.membership
            known = membership.credentials(config.security.secret_bytes())
            for role in ("peer", "operator"):
                connection = await dial(membership.members[0].address, None)
                caller = Caller(known, role, new_identity("a"), "a")
                with contextlib.suppress(ProtocolError):
                    await caller.greet(connection)
                    assert role == "peer", "an operator has to prove the operator secret"
                    connection.use(lambda _: None)
                    async with asyncio.timeout(10):
                        await connection.wait_ended()
                connection.close("over")
                await connection.wait_closed()

    asyncio.run(main())


def next_of(host: ParticipantHost) -> Configuration:
    """Return a configuration that its voters could have decided."""
    present, members = host.membership.configuration, host.membership.members
    return Configuration(
        Rule(present.number + 1, present.rule.parts),
        tuple(
            Member(seat, member.name, "", str(member.address))
            for seat, member in enumerate(members, 1)
        ),
        open=(present.rule,),
        protocol=7,
        last_seat=len(members),
    )


def frames_to_a_program(host: ParticipantHost) -> dict[type, Any]:
    """Make a frame of each kind, that a node could send."""
    decided = host.membership.configuration
    session = SessionName(host.name, 1, "nonce")
    frames = (
        Reply(session, 1, 1, 5, 1.0, False, ()),
        Ack(session, 1, 5, 1.0, grace=False),
        Answer(session, alive=True),
        Nack(session),
        Behind(0),
        Stale(decided),
        NewConfiguration(decided),
        Condition(decided, 0, False),
        Closed(0, True, 5),
        Promise(0, ATTEMPT, None, decided),
        Accepted(1, ATTEMPT),
        Refused(1, None),
        Seen(1, "x", NOTHING),
        ValueList("", (), more=False),
        ValueFound("x", NOTHING),
        ValueCopied(0, "x", 1, 1),
        Reached("", ""),
        HoldBroken((), ()),
        AbstentionEnded((), ""),
        Owners(1, (), {}),
        AskOwner(1, 1, (Wanted("x"),), search=True),
        AskDeath(("a kernel 1",)),
        Deaths(("a kernel 1",)),
        OwnerReport(1, 1, "another", ()),
        MembershipReply(b""),
        TokenBound("a", 5),
        NodeStatus(Figures("1", 1.0, 0.0, 1, (), 0, 0, ())),
        Abstention(1.0, "why"),
    )
    return {type(frame): frame for frame in frames}


def test_a_program_does_with_each_frame_what_the_table_says() -> None:
    expected = table("from-voter")

    async def test(made: World) -> None:
        host = made.host()
        frames = frames_to_a_program(host)
        assert set(frames) == set(get_args(FromVoter))
        for kind, frame in frames.items():
            if expected[kind.__name__][0].startswith("refused"):
                with pytest.raises(ProtocolError, match="without a question"):
                    host.receive(1, frame)
            else:
                host.receive(1, frame)
        news = next_of(host)
        for kind in (NewConfiguration, Stale):
            assert expected[kind.__name__] == expected["NewConfiguration"]
            host.receive(1, kind(news))
            assert host.participant.sessions.known == 0, "one voter of three says it"
        host.receive(2, Stale(news))
        assert host.participant.sessions.known == 1, "a quorum says it"

    in_world(test)


# Nodes of classic algorithms


CLASSIC_ROLES: tuple[Role, ...] = ("peer", "admin", "participant", "operator")
CLASSIC_FRAMES: dict[type, msgspec.Struct] = {
    type(frame): frame
    for frame in (
        ClassicMessage(1, "x", b""),
        GetMembership(),
        GetClassicStatus(),
        StartRecording(),
        GetRecords(),
    )
}


async def classic_fate(config: Config, role: Role, kind: type) -> str:
    """Send a frame to node a as this role; return what becomes of it."""
    membership = config.membership
    connection = await dial(membership.members[0].address, None)
    answered = asyncio.Event()
    asked: list[msgspec.Struct] = [StartRecording()] if kind is GetRecords else []
    asked.append(CLASSIC_FRAMES[kind])
    answers: list[Any] = []

    def take(answer: memoryview) -> None:
        if role != "peer":
            answers.append(decode_answer(answer))
            if len(answers) == len(asked):
                answered.set()
        elif isinstance(receipt := decode_receipt(answer), Receipt) and receipt.seq:
            answered.set()

    await Caller(membership.credentials(b""), role, new_identity("b"), "a").greet(connection)
    connection.use(take)
    for frame in asked:
        connection.send(frame)
    return await outcome(connection, answered)


@pytest.mark.parametrize("kind", CLASSIC_FRAMES, ids=lambda kind: kind.__name__)
def test_a_node_of_a_classic_algorithm_does_with_each_frame_what_the_table_says(kind: type) -> None:
    expected = table("to-classic")
    assert set(expected) == {each.__name__ for each in CLASSIC_FRAMES}
    assert set(get_args(Question)) | {ClassicMessage} == set(CLASSIC_FRAMES)
    says = expected[kind.__name__]
    config = convert(document(2, algorithm="lamport"))

    async def main() -> None:
        for role, cell in zip(CLASSIC_ROLES, (*says, says[-1]), strict=True):
            node = Classic(config, "a", Program())
            await node.start()
            try:
                assert await classic_fate(config, role, kind) == cell, role
            finally:
                await node.stop()

    asyncio.run(main())
