"""The resource that the workers share: numbered entries in a file behind a fence.

An entry is a read, some work, and a write of the next number: two workers that are inside at the
same time write the same number, and one update is lost. The fence counts reads too: otherwise a
worker that comes back late could still write between the read and the write of its successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.cli.demo.fence import Fence

if TYPE_CHECKING:
    from pathlib import Path


class Entry(msgspec.Struct, frozen=True):
    """One line of the ledger."""

    number: int  # one more than what its writer has read
    worker: str
    token: int
    written_at: float  # by `time.monotonic()`, which all processes of a machine share


class Ledger:
    """The file of entries."""

    def __init__(self, folder: Path) -> None:
        """Keep the entries and the fence in that folder."""
        self._path = folder / "ledger"
        self._fence = Fence(folder / "fence")

    def last_number(self, token: int) -> int:
        """Return the number of the last entry, 0 before the first; raise `Refused` if too old."""
        with self._fence.passed(token):
            entries = self.entries()
            return entries[-1].number if entries else 0

    def append(self, entry: Entry) -> None:
        """Append an entry; raise `Refused` if its token is too old."""
        with self._fence.passed(entry.token), self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def entries(self) -> list[Entry]:
        """Return all entries, in the order in which they were written."""
        if not self._path.exists():
            return []
        return msgspec.json.Decoder(Entry).decode_lines(self._path.read_bytes())
