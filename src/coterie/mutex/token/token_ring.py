"""Mutual exclusion by a token that goes round a ring: 1 message an entry when everybody wants in.

Whoever has the token may enter, and passes it on when it leaves. Nobody asks for the token: it comes
by, also when nobody wants it, so an idle ring is never quiet. To keep that bearable, a process that
wants nothing keeps the token for a pause before it passes it on.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeAlias

from coterie.catalogue import (
    Algorithm,
    Cost,
    Costs,
    Parameter,
    Setup,
    Variant,
    between,
    exactly,
    unknown,
)
from coterie.errors import ConfigError, ProtocolError, UsageError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

FIRST_HOLDER: ProcessId = 1
PAUSE = "PAUSE"


class Token(Payload, frozen=True):
    """The right to enter."""


Message: TypeAlias = Token


class TokenRing(Mutex[Message]):
    """A process that waits for the token to come by."""

    successor: ProcessId
    pause: float  # how long we keep a token that we do not want
    token: bool = False
    wants: bool = False  # from acquire until release: with the token, inside

    def start(self, out: Outbox[Message]) -> None:
        """Set the token going, if we are the one to begin with it."""
        if self.token:
            out.set_timer(PAUSE, self.pause)

    def acquire(self, out: Outbox[Message]) -> None:
        """Enter with the token in hand, or wait for it."""
        self.wants = True
        if self.token:
            out.cancel_timer(PAUSE)
            out.tell(Entered())

    def release(self, out: Outbox[Message]) -> None:
        """Pass the token on, even if we shall want it again: the others come first."""
        self.wants = False
        self._pass_on(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Enter if we want to, or keep the token for a pause."""
        if self.token:
            raise ProtocolError(f"process {self.me} got a second token from {sender}")
        self.token = True
        if self.wants:
            out.tell(Entered())
        else:
            out.set_timer(PAUSE, self.pause)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Pass the token on, the pause being over."""
        self._pass_on(out)

    def _pass_on(self, out: Outbox[Message]) -> None:
        self.token = False
        out.send(self.successor, Token())


def parse_ring(text: str, size: int) -> tuple[ProcessId, ...]:
    """Read the order of the ring: `ascending`, or every id once, such as `1,3,2`."""
    if text == "ascending":
        return tuple(range(1, size + 1))
    ids = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in ids):
        raise UsageError(unknown("ring", text, ["ascending", "ids such as 1,3,2"]))
    ring = Counter(map(int, ids))
    for process, times in ring.items():
        if not 1 <= process <= size:
            raise ConfigError(f"the ring has process {process}; there are only 1 to {size} of them")
        if times > 1:
            raise ConfigError(f"the ring has process {process} {times} times")
    for process in range(1, size + 1):
        if process not in ring:
            raise ConfigError(f"the ring lacks process {process}")
    return tuple(ring)


def parse_pause(text: str) -> float:
    """Read how long an idle process keeps the token; without a pause nothing else would happen."""
    try:
        pause = float(text)
    except ValueError:
        pause = math.nan
    if not 0 < pause < math.inf:
        raise UsageError(f"the pause is a number of time units greater than 0, not {text!r}")
    return pause


def _build(setup: Setup) -> list[TokenRing]:
    ring: tuple[ProcessId, ...] = setup.parameters["ring"]
    successor = dict(zip(ring, (*ring[1:], ring[0]), strict=True))
    pause = setup.parameters["pause"]
    return [
        TokenRing(me, successor[me], pause, token=me == FIRST_HOLDER)
        for me in range(1, setup.size + 1)
    ]


def _per_entry(setup: Setup, low: float, high: float, formula: str) -> Cost:
    """State a cost in messages; alone, none leaves the process."""
    return between(low, high, formula) if setup.size > 1 else exactly(0, "0")


def _way(setup: Setup, hops: int) -> float:
    """Time the way over so many links, with a pause at everyone passed by."""
    return hops + max(0, hops - 1) * float(setup.parameters["pause"])


ALGORITHM = Algorithm(
    name="token-ring",
    family="token",
    summary="pass the token round; who has it may enter",
    citation=(
        "G. Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977; as the"
        " lectures tell it."
    ),
    process=TokenRing,
    build=_build,
    costs=Costs(
        idle=lambda setup: _per_entry(
            setup, 1, math.inf, "1 to N an entry, and one a pause for ever"
        ),
        again=lambda setup: _per_entry(
            setup, setup.size, math.inf, "N an entry, and one a pause for ever"
        ),
        saturated=lambda setup: _per_entry(setup, 1, 1, "1"),
        client_delay=lambda setup: between(
            0, _way(setup, setup.size) if setup.size > 1 else 0, "0 to N, and the pauses between"
        ),
        synchronisation_delay=lambda setup: between(
            min(1, setup.size - 1),
            _way(setup, setup.size - 1),
            "1 to N - 1, and the pauses between",
        ),
    ),
    assumes=("reliable links", "no crash"),
    bears=("reordering",),
    causal=False,
    variants=(Variant("rotating", "the token goes round all the time"),),
    parameters=(
        Parameter("ring", "ascending", "the order: ascending, or ids such as 1,3,2", parse_ring),
        Parameter(
            "pause",
            "1",
            "how long an idle process keeps the token, in time units",
            lambda text, size: parse_pause(text),
        ),
    ),
)
