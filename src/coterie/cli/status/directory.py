"""The status of a lock directory of this machine, as its tickets tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.engines.file.engine import make_engine
from coterie.engines.file.status import DirectoryState, inspect, inspect_waits

if TYPE_CHECKING:
    from coterie.deadlock.wait_for import Graph


class DirectorySource:
    """Reads a lock directory; one that is not there has no locks, and is not made."""

    default_view = "locks"

    def __init__(self, url: str) -> None:
        """Find the directory."""
        self._folder = make_engine(url).folder

    def state(self, *, locks: bool) -> DirectoryState:
        """Read the locks, if they are wanted."""
        if not locks:
            return DirectoryState(str(self._folder), [])
        self._say_if_absent()
        return inspect(self._folder)

    def waits(self) -> tuple[Graph[str], int]:
        """Read who waits for whom; there is nothing else whose health matters."""
        self._say_if_absent()
        return inspect_waits(self._folder), 0

    def print_nodes(self) -> int:
        """Say why there is nothing to list."""
        click.echo(
            f"there are no nodes: {self._folder} is a lock directory of this machine;"
            " see coterie status locks"
        )
        return 0

    def _say_if_absent(self) -> None:
        if not self._folder.exists():
            click.echo(f"{self._folder} is not there: nobody has taken a lock yet", err=True)
