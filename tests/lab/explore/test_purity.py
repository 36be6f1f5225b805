"""A handler that is not a function of the process and its input is noticed."""

from __future__ import annotations

import itertools
import random
from typing import Any, ClassVar

import pytest

from coterie.errors import ConfigError
from coterie.lab.explore import check
from coterie.lab.explore.tables.inputs import Call, Input, Notice, Receive, Restart, Ring
from coterie.lab.explore.tables.purity import ALL_OF_FIRST, ONE_IN, PuritySample
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Ping(Payload, frozen=True):
    number: int = 0


class Asking(Mutex[Ping]):
    """Asks the other process, and enters when an answer comes."""

    def acquire(self, out: Outbox[Ping]) -> None:
        out.send(3 - self.me, Ping(self.number()))

    def release(self, out: Outbox[Ping]) -> None:
        pass

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        if message.number < 0:
            out.tell(Entered())
        else:
            out.send(sender, Ping(-1))

    def number(self) -> int:
        return 0


class Dicing(Asking):
    def number(self) -> int:
        return random.randrange(1 << 30)


class Counting(Asking):
    """Keeps a number in its class, where no search can save and restore it."""

    calls: ClassVar[list[int]] = []

    def number(self) -> int:
        self.calls.append(1)
        return len(self.calls)


class Moody(Asking):
    """Raises every other time."""

    calls: ClassVar[list[int]] = []

    def number(self) -> int:
        self.calls.append(1)
        if len(self.calls) % 2:
            raise ValueError("not now")
        return 0


@pytest.mark.parametrize("kind", [Dicing, Counting, Moody])
def test_a_handler_that_does_two_things_in_one_state_is_one_clear_error(kind: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check([kind(1), kind(2)], requesters=[1])
    text = str(caught.value)
    assert text.startswith(f"{kind.__name__} is not deterministic: Call(name='acquire')")
    assert "\n" not in text


def test_a_pure_one_is_not_complained_about() -> None:
    assert check([Asking(1), Asking(2)], requesters=[1]).verdict == "verified"


def test_of_each_kind_of_step_the_first_are_made_twice_and_then_a_sample() -> None:
    sample, process = PuritySample(), Asking(1)
    kinds: list[Input] = [
        Receive(2, Ping(1)),
        Call("acquire"),
        Call("release"),
        Ring("silence"),
        Notice(2),
        Restart(1),
    ]
    chosen = [
        [sample.includes(process, given) for given in kinds]
        for _ in range(ALL_OF_FIRST + 10 * ONE_IN)
    ]
    assert all(itertools.chain(*chosen[:ALL_OF_FIRST]))
    for of_kind in zip(*chosen[ALL_OF_FIRST:], strict=True):
        assert sum(of_kind) == 10


def test_messages_of_one_type_are_one_kind_whatever_they_say() -> None:
    sample, process = PuritySample(), Asking(1)
    chosen = [sample.includes(process, Receive(2, Ping(number))) for number in range(2000)]
    assert sum(chosen) == ALL_OF_FIRST + (2000 // ONE_IN - ALL_OF_FIRST // ONE_IN)


class Late(Mutex[Ping]):
    """Counts rings of its timer without end, and draws numbers only after thousands of them."""

    count: int = 0
    drawn: int = 0

    def start(self, out: Outbox[Ping]) -> None:
        out.set_timer("count", 1.0)

    def ring(self, timer: str, out: Outbox[Ping]) -> None:
        self.count += 1
        if self.count > 3 * ALL_OF_FIRST:
            self.drawn = random.randrange(1 << 30)
        out.set_timer("count", 1.0)

    def acquire(self, out: Outbox[Ping]) -> None:
        out.tell(Entered())

    def release(self, out: Outbox[Ping]) -> None:
        pass

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        pass


def test_a_handler_that_becomes_impure_late_is_noticed_by_the_sample() -> None:
    with pytest.raises(ConfigError, match=r"Late is not deterministic: Ring\(timer='count'\)"):
        check([Late(1)], entries=0, max_states=4 * ALL_OF_FIRST)
