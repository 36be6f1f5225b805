"""Mutual exclusion by a token sent straight to the next (Naimi and Trehel, 1987): H(N - 1) messages.

Requests climb from father to father to the process that asked last, which will send the token
straight to the requester. Each one they pass takes the requester as its new father, so that paths
stay short: the mean over random requesters is the harmonic number H(N - 1), token included.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from coterie.catalogue import Algorithm, Cost, Costs, Setup, Variant, between, exactly
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

FIRST_HOLDER: ProcessId = 1


class Request(Payload, frozen=True):
    """Process `origin` wants the token."""

    origin: ProcessId


class Token(Payload, frozen=True):
    """The right to enter."""


Message: TypeAlias = Request | Token


class NaimiTrehel(Mutex[Message]):
    """A process that knows which one to ask, and which one comes after it."""

    messages: ClassVar[Any] = Message

    father: ProcessId | None  # the one that asked last, as far as we know; None: we did
    next: ProcessId | None = None  # the one that gets the token from us
    token: bool = False
    wants: bool = False  # from acquire until release: with the token, inside

    def acquire(self, out: Outbox[Message]) -> None:
        """Enter with the token in hand, or ask the father for it, and become a root."""
        self.wants = True
        if self.token:
            out.tell(Entered())
            return
        assert self.father is not None, "only one that has asked or has the token is a root"
        out.send(self.father, Request(self.me))
        self.father = None

    def release(self, out: Outbox[Message]) -> None:
        """Send the token to the next, or keep it."""
        self.wants = False
        if self.next is not None:
            self._send_token(self.next, out)
            self.next = None

    def owes(self) -> tuple[ProcessId, ...]:
        """Name the one that gets the token from us."""
        return () if self.next is None else (self.next,)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or the token."""
        match message:
            case Request(origin):
                if origin == self.me:
                    raise ProtocolError(f"the request of process {origin} came back to it")
                self._pass_or_serve(origin, out)
                self.father = origin
            case Token():
                if self.token or not self.wants:
                    raise ProtocolError(f"process {sender} sent a token that was not asked for")
                self.token = True
                out.tell(Entered())

    def _pass_or_serve(self, origin: ProcessId, out: Outbox[Message]) -> None:
        if self.father is not None:
            out.send(self.father, Request(origin))
        elif self.wants:
            self.next = origin
        else:
            self._send_token(origin, out)

    def _send_token(self, to: ProcessId, out: Outbox[Message]) -> None:
        assert self.token, "an idle root has the token, and so has one that leaves"
        self.token = False
        out.send(to, Token())


def _build(setup: Setup) -> list[NaimiTrehel]:
    everyone = [NaimiTrehel(me, FIRST_HOLDER) for me in range(1, setup.size + 1)]
    everyone[FIRST_HOLDER - 1] = NaimiTrehel(FIRST_HOLDER, None, token=True)
    return everyone


def _worst(setup: Setup) -> int:
    """Climb through all others and send the token back."""
    return setup.size if setup.size > 1 else 0


def _idle(setup: Setup) -> Cost:
    """Climb a path of the tree, and send the token back.

    Over random requesters the mean is H(N - 1), the holder's free entries included. These are one in
    N and change nothing: where no requester comes twice in a row, the others pay for them.
    """
    size = setup.size
    harmonic = sum(1 / term for term in range(1, size))
    mean = exactly(size * harmonic / (size - 1) if size > 1 else 0, "H(N - 1) · N/(N - 1)")
    return between(min(2, _worst(setup)), _worst(setup), "2 to N", mean)


ALGORITHM = Algorithm(
    name="naimi-trehel",
    family="token",
    summary="ask the process that asked last, along pointers that requests keep short",
    citation=(
        "M. Naimi and M. Trehel. An improvement of the log(n) distributed algorithm for mutual"
        " exclusion. 7th International Conference on Distributed Computing Systems, 1987; with"
        " A. Arnold, Journal of Parallel and Distributed Computing 34(1), 1996."
    ),
    process=NaimiTrehel,
    build=_build,
    costs=Costs(
        idle=_idle,
        again=lambda setup: exactly(0, "0"),
        saturated=lambda setup: between(0, _worst(setup), "0 to N"),
        client_delay=lambda setup: between(0, _worst(setup), "2 to N"),
        synchronisation_delay=lambda setup: exactly(1, "1"),
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(Variant("plain", "as published"),),
)
