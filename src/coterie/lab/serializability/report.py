"""What a checker has found out about a history."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from coterie.transactions.history import Key, Name

Kind: TypeAlias = Literal["ww", "wr", "rw", "rt", "so"]


class Edge(NamedTuple):
    """One transaction stands before another in every equivalent serial order, because of a key.

    The target replaced (ww) or read (wr) what the source wrote, or replaced what it read (rw). Where
    real time counts, the source may also have ended before the target began (rt), and where sessions
    count, it may have come earlier in the same one (so).
    """

    source: int
    target: int
    kind: Kind
    key: Key


class Dependency(msgspec.Struct, frozen=True):
    """An edge between transactions by name, with the sentence that explains it."""

    source: Name
    target: Name
    kind: Kind
    key: Key
    text: str


class Anomaly(msgspec.Struct, frozen=True):
    """Something that no serial execution shows.

    The name is Adya's where he has one. In a cycle each transaction stands before the next and the
    last before the first. A read of what never was in the database is no cycle: it names the
    writer, if there is one, and the reader.
    """

    name: str
    meaning: str  # what else it is called
    cycle: tuple[Name, ...]
    dependencies: tuple[Dependency, ...]


class Report(msgspec.Struct, frozen=True):
    """Whether a history is serializable, with the proof: an equivalent order, or anomalies."""

    serializable: bool | None  # None if the search was given up
    anomalies: tuple[Anomaly, ...]
    order: tuple[Name, ...] | None  # an equivalent serial order
    versions: Literal["stated", "inferred"]  # by the history, or from what was read
    transactions: int  # that count: committed, or of unknown outcome and read by one that counts
    presumed_committed: tuple[Name, ...]  # of unknown outcome, counted
    left_out: tuple[Name, ...]  # of unknown outcome, not counted
    undecided: str = ""  # the reason, if `serializable` is None

    def _repr_svg_(self) -> str:
        """Draw the order, or the anomalies, where a notebook shows it."""
        from coterie.lab.charts.dependencies import (  # noqa: PLC0415 - for notebooks alone
            draw_serialization,
        )

        return draw_serialization(self)
