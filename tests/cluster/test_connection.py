"""Frames on a connection: cut, joined, limited, and kept back from those who do not read."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from coterie.cluster.wire import connection as wire_connection
from coterie.cluster.wire.connection import (
    BACKLOG_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    Connection,
    at_end_of_turn,
)
from coterie.cluster.wire.frames import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable


class Wire(asyncio.Transport):
    """The other side of a connection, as far as tests need it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 5)})
        self.written: list[bytes] = []
        self.reading = True
        self.ended = ""
        self.unread = 0

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def framed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(content)) + content for content in contents)


def test_frames_that_come_before_there_is_a_user_are_kept_for_it() -> None:
    """With TLS, the first frame comes with the end of the handshake, before anybody asks for it."""
    taken: list[bytes] = []

    async def main() -> None:
        connection = Connection()
        connection.connection_made(Wire())
        connection.data_received(framed(b"one") + framed(b"two")[:5])
        connection.use(lambda frame: taken.append(bytes(frame)))
        connection.data_received(framed(b"two")[5:] + framed(b"three"))
        assert not taken, "its user has not finished what it does"
        await asyncio.sleep(0)
        connection.data_received(framed(b"four"))

    asyncio.run(main())
    assert taken == [b"one", b"two", b"three", b"four"]


def test_a_peer_that_sends_much_before_there_is_a_user_is_cut_off() -> None:
    reasons: list[str] = []

    async def main() -> None:
        wire = Wire()
        connection = Connection(complain=lambda _, reason: reasons.append(reason))
        connection.connection_made(wire)
        connection.data_received(bytes(HANDSHAKE_BYTES_MAX + 4))
        assert not connection.closed
        connection.data_received(b"0")
        assert wire.ended == "closed"

    asyncio.run(main())
    assert reasons == ["more than 16388 bytes before it was asked for any"]


class End(NamedTuple):
    """One end of a connection, and what it was given."""

    connection: Connection
    wire: Wire
    frames: list[bytes]


def on_a_connection(test: Callable[[End], object]) -> None:
    async def main() -> None:
        end = End(Connection(), Wire(), [])
        end.connection.connection_made(end.wire)
        end.connection.use(lambda frame: end.frames.append(bytes(frame)))
        outcome = test(end)
        if asyncio.iscoroutine(outcome):
            await outcome

    asyncio.run(main())


@pytest.mark.parametrize("piece", range(1, 16))
def test_frames_arrive_whole_however_the_bytes_are_cut(piece: int) -> None:
    def test(end: End) -> None:
        stream = framed(b"one", b"", b"three", b"4")
        for start in range(0, len(stream), piece):
            end.connection.data_received(stream[start : start + piece])
        assert end.frames == [b"one", b"", b"three", b"4"]

    on_a_connection(test)


def test_a_frame_that_trickles_in_is_copied_a_few_times_and_not_once_per_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = 0

    class CountedBuffer(bytearray):
        """Counts what is put into it."""

        def extend(self, data: Any, /) -> None:
            nonlocal copied
            copied += len(data)
            super().extend(data)

    def counted_bytes(data: Any) -> bytes:
        nonlocal copied
        copied += len(data)
        return bytes(data)

    monkeypatch.setattr(wire_connection, "bytearray", CountedBuffer, raising=False)
    monkeypatch.setattr(wire_connection, "bytes", counted_bytes, raising=False)

    def test(end: End) -> None:
        stream = framed(b"x" * 16_000, b"y" * 16_000)
        for start in range(0, len(stream), 10):
            end.connection.data_received(stream[start : start + 10])
        assert [len(frame) for frame in end.frames] == [16_000, 16_000]
        assert copied < 3 * len(stream), f"{copied / len(stream):.0f} times"

    on_a_connection(test)


def test_what_a_turn_sends_leaves_in_one_write() -> None:
    async def test(end: End) -> None:
        for reason in ("a", "b", "c"):
            end.connection.send(Refusal(reason))
        assert end.wire.written == []
        await asyncio.sleep(0)
        (written,) = end.wire.written
        assert written == framed(*(msgspec.msgpack.encode(Refusal(r)) for r in "abc"))

    on_a_connection(test)


