"""Text that a hostile program or node sends: it reaches no terminal and no log as it is."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.frames import (
    Condition,
    Data,
    Query,
    Release,
    Request,
    SessionName,
)
from coterie.cli import run
from coterie.cluster.membership.config import convert
from coterie.cluster.runtime.logs import make_formatter
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.listener import Listener
from coterie.cluster.wire.voter_frames import (
    BreakHold,
    Figures,
    FindOwners,
    GetStatus,
    HoldBroken,
    NodeStatus,
    SessionReport,
    decode_to_voter,
)
from coterie.locks.deadlocks.reports import LockOwner, OwnerId, Wanted
from coterie.locks.leases.frames import LockReport, LockStanding, OwnerReport, Owners
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from coterie.cluster.membership.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello
    from coterie.cluster.wire.voter_frames import ToVoter

pytestmark = pytest.mark.real

FORGED = "\x1b[2Jx\nd  127.0.0.1:1  votes\u202e\x9b2J\U000e0041"
ILLEGAL = (FORGED, "", " padded", "e\u0301", "x" * 256)


@pytest.mark.parametrize("name", ILLEGAL, ids=["escape", "empty", "space", "unnormalized", "long"])
@pytest.mark.parametrize("kind", [Request, Release])
def test_a_voter_refuses_names_that_no_lock_can_have(
    name: str, kind: type[Request | Release], caplog: pytest.LogCaptureFixture
) -> None:
    config = convert(document(1))

    async def main() -> None:
        async with running(config) as nodes:
            membership = config.membership
            connection = await dial(membership.members[0].address, None)
            identity = new_identity("mallory:1")
            credentials = membership.credentials(b"")
            await Caller(credentials, "participant", identity, "a").greet(connection)
            connection.use(lambda _: None)
            body = Request(name, 1, 5, 5) if kind is Request else Release(name, 1, 0)
            session = SessionName(identity.name, 1)
            connection.send(Data(session, 1, 0, 5, 1.0, (Request("fine", 1, 5, 5), body)))
            async with asyncio.timeout(10):
                await connection.wait_ended()
            assert not nodes[0].voting.voter.ballots, "nothing of the frame is handled"
            async with coterie.connect(url_of(config)) as program, program.lock("fine"):
                pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records]
    [line] = [line for line in lines if "lock name" in line]
    assert line.isprintable()


class LyingNode:
    """A node that answers every question with text that a terminal would obey."""

    def __init__(self, config: Config) -> None:
        self._config = config
        credentials = config.membership.credentials(b"")
        self.listener = Listener(
            config.local_node("a"),
            "a start",
            lambda: 5,
            self._admit,
            credentials=lambda: credentials,
        )

    def _admit(self, connection: Connection, _: Hello) -> None:
        connection.use(lambda frame: self._answer(connection, decode_to_voter(frame)))

    def _answer(self, connection: Connection, question: ToVoter) -> None:
        identity = FORGED
        match question:
            case GetMembership():
                shared = msgspec.msgpack.encode(self._config.membership)
                connection.send(MembershipReply(shared))
            case GetStatus():
                session = SessionReport(identity, FORGED, True, 0.0, 1)
                known = (LockReport(Wanted(FORGED), (identity,), (identity,)),)
                figures = Figures(FORGED, 1.0, 1.0, 1, (session,), 1, 1, known, FORGED)
                connection.send(NodeStatus(figures))
            case Query():
                connection.send(Condition(None, 0, False, FORGED, 7, FORGED))
            case FindOwners(number, locks):
                reports = tuple(LockReport(each, (identity, "b"), (identity,)) for each in locks)
                connection.send(Owners(number, reports, {identity: FORGED, "b": FORGED}))
                owners = (LockOwner(OwnerId(identity, 1), FORGED, FORGED, None),)
                standings = tuple(
                    LockStanding(each, "held", 5, 1.0, (True,), owners, owners) for each in locks
                )
                connection.send(OwnerReport(1, number, identity, standings))
            case BreakHold():
                connection.send(HoldBroken((FORGED,), (FORGED,)))
            case _:
                connection.close("no answer")


COMMANDS = (
    "status nodes",
    "status locks",
    "status waiters",
    "status graph",
    "cluster status",
    "cluster finish",
    "break x --yes",
    "doctor",
    "status nodes -o json",
    "status locks -o json",
    "status graph -o json",
    "cluster status -o json",
)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_no_command_shows_what_a_terminal_would_obey(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = convert(document(1))

    async def main() -> None:
        liar = LyingNode(config)
        await liar.listener.open()
        try:
            await asyncio.to_thread(run, [*arguments.split(), "--url", url_of(config)])
        finally:
            await liar.listener.close()

    asyncio.run(main())
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).split("\n")
    assert any(lines)
    assert all(line.isprintable() for line in lines), [
        line for line in lines if not line.isprintable()
    ]
    assert not any(line.startswith("d ") for line in lines), "no line is forged"


def test_the_text_of_a_log_is_one_line_for_each_event() -> None:
    record = logging.LogRecord("coterie", logging.WARNING, "", 0, "%(text)s", None, None)
    record.args = {"text": FORGED}
    for form in ("text", "json"):
        line = make_formatter(form).format(record)
        assert line.isprintable()
    assert msgspec.json.decode(line)["text"] == FORGED


def test_what_programs_say_of_their_tasks_is_one_line_for_each_row() -> None:
    """A program is asked who it is; it may answer anything that a terminal would obey."""
    config = convert(document(1))
    printed = io.StringIO()

    async def main() -> None:
        url = url_of(config)
        async with running(config), coterie.connect(f"{url}?deadlock-detection=off") as program:
            both = asyncio.Barrier(2)

            async def cross(first: str, second: str) -> None:
                async with program.lock(first):
                    await both.wait()
                    async with program.lock(second):
                        pass

            tasks = [
                asyncio.create_task(cross(*names), name=f"{FORGED} {names}")
                for names in ("xy", "yx")
            ]

            def graph() -> bool:
                with contextlib.redirect_stdout(printed):
                    return run(["status", "graph", "--url", url]) == 1

            while not await asyncio.to_thread(graph):
                printed.seek(0)
                printed.truncate()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    lines = printed.getvalue().split("\n")
    assert any("is deadlocked" in line for line in lines)
    assert all(line.isprintable() for line in lines)
