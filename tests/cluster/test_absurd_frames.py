"""Frames of legal types with absurd values: in the handshake, and from a node to a program.

A peer that sends them loses its connection, and the log has one line about it that can be read. A node
that lies hurts itself only: a program goes on with the others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Data,
    Grant,
    Inquire,
    Nack,
    Raised,
    Reply,
    Request,
    SessionName,
)
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.cluster.client import queries
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import check_learnt
from coterie.cluster.node import Node
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import Hello, MembershipReply, Proof, Refusal, Welcome
from coterie.cluster.wire.handshake import Caller, Credentials, Greeter, new_identity
from coterie.cluster.wire.listener import Listener
from coterie.cluster.wire.voter_frames import (
    Abstention,
    AskDeath,
    Deaths,
    Figures,
    FindOwners,
    NodeStatus,
    SessionReport,
    TokenBound,
    decode_to_voter,
)
from coterie.errors import ProtocolError
from coterie.locks.deadlocks.reports import LockOwner, LockWait, OwnerId, Requester, Wanted
from coterie.locks.leases.frames import (
    LOCKS_ASKED_MAX,
    AskOwner,
    LockReport,
    LockStanding,
    OwnerReport,
    Owners,
)
from coterie.locks.legible import TEXT_LENGTH_MAX, legible
from tests.cluster.absurd import absurd
from tests.cluster.local_cluster import document, until, url_of
from tests.cluster.test_connection import Wire, framed
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from coterie.cluster.membership.config import Config

LINE_LENGTH_MAX = TEXT_LENGTH_MAX * 4 + 200  # what cannot be printed takes four characters or more
CREDENTIALS = Credentials("test", "digest")
IDENTITY = new_identity("test:1")


def insist_on_readable_lines(caplog: pytest.LogCaptureFixture) -> None:
    for record in caplog.records:
        line = record.getMessage()
        assert record.levelno < logging.ERROR, line
        assert line.isprintable(), line
        assert len(line) < LINE_LENGTH_MAX, line


# The handshake


def answered(*frames: msgspec.Struct) -> tuple[bool, bool]:
    """Send frames to a node; return whether it has let the caller in, and whether it goes on."""
    admitted: list[Hello] = []

    def admit(connection: Connection, hello: Hello) -> None:
        connection.use(lambda _: None)
        admitted.append(hello)

    greeter = Greeter(lambda: CREDENTIALS, "a", "a start", lambda: 5, admit)
    connection = Connection(greeter.greet)
    connection.connection_made(Wire())
    for frame in frames:
        if not connection.closed:
            connection.data_received(framed(msgspec.msgpack.encode(frame)))
    goes_on = not connection.closed
    connection.connection_lost(None)
    return bool(admitted), goes_on


def test_no_value_in_a_hello_or_a_proof_makes_a_node_stumble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hello = Caller(CREDENTIALS, "participant", IDENTITY, "a").hello
    proof = Proof(b"", IDENTITY.key)

    async def main() -> None:
        assert answered(hello, proof) == (True, True)
        for frames in (
            *((other, proof) for other in absurd(hello)),
            *((hello, other) for other in absurd(proof)),
        ):
            caplog.clear()
            admitted, goes_on = answered(*frames)
            assert admitted == goes_on
            assert len(caplog.records) == (not admitted)
            insist_on_readable_lines(caplog)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


async def greeted(frame: msgspec.Struct) -> str:
    """Answer a caller by that frame; return why it is not content."""
    connection = Connection()
    connection.connection_made(Wire())
    caller = Caller(CREDENTIALS, "participant", IDENTITY, "a", clock_error=1.0)
    greeting = asyncio.ensure_future(caller.greet(connection))
    await asyncio.sleep(0)
    connection.data_received(framed(msgspec.msgpack.encode(frame)))
    connection.connection_lost(None)
    try:
        await greeting
    except ProtocolError as error:
        return str(error)
    return ""


def test_no_value_in_a_welcome_or_a_refusal_makes_a_caller_stumble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    welcome = Welcome("a", "test", "digest", 5, None, "a start", b"challenge", b"")
    dated = msgspec.structs.replace(welcome, wall=0.0)

    async def main() -> None:
        assert not await greeted(welcome)
        for other in (*absurd(welcome), *absurd(dated), *absurd(Refusal("why"))):
            trouble = await greeted(other)
            assert trouble.isprintable()
            assert len(trouble) < LINE_LENGTH_MAX

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    insist_on_readable_lines(caplog)


def test_what_a_peer_writes_is_shown_on_one_line_and_not_obeyed() -> None:
    assert legible("a\nb\x1b[2J\u202e") == "a\\nb\\x1b[2J\\u202e"
    assert len(legible("x" * 10_000)) == TEXT_LENGTH_MAX + 2


# What a node says to a program


def lies(identity: str, config: Config) -> list[msgspec.Struct]:
    session = SessionName(identity, 1, "liar/1")
    wait = LockWait(1, all_of(Wanted("x")), 5, 1.0)
    owner = LockOwner(OwnerId(identity, 1), "host:1", "task", wait)
    standing = LockStanding(Wanted("x"), "held", 5, 1.0, (True,), (owner,), (owner,))
    figures = Figures("1", 1.0, 0.0, 1, (SessionReport("i", "l", True, 0.0, 1),), 1, 1, ())
    bodies = (Grant("x0", 1, 1, 9, True), Raised("x0", 1, 1, 9), Inquire("x0", 1, 2))
    truths = (
        Reply(session, 1, 1, 5, 1.0, False, bodies),
        Ack(session, 1, 5, 1.0, grace=False),
        Answer(session, alive=True),
        Nack(session),
        Owners(1, (LockReport(Wanted("x"), (identity,), (identity,)),), {identity: "host:1"}),
        AskOwner(1, 1, (Wanted("x0", shared=True, requester=Requester("p", 1)),), search=True),
        OwnerReport(1, 1, identity, (standing,)),
        MembershipReply(msgspec.msgpack.encode(config.membership)),
        TokenBound("a", 5),
        NodeStatus(figures),
        Abstention(1.0, "why"),
        AskDeath(("kernel 1 0 5:7",)),
        Deaths(("kernel 1 0 5:7",)),
    )
    return [lie for truth in truths for lie in (truth, *absurd(truth))]


def test_a_program_with_three_nodes_goes_on_whatever_one_of_them_says(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(document(3))
    clocks = iter([(1 << 64) - 1, 0, 1 << 63] * 1000)
    lines: dict[Connection, Hello] = {}  # at most one, but for the moment in which it is replaced

    def admit(connection: Connection, hello: Hello) -> None:
        def leave(_: str) -> None:
            del lines[connection]

        connection.use(lambda _: None, leave)
        lines[connection] = hello

    async def main() -> list[int]:
        mine = config.membership.credentials(b"")
        liar = Listener(
            config.local_node("a"), "a start", lambda: next(clocks), admit, credentials=lambda: mine
        )
        await liar.open()
        nodes = [Node(config, name, new_cluster=True) for name in ("b", "c")]
        for node in nodes:
            await node.start()
        addresses = ",".join(url_of(config).split(",")[1:])
        tokens = []
        async with coterie.connect(f"coterie://{addresses}") as coordinator:
            await until(lambda: lines, "the program to call the liar")
            [hello] = lines.values()
            for number, lie in enumerate(lies(hello.identity, config)):
                await until(lambda: lines, "the program to call again")
                list(lines)[-1].send(lie)
                async with coordinator.lock(f"x{number % 3}") as held:
                    assert held.valid
                    assert held.token is not None
                    tokens.append(held.token)
            assert await coordinator.locked("x0") is False
        for node in nodes:
            await node.stop()
        await liar.close()
        return tokens

    with caplog.at_level(logging.WARNING):
        tokens = run(monkeypatch, main)
    assert len(tokens) > 200
    assert max(tokens) < 1 << 62
    insist_on_readable_lines(caplog)


def test_a_configuration_that_makes_no_sense_is_not_believed() -> None:
    membership = convert(document(3)).membership
    check_learnt(membership, membership.digest)
    with pytest.raises(ProtocolError, match="is not the one that it uses"):
        check_learnt(membership, "another")
    refused = 0
    for lie in absurd(membership):
        try:
            learnt = msgspec.msgpack.decode(msgspec.msgpack.encode(lie), type=type(membership))
            check_learnt(learnt, learnt.digest)
        except (ProtocolError, msgspec.ValidationError):
            refused += 1
        else:
            participant(learnt.configuration, 1)
    assert refused > 50


# Questions about locks


class Program:
    """A program in the process of its node: what it is sent."""

    def __init__(self, voting: VoterHost, name: str) -> None:
        self.name = name
        self.got: list[Any] = []
        self._voting = voting
        self._number = voting.attach(Hello(5, "", "", "participant", name, name, b""), self)

    def send(self, frame: Any) -> None:
        self.got.append(frame)

    def say(self, frame: msgspec.Struct) -> None:
        """Send a frame, as it is decoded on its way."""
        decoded = decode_to_voter(msgspec.msgpack.encode(frame))
        self._voting.receive(self._number, self.name, decoded)


def voter() -> VoterHost:
    def fail(error: OSError) -> None:
        raise error

    def reach(name: str, address: str, done: Any) -> None:
        raise AssertionError(f"{name} at {address} is not called here: {done}")

    membership = convert(document(1)).membership
    voting = VoterHost(membership, "a", None, fail, reach=reach, new_cluster=True)
    voting.start()
    return voting


def test_a_question_about_too_many_locks_is_refused() -> None:
    async def main() -> None:
        asking = Program(voter(), "asking")
        locks = tuple(Wanted(str(number)) for number in range(LOCKS_ASKED_MAX))
        asking.say(FindOwners(1, locks, search=True))
        with pytest.raises(msgspec.ValidationError):
            asking.say(FindOwners(1, (*locks, Wanted("one more")), search=True))

    asyncio.run(main())


class Asked:
    """Voters that know of no lock; which questions they were asked."""

    def __init__(self, asking: queries.Queries) -> None:
        self.membership = convert(document(3)).membership
        self.lease = self.membership.settings.lease
        self.participant = participant(founding(self.membership.settings), 1)
        self.questions: list[FindOwners] = []
        self._asking = asking

    def reachable(self) -> list[int]:
        return [1, 2, 3]

    def ask(self, voter: int, question: FindOwners) -> None:
        self.questions.append(question)
        known = tuple(LockReport(wanted, (), ()) for wanted in question.locks)
        self._asking.learn(voter, Owners(question.question, known, {}))


def test_a_search_asks_about_many_locks_in_several_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "LOCKS_ASKED_MAX", 2)
    locks = [Wanted(str(number)) for number in range(5)]

    async def main() -> list[FindOwners]:
        asking = queries.Queries()
        host: Any = Asked(asking)
        assert await asking.holds(host, locks) == {lock: [] for lock in locks}
        return host.questions  # type: ignore[no-any-return]  # it is not the host that it plays

    questions = asyncio.run(main())
    assert max(len(question.locks) for question in questions) == 2
    assert {lock for question in questions for lock in question.locks} == set(locks)


def test_an_answer_does_not_grow_with_the_requesters_that_a_question_makes_up() -> None:
    async def main() -> list[Any]:
        voting = voter()
        for number in range(200):
            sharing = Program(voting, f"sharing-{number}")
            body = Request("x", 1, 5, 5, shared=True)
            sharing.say(Data(SessionName(sharing.name, 1), 1, 0, 5, 1.0, (body,)))
        asking = Program(voting, "asking")
        for shared in (True, False):
            locks = tuple(
                Wanted("x", shared=shared, requester=Requester(f"made-up-{number}", number))
                for number in range(LOCKS_ASKED_MAX)
            )
            if shared:
                asking.say(FindOwners(1, locks, search=True))
            else:
                with pytest.raises(ProtocolError, match="not to be shared"):
                    asking.say(FindOwners(1, locks, search=True))
        return asking.got

    [owners] = asyncio.run(main())
    named = [name for known in owners.locks for name in (*known.owners, *known.queue)]
    assert len(owners.locks) == LOCKS_ASKED_MAX
    assert not named, "none of them waits, and no owner keeps others from sharing"


@pytest.mark.parametrize("since", [float("nan"), float("inf"), -1.0, 1e308])
def test_a_report_with_a_time_that_no_clock_shows_is_refused(since: float) -> None:
    async def main() -> None:
        program = Program(voter(), "program")
        wait = LockWait(1, all_of(Wanted("x")), 5, since)
        owner = LockOwner(OwnerId("program", 1), "host:1", "task", wait)
        for report in (
            LockStanding(Wanted("x"), "held", 5, since),
            LockStanding(Wanted("x"), "held", 5, 1.0, (), (owner,)),
        ):
            with pytest.raises(msgspec.ValidationError):
                program.say(OwnerReport(1, 1, "program", (report,)))

    asyncio.run(main())


def test_a_report_with_nested_waits_is_refused() -> None:
    """A search would follow them, however deep they are; programs wait for locks alone."""
    deep = all_of(Wanted("x"))
    for _ in range(300):
        deep = all_of(deep)

    async def main() -> None:
        program = Program(voter(), "program")
        owner = LockOwner(OwnerId("program", 1), "host:1", "task", LockWait(1, deep, 5, 1.0))
        standing = LockStanding(Wanted("x"), "held", 5, 1.0, (), (owner,))
        with pytest.raises(ProtocolError, match="groups of locks"):
            program.say(OwnerReport(1, 1, "program", (standing,)))

    asyncio.run(main())
