"""A voter that answers a changer absurdly: the change ends by what the others say.

What is of a legal form and makes sense is believed, as of every voter: the protocol bears voters that
stop, and none that lie on purpose. So no lie here is a newer configuration that could have been decided.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.changer import Goal
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Ack,
    Answer,
    Attempt,
    Behind,
    Close,
    Closed,
    Condition,
    Frame,
    Nack,
    NewConfiguration,
    Prepare,
    Promise,
    Proposal,
    Query,
    Refused,
    Reply,
    SessionName,
    Stale,
)
from coterie.cluster.change.host import Change
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import check_decided
from coterie.cluster.wire.frames import ClassicMessage, GetMembership, Receipt, Refusal, Welcome
from coterie.cluster.wire.listener import Listener
from coterie.cluster.wire.voter_frames import decode_to_voter
from coterie.errors import ProtocolError
from tests.cluster.absurd import absurd
from tests.cluster.local_cluster import document, running, until
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.cluster.membership.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello

SESSION = SessionName("participant", 1, "liar/1")
LIES = 100
LATER = Attempt(99, "~")  # than any that these changes make


def answers(request: Any, present: Configuration) -> Iterator[msgspec.Struct]:
    """List what voters may answer, and what they answer to other questions."""
    number = present.number
    attempt = request.attempt if isinstance(request, Prepare | Accept) else Attempt(1, "changer")
    rule = Rule(number + 1, present.rule.parts)
    successor = msgspec.structs.replace(present, rule=rule, open=(present.rule,))
    identity = present.members[0].identity
    yield Condition(present, 0, False, identity, 7)
    yield Condition(None, 0, False, identity, 7)
    yield Promise(number, attempt, Proposal(attempt, successor), present)
    yield Promise(number, attempt, None, present)
    yield Accepted(number + 1, attempt)
    yield Refused(number + 1, attempt)
    yield Refused(number, None)
    yield Refused(number, LATER)
    yield Closed(number, True, 5)
    yield Closed(request.number if isinstance(request, Close) else 0, True, 5)


def others(present: Configuration) -> tuple[msgspec.Struct, ...]:
    """List frames that no changer is sent."""
    return (
        Ack(SESSION, 1, 5, 1.0, grace=False),
        Answer(SESSION, alive=True),
        Behind(5),
        ClassicMessage(1, "x", b""),
        Nack(SESSION),
        NewConfiguration(present),
        Query(),
        Receipt(1),
        Refusal("no"),
        Reply(SESSION, 1, 1, 5, 1.0, False, ()),
        Stale(present),
        GetMembership(),
        Welcome("a", "test", "digest", 5, None, "a start", b"challenge", b""),
    )


def named_in(value: Any) -> Iterator[Configuration]:
    """Find all configurations in a frame."""
    if isinstance(value, Configuration):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from named_in(getattr(value, name))


def could_be_decided(lie: msgspec.Struct, present: Configuration) -> bool:
    """Return whether a frame names a newer configuration that makes sense."""
    try:
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(lie), type=Frame)
        for configuration in named_in(sent):
            check_decided(configuration)
    except (ProtocolError, msgspec.MsgspecError, OverflowError):
        return False
    return any(configuration.number > present.number for configuration in named_in(sent))


class Liar:
    """The first voter, by its name, its address and its disk."""

    def __init__(self, config: Config, present: Configuration, seed: int) -> None:
        self.present = present
        self.lies = 0
        self._dice = Random(seed)
        credentials = config.membership.after(present).credentials(b"")
        identity = present.members[0].identity
        self.listener = Listener(
            config.local_node("a"),
            "a start",
            lambda: 5,
            self._admit,
            credentials=lambda: credentials,
            disk=lambda: identity,
        )

    def _admit(self, connection: Connection, _: Hello) -> None:
        connection.use(lambda frame: self._answer(connection, decode_to_voter(frame)))

    def _answer(self, connection: Connection, request: Any) -> None:
        self.lies += 1
        match self._dice.randrange(20):
            case 0:
                connection.transport.write(b"\0\0\0\x08" + self._dice.randbytes(8))
            case 1:
                connection.transport.write(b"\0\0\0\x08" + self._dice.randbytes(4))
                connection.close("half way")
            case 2:
                connection.abort("now")
            case 3:
                connection.send(self._dice.choice(others(self.present)))
            case _:
                connection.send(self._lie(request))

    def _lie(self, request: Any) -> msgspec.Struct:
        while True:
            truth = self._dice.choice(list(answers(request, self.present)))
            lie: msgspec.Struct = self._dice.choice([truth, *absurd(truth)])
            if not could_be_decided(lie, self.present):
                return lie


def other_lease(present: Configuration) -> Goal:
    """Return the goal of a lease that is a little longer."""
    part = present.rule.parts[0]
    longer = msgspec.structs.replace(part.settings, lease=part.settings.lease + 0.01)
    return Goal(present.number, Part(part.seats, longer), present.members, present.protocol)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_change_ends_whatever_one_of_three_voters_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    async def main() -> None:
        config = convert(document(3, data="data"), tmp_path)
        async with running(config) as nodes:
            known = nodes[1].voting
            await until(lambda: known.voter.number == 1, "configuration 1")
            await until(lambda: not known.membership.configuration.open, "the end of number 0")
            await nodes[0].stop()
            liar = Liar(config, known.membership.configuration, seed)
            await liar.listener.open()
            before = asyncio.all_tasks()
            while liar.lies < LIES:
                membership = config.membership.after(liar.present)
                goal = other_lease(liar.present)
                liar.present = await Change(membership, config.security, goal).run()
                assert liar.present.rule.parts == (goal.part,)
                assert asyncio.all_tasks() <= before
            await liar.listener.close()

    with caplog.at_level(logging.ERROR):
        run(monkeypatch, main)
    assert not caplog.records, caplog.text


def test_an_error_on_the_way_ends_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the caller, who would wait in vain otherwise."""

    def fail(_: Configuration) -> None:
        raise OSError("no room for a line of output")

    async def main() -> None:
        config = convert(document(3, data="data"), tmp_path)
        async with running(config) as nodes:
            known = nodes[0].voting
            await until(lambda: known.voter.number == 1, "configuration 1")
            await until(lambda: not known.membership.configuration.open, "the end of number 0")
            goal = other_lease(known.membership.configuration)
            change = Change(known.membership, config.security, goal, fail)
            with pytest.raises(OSError, match="no room"):
                await change.run()
            # The same of an answer that the changer cannot bear, though it was let through.
            goal = msgspec.structs.replace(goal, base=2, part=Part((1, 2, 3), "nonsense"))  # type: ignore[arg-type]
            with pytest.raises(AttributeError):
                await Change(known.membership, config.security, goal).run()

    run(monkeypatch, main)
