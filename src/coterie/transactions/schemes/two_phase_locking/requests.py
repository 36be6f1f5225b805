"""Requests that wait for a lock, kept until they can be answered."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from coterie.transactions.schemes.scheduler import Value
from coterie.transactions.schemes.span import Span


class Read(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Somebody wants the value of a key, perhaps on the way to writing it."""

    key: str
    update: bool


class Scan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Somebody wants what is there in a range, or the first few of it."""

    span: Span
    limit: int | None


class Write(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Somebody wants to set a key, or to delete it."""

    key: str
    value: Value


Request: TypeAlias = Read | Scan | Write
