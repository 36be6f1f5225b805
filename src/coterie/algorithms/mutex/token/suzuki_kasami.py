"""Mutual exclusion by a token that is asked for by broadcast (Suzuki and Kasami, 1985): N messages.

The process with the token may enter, again and again without a message. A request carries a number
that counts the requests of its process; the token carries the number last served of each process,
so an old request is told from a new one, and a queue of those that come next.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from coterie.catalogue import (
    Algorithm,
    Costs,
    Flaw,
    MulticastCosts,
    Setup,
    Variant,
    between,
    exactly,
)
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

FIRST_HOLDER: ProcessId = 1


class Request(Payload, frozen=True):
    """I want the token, for the `number`-th time."""

    number: int


class Token(Payload, frozen=True):
    """The right to enter."""

    served: tuple[int, ...]  # by process: number of its last request that was served
    queue: tuple[ProcessId, ...]  # those that get the token next


Message: TypeAlias = Request | Token


class SuzukiKasami(Mutex[Message]):
    """A process that remembers every request, since the token may be on its way to it."""

    messages: ClassVar[Any] = Message

    requested: list[int]  # by process: highest request number heard of
    token: Token | None = None

    def acquire(self, out: Outbox[Message]) -> None:
        """Enter with the token in hand, or ask everyone for it."""
        self.requested[self.me - 1] += 1
        if self.token is not None:
            out.tell(Entered())
            return
        peers = [peer for peer in range(1, len(self.requested) + 1) if peer != self.me]
        out.broadcast(peers, Request(self.requested[self.me - 1]))

    def release(self, out: Outbox[Message]) -> None:
        """Note on the token that we are served, and send it to the next that wants it."""
        assert self.token is not None
        served = list(self.token.served)
        served[self.me - 1] = self.requested[self.me - 1]
        self._pass(tuple(served), self.token.queue, out)

    def owes(self) -> tuple[ProcessId, ...]:
        """Name those that the token will be sent to from here, or pass on the way."""
        if self.token is None:
            return ()
        return tuple(dict.fromkeys([*self.token.queue, *self._asking(self.token.served)]))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or the token."""
        match message:
            case Request(number):
                self._note(sender, number)
                if self.token is not None and not self._inside(self.token):
                    self._pass(self.token.served, self.token.queue, out)
            case Token():
                self.token = message
                out.tell(Entered())

    def _note(self, sender: ProcessId, number: int) -> None:
        self.requested[sender - 1] = max(self.requested[sender - 1], number)

    def _pass(
        self, served: tuple[int, ...], queue: tuple[ProcessId, ...], out: Outbox[Message]
    ) -> None:
        queue += tuple(peer for peer in self._asking(served) if peer not in queue)
        if not queue:
            self.token = Token(served, ())
            return
        self.token = None
        out.send(queue[0], Token(served, queue[1:]))

    def _asking(self, served: tuple[int, ...]) -> list[ProcessId]:
        """List those with an unserved request, from our successor on, so that no id is favoured."""
        size = len(served)
        ring = [(self.me + step) % size + 1 for step in range(size - 1)]
        return [peer for peer in ring if self.requested[peer - 1] == served[peer - 1] + 1]

    def _inside(self, token: Token) -> bool:
        """Return whether our own latest request is being served."""
        return self.requested[self.me - 1] != token.served[self.me - 1]


class AsSurveyed(SuzukiKasami):
    """Flawed: only the holder keeps requests, so one that meets the token in flight is lost."""

    def _note(self, sender: ProcessId, number: int) -> None:
        if self.token is not None:
            super()._note(sender, number)


VARIANTS: dict[str, type[SuzukiKasami]] = {"plain": SuzukiKasami, "survey": AsSurveyed}


def _build(setup: Setup) -> list[SuzukiKasami]:
    process = VARIANTS[setup.variant]
    everyone = [process(me, [0] * setup.size) for me in range(1, setup.size + 1)]
    everyone[FIRST_HOLDER - 1].token = Token((0,) * setup.size, ())
    return everyone


def _messages(setup: Setup) -> int:
    return setup.size if setup.size > 1 else 0


ALGORITHM = Algorithm(
    name="suzuki-kasami",
    family="token",
    summary="ask everyone for the one token, which carries the queue",
    citation=(
        "I. Suzuki and T. Kasami. A distributed mutual exclusion algorithm. ACM Transactions on"
        " Computer Systems 3(4), 1985."
    ),
    process=SuzukiKasami,
    build=_build,
    costs=Costs(
        idle=lambda setup: exactly(_messages(setup), "N"),
        again=lambda setup: exactly(0, "0"),
        saturated=lambda setup: between(max(0, setup.size - 1), _messages(setup), "N"),
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(1, "1"),
    ),
    multicast=MulticastCosts(
        idle=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        again=lambda setup: exactly(0, "0"),
        saturated=lambda setup: between(1 if setup.size > 1 else 0, 2, "2"),
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(
        Variant("plain", "as published"),
        Variant(
            "survey",
            "as the 1987 survey prints it: requests are kept by the holder only",
            sound=False,
            flaw=Flaw(size=3, steps=8),
        ),
    ),
)
