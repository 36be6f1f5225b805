"""A handler that is not a function of the process and its input is noticed."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from coterie.errors import ConfigError
from coterie.lab.explore import check
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
