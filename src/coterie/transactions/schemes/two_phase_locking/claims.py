"""What a transaction asks of the lock table: a key or a range of keys, in one of three modes."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from coterie.transactions.schemes.scheduler import Name
from coterie.transactions.schemes.span import Span


class Mode(IntEnum):
    """How a key is locked; each mode permits what those before it do."""

    SHARED = 1  # to read
    UPDATE = 2  # to read on the way to writing: beside readers, but by one transaction only
    EXCLUSIVE = 3  # to write


SHARED, UPDATE, EXCLUSIVE = Mode


def conflict(one: Mode, other: Mode) -> bool:
    """Tell whether two transactions must not have the same key in these modes at one time."""
    return one is EXCLUSIVE or other is EXCLUSIVE or (one is UPDATE and other is UPDATE)


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A lock that somebody waits for."""

    owner: Name
    target: str | Span  # a span is claimed in shared mode only
    mode: Mode
    ticket: int  # what came later has a larger one, but an upgrade takes another's place
    upgrade: bool = False  # the owner has the key in a weaker mode

    def __str__(self) -> str:
        """Name what is claimed."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.low}..{self.target.high or ''}"
