"""What processes write to each other through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.locks.leases.frames import AskOwner, LockFrame, OwnerReport

if TYPE_CHECKING:
    from collections.abc import Callable


class Knock(LockFrame, frozen=True):
    """Say that a process waits for a lock: it is not to be kept, nor passed on for long."""

    lock: str


class Inquiry(LockFrame, frozen=True):
    """Ask a process how it stands to locks."""

    sender: str  # where the answer goes
    asked: AskOwner


class HoldOrder(LockFrame, frozen=True):
    """Have a process look whether an operator wants its hold of a lock to end: `orders` says how."""

    sender: str  # the operator, whose entry in the queue says which holds
    lock: str


class HoldEnded(LockFrame, frozen=True):
    """Answer an order: the hold is over, or there was none."""

    sender: str
    lock: str
    is_ended: bool


Mail: TypeAlias = Knock | Inquiry | OwnerReport | HoldOrder | HoldEnded

encode = msgspec.msgpack.Encoder().encode
decode: Callable[[bytes], Mail] = msgspec.msgpack.Decoder(Mail).decode
