"""Tables with a row for each process, kept as sets of tuples that begin with the process id.

Equal tables encode to equal bytes in whatever order they were filled, which a dictionary of numbers
does not; so the explorer sees that two states are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from coterie.process import ProcessId

Row = TypeVar("Row", bound=tuple[Any, ...])


def put(table: set[Row], row: Row) -> None:
    """Put a row in, in the place of the one that this process had."""
    old = find(table, row[0])
    if old is not None:
        table.remove(old)
    table.add(row)


def find(table: set[Row], process: ProcessId) -> Row | None:
    """Look up the row of a process."""
    return next((row for row in table if row[0] == process), None)
