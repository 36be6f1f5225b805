"""Logical time: Lamport's stamps and their total order (Lamport, 1978)."""

from __future__ import annotations

from typing import NamedTuple


class Stamp(NamedTuple):
    """A logical time, made unique by the process that read it; stamps order totally."""

    time: int
    process: int

    def __str__(self) -> str:
        """Write `time.process`, as the literature does."""
        return f"{self.time}.{self.process}"
