"""Results as a table: one flat row per seed, and the mean of each column with its interval."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from coterie.lab.simulate.interval import CONFIDENCE, Interval, interval_of
from coterie.lab.simulate.metrics import FACT, KIND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.lab.simulate.metrics import Result

# Numbers that name something: their mean says nothing.
NAMES = frozenset({"seed", "processes", "load_busiest"})


def to_dicts(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return one row per result, all with the same columns, as a data frame takes them.

    A kind of message that a run did not send counts 0 there.
    """
    rows = [result.to_dict() for result in results]
    columns = _columns(rows)
    return [
        {name: row.get(name, 0 if name.startswith(KIND) else None) for name in columns}
        for row in rows
    ]


def _columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Name the columns of all rows, with kinds of messages and facts in their places, sorted."""
    if not rows:
        return []
    names = dict.fromkeys(name for row in rows for name in row)
    kinds = sorted(name for name in names if name.startswith(KIND))
    facts = sorted(name for name in names if name.startswith(FACT))
    plain = [name for name in names if not name.startswith((KIND, FACT))]
    place = plain.index("messages") + 1
    return [*plain[:place], *kinds, *plain[place:], *facts]


def totals(rows: Sequence[dict[str, Any]], confidence: float = CONFIDENCE) -> dict[str, Interval]:
    """Compute the mean of each numeric column and its interval, over the rows that have a number."""
    found: dict[str, Interval] = {}
    for name in rows[0] if rows else ():
        if name in NAMES:
            continue
        values = [row[name] for row in rows if row[name] is not None]
        if all(type(value) in (int, float) for value in values):
            interval = interval_of(values, confidence)
            if interval is not None:
                found[name] = interval
    return found


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Write rows of equal columns as CSV with a header; an empty field stands for None."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
