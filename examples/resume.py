"""Work that goes on where the last process ended: how far it has come is the value of the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import coterie.sync


def import_rows(
    c: coterie.sync.Coordinator, rows: Sequence[str], keep: Callable[[str, int], object]
) -> int:
    """Keep the rows that no process has kept yet, by whichever runs this; return how many.

    A process that dies between the two steps leaves a row that is kept twice, so `keep` has to bear that. On PostgreSQL
    `held.write(..., connection=...)` makes both one commit.
    """
    with c.lock("import") as held:
        value = held.read()
        done = int(value.data) if value else 0
        for number, row in enumerate(rows[done:], done + 1):
            keep(row, held.token)
            held.write(b"%d" % number)
        return len(rows) - done
