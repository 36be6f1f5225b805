"""The contract: what worlds and algorithms can rely on."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.catalogue import algorithms
from coterie.errors import MisuseError, ProtocolError
from coterie.process import (
    Entered,
    Mutex,
    MutexUser,
    Outbox,
    Payload,
    Phase,
    Process,
    SeatCodec,
    encode,
    seat,
)


class Word(Payload, frozen=True):
    text: str


class Echo(Mutex[Word]):
    """Sends itself two words and enters on the second."""

    heard: list[str] = []

    def acquire(self, out: Outbox[Word]) -> None:
        out.send(self.me, Word("first"))
        out.send(2, Word("away"))

    def release(self, out: Outbox[Word]) -> None:
        out.set_timer("REST", 1.0)

    def receive(self, sender: int, message: Word, out: Outbox[Word]) -> None:
        self.heard.append(message.text)
        if message.text == "first":
            out.send(self.me, Word("second"))
        else:
            out.tell(Entered())


def test_what_a_process_sends_to_itself_is_part_of_the_step() -> None:
    echo = Echo(1)
    out: Outbox[Any] = Outbox(1)
    seat(echo).call("acquire", out)
    assert echo.heard == ["first", "second"]
    assert out.sends == [(2, Word("away"))]
    assert out.events == [Entered()]
    assert out.local == []


def test_a_broadcast_goes_out_in_the_order_of_ids() -> None:
    out: Outbox[Any] = Outbox(1)
    out.broadcast({9, 3, 12}, Word("hello"))
    assert [to for to, _ in out.sends] == [3, 9, 12]


def test_entering_ends_the_wait_of_the_user() -> None:
    mine = seat(Echo(1))
    assert isinstance(mine.user, MutexUser)
    assert mine.user.calls() == ("acquire",)
    mine.call("acquire", Outbox(1))
    assert mine.user.phase is Phase.INSIDE
    assert mine.user.calls() == ("release",)


def test_a_user_with_no_entries_left_asks_for_nothing() -> None:
    mine = seat(Echo(1), entries=1)
    mine.call("acquire", Outbox(1))
    mine.call("release", Outbox(1))
    assert mine.user.calls() == ()


@pytest.mark.parametrize("calls", [["release"], ["acquire", "acquire"], ["fly"]])
def test_misuse_is_refused_and_changes_nothing(calls: list[str]) -> None:
    mine = seat(Echo(1))
    *fine, wrong = calls
    for call in fine:
        mine.call(call, Outbox(1))
    before = encode(mine.process), encode(mine.user)
    with pytest.raises(MisuseError, match=f"process 1 cannot {wrong}"):
        mine.call(wrong, Outbox(1))
    assert (encode(mine.process), encode(mine.user)) == before


def test_a_process_that_expects_nothing_refuses_everything() -> None:
    silent = seat(Process(1))
    with pytest.raises(ProtocolError):
        silent.receive(2, Word("hello"), Outbox(1))
    with pytest.raises(ProtocolError):
        silent.ring("REST", Outbox(1))
    with pytest.raises(MisuseError):
        silent.call("acquire", Outbox(1))


def test_equal_values_have_equal_bytes_whatever_the_order_of_their_sets() -> None:
    class Bag(Process[Word]):
        things: set[int] = set()

    assert encode(Bag(1, {8, 16, 24})) == encode(Bag(1, {24, 16, 8}))


def test_two_kinds_of_message_are_never_equal() -> None:
    class Other(Payload, frozen=True):
        text: str

    one: Payload = Word("x")
    assert one != Other("x")
    assert encode(Word("x")) != encode(Other("x"))


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_algorithm_survives_the_codec_and_repeats_itself(name: str) -> None:
    """Run every entry step by step on a restored copy as well: same wishes, same bytes."""
    entry = algorithms()[name]
    seats = {process.me: seat(process, 2) for process in entry.build(entry.setup(3))}
    codec = SeatCodec(seats[1])
    transit: list[tuple[int, int, Payload]] = []

    def step(me: int, act: str, *details: Any) -> None:
        saved = codec.save(seats[me])
        outs = []
        for copy in (codec.restore(saved), codec.restore(saved)):
            out: Outbox[Any] = Outbox(me)
            getattr(copy, act)(*details, out)
            outs.append((codec.save(copy), out.sends, out.timers, out.events))
            seats[me] = copy
        assert outs[0] == outs[1]
        transit.extend((me, to, message) for to, message in outs[1][1])

    for me in seats:
        step(me, "start")
    for _ in range(400):
        if transit:
            sender, receiver, message = transit.pop(0)
            step(receiver, "receive", sender, message)
            continue
        callers = [me for me in seats if seats[me].user.calls()]
        if not callers:
            break
        for me in callers:
            step(me, "call", seats[me].user.calls()[0])
    assert all(held.user.calls() == () for held in seats.values())
