"""What another program writes into a server that no program of ours writes: it is passed over, or an error."""

from __future__ import annotations

import itertools
import logging
import math
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.engines.queue import engine as queue_engine
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.mail import HoldOrder, encode
from coterie.engines.queue.nonsense import read_author, sensible
from coterie.engines.queue.server import Author, Ticket
from coterie.engines.queue.status import inspect
from coterie.engines.zookeeper import names
from coterie.errors import Unavailable
from coterie.locks import Coordinator
from tests.engines.memory_server import MemoryServer
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from collections.abc import Callable

grpc = pytest.importorskip("grpc")
from coterie.engines.etcd import messages  # noqa: E402 - not without the client

FORGED = "\x1b[2Jx\nd  127.0.0.1:1  votes\u202e"
LETTERS = (
    b"",
    b"\xc1",
    msgspec.msgpack.encode(["Knock"]),
    b"\x92\xa5Knock\xa1\xff",  # no UTF-8
    b"\x93\xa7Inquiry\xa1x" + b"\x91" * 100_000,
)


class Deaf:
    """A program that has entries and does not answer letters."""

    def renewed(self, sent_at: float) -> None: ...

    def closed(self, reason: str, until: float) -> None: ...

    def lost(self, reason: str) -> None: ...

    def mail(self, letter: bytes) -> None: ...


@in_loop
async def test_a_letter_that_makes_no_sense_is_left_aside(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_engine, "UNREADABLE_PAUSE_SECONDS", 0.0)
    server = MemoryServer()
    async with Coordinator(QueueEngine(server), "memory:") as c, c.lock("x"):
        (reader,) = server.sessions
        other = await server.open("other", Deaf(), server.lease)
        with caplog.at_level(logging.WARNING):
            for count, letter in enumerate(LETTERS, 1):
                await other.send(reader, letter)
                await until(lambda count=count: len(caplog.records) == count)  # type: ignore[misc]
        assert all(record.__dict__["event"] == "letter-unreadable" for record in caplog.records)
        assert all(record.getMessage().isprintable() for record in caplog.records)
        assert await c.locked("x")


@in_loop
async def test_any_number_of_letters_costs_few_lines_and_few_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those that cannot be read, and orders of one that stands in no queue."""
    server = MemoryServer()
    engine = QueueEngine(server)
    async with Coordinator(engine, "memory:") as c, c.lock("x") as held:
        (reader,) = server.sessions
        other = await server.open("other", Deaf(), server.lease)
        before = server.requests
        for letter in (b"nonsense", encode(HoldOrder("other", "x"))):
            for _ in range(500):
                server.sessions[reader].told.mail(letter)
        await until(lambda: len(caplog.records) == 2)
        await other.lines(None)
        await until(lambda: not server.under_way.total())
        events = [record.__dict__["event"] for record in caplog.records]
        assert events == ["letter-unreadable", "order-refused"]
        assert server.requests < before + 10
        assert held.valid


@pytest.mark.parametrize(
    "written",
    [
        None,
        b"",
        b"nonsense",
        b"\x93\xa1a\xa1\xff\xcb" + bytes(8),
        msgspec.msgpack.encode(["a", "b"]),
        msgspec.msgpack.encode([1, 2, 3]),
    ],
)
def test_an_entry_whose_author_cannot_be_read_is_of_an_unknown_one(written: bytes | None) -> None:
    assert read_author(written) == Author("unknown", "unknown", 0.0)


@pytest.mark.parametrize("since", [math.inf, -math.inf, math.nan, -1.0, 1e300])
def test_a_time_that_no_clock_shows_is_left_out(since: float) -> None:
    author = Author("a", "host:1", since)
    assert read_author(msgspec.msgpack.encode(author)) == Author("a", "host:1", 0.0)


@in_loop
async def test_the_status_of_a_server_is_shown_with_what_others_have_written() -> None:
    server = MemoryServer()
    session = await server.open("liar", Deaf(), server.lease)
    author = read_author(msgspec.msgpack.encode(Author("liar", FORGED, math.inf)))
    await session.join(Ticket(FORGED, False, 1), author, None)
    await session.join(Ticket(FORGED, False, 2), author, None)
    state = await inspect(QueueEngine(server), locks=True)
    assert [lock.name for lock in state.locks] == [FORGED], "it is made legible where it is shown"
    assert all(party.since == 0 for lock in state.locks for party in lock.waiters)


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "x-a-1-2-p",
        "x-a-1-\u00b2-p-5",
        "x-a-1-5-p-\u00b2",
        "x-a-1-5-p-" + "9" * 5000,
        "x-a-1-" + "9" * 5000 + "-p-5",
        "y-a-1-5-p-5",
    ],
)
def test_a_node_that_is_no_entry_is_left_aside(name: str) -> None:
    honest = "x-b-1-1700000000000-host:1-0000000007"
    assert [node.name for node in names.line([name, honest])] == [honest]


def test_no_message_of_etcd_raises_what_is_not_taken_for_nonsense() -> None:
    entry = messages.chunk(1, b"coterie/q/x:x.1.1") + messages.chunk(5, b"value")
    key_value = entry + messages.number(2, 5) + messages.number(3, 5)
    header = messages.chunk(1, messages.number(3, 7))
    range_answer = header + messages.chunk(2, key_value)
    answers: dict[Callable[[bytes], object], bytes] = {
        messages.found: range_answer,
        messages.done: header
        + messages.number(2, 1)
        + messages.chunk(3, messages.chunk(1, range_answer)),
        messages.lease: header + messages.number(2, 9) + messages.number(3, 5),
        messages.status: header + messages.chunk(2, b"3.5.0") + messages.number(4, 9),
        messages.watched: header
        + messages.number(2, 3)
        + messages.chunk(11, messages.chunk(2, key_value)),
    }
    dice, refused, read = Random(1), 0, 0
    for decode, answer in itertools.product(answers, answers.values()):
        decode(answers[decode])
        for _ in range(400):
            changed = bytearray(answer)
            for _ in range(dice.randrange(1, 4)):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            del changed[dice.choice((len(changed), dice.randrange(len(changed)))) :]
            try:
                with sensible("etcd"):
                    decode(bytes(changed))
            except Unavailable as error:
                refused += str(error).isprintable()
            else:
                read += 1
    assert refused > 1000
    assert read > 1000


def test_an_error_of_ours_is_none_of_the_server() -> None:
    with pytest.raises(coterie.LockLost), sensible("server"):
        raise coterie.LockLost("it was lost")
    with pytest.raises(AssertionError), sensible("server"):
        raise AssertionError("a bug")