class Speaker:
    """Says something at the end of a turn, or fails."""

    def __init__(self, end: End | None = None) -> None:
        self.end = end
        self.loop = asyncio.get_running_loop()
        self.itself = self  # so it is there until garbage is collected

    def speak(self) -> None:
        assert self.end is not None, "it has nothing to speak over"
        self.end.connection.send(Refusal("at the end"))


def test_what_is_said_at_the_end_of_a_turn_leaves_with_it() -> None:
    async def test(end: End) -> None:
        speaker = Speaker(end)
        at_end_of_turn(speaker.speak)
        end.connection.send(Refusal("before"))
        await asyncio.sleep(0)
        (written,) = end.wire.written
        assert written.index(b"before") < written.index(b"at the end")

    on_a_connection(test)


def test_one_that_fails_at_the_end_of_a_turn_keeps_no_other_waiting() -> None:
    async def test(end: End) -> None:
        failures: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        speakers = Speaker(), Speaker(end)
        for speaker in speakers:
            at_end_of_turn(speaker.speak)
        end.connection.send(Refusal("before"))
        for _ in range(2):
            await asyncio.sleep(0)
        (written,) = end.wire.written
        assert b"at the end" in written
        assert [type(failure) for failure in failures] == [AssertionError]

    on_a_connection(test)


def test_an_event_loop_that_ends_before_its_turn_does_is_forgotten() -> None:
    """So a program ends that is killed in the middle of a turn, in a simulated world of many lives."""
    loop = asyncio.new_event_loop()

    def send_and_stop() -> None:
        one = Connection()
        one.connection_made(Wire())
        one.send(Refusal("last words"))
        at_end_of_turn(Speaker().speak)
        asyncio.get_running_loop().stop()

    loop.call_soon(send_and_stop)
    loop.run_forever()
    loop.close()
    reference = weakref.ref(loop)
    del loop, send_and_stop
    gc.collect()
    assert reference() is None


def test_an_oversize_frame_ends_the_connection_with_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def test(end: End) -> None:
        end.connection.data_received(struct.pack(">I", HANDSHAKE_BYTES_MAX + 1))
        assert end.wire.ended == "closed"
        end.connection.data_received(framed(b"late"))
        assert end.frames == []

    with caplog.at_level(logging.WARNING):
        on_a_connection(test)
    assert "192.0.2.1:5 refused: a frame of 16385 bytes" in caplog.text


def test_who_does_not_read_is_not_read_from() -> None:
    def test(end: End) -> None:
        end.connection.pause_writing()
        assert not end.wire.reading
        end.connection.resume_writing()
        assert end.wire.reading

    on_a_connection(test)


def test_who_never_reads_is_cut_off() -> None:
    async def test(end: End) -> None:
        end.wire.unread = BACKLOG_BYTES_MAX + 1
        end.connection.pause_writing()  # as transports do long before
        end.connection.send(Refusal("x"))
        await asyncio.sleep(0)
        assert end.wire.ended == "aborted"
        end.connection.send(Refusal("nothing happens on a closed connection"))

    on_a_connection(test)


def test_the_end_of_a_connection_is_told_once_with_its_reason() -> None:
    def test(end: End) -> None:
        reasons: list[str] = []
        end.connection.use(lambda _: None, reasons.append)
        end.connection.close("enough")
        end.connection.connection_lost(None)
        end.connection.connection_lost(None)
        assert reasons == ["enough"]

    on_a_connection(test)


def test_answers_leave_in_one_write_when_all_that_has_come_is_handled() -> None:
    def test(end: End) -> None:
        end.connection.use(lambda frame: end.connection.send(Refusal(str(frame, "ascii"))))
        end.connection.data_received(framed(b"one", b"two"))
        (written,) = end.wire.written  # and no turn of the event loop has passed
        assert written.index(b"one") < written.index(b"two")

    on_a_connection(test)


def test_what_is_sent_beside_an_answer_leaves_with_it() -> None:
    async def test(end: End) -> None:
        end.connection.use(lambda _: end.connection.send(Refusal("answer")))
        end.connection.send(Refusal("before"))
        end.connection.data_received(framed(b"question"))
        end.connection.send(Refusal("after"))
        await asyncio.sleep(0)
        first, second = end.wire.written
        assert first.index(b"before") < first.index(b"answer")
        assert b"after" in second

    on_a_connection(test)
