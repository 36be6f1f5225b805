"""The status of a lock directory on this machine, read without taking a lock in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.engines.file.engine import make_engine
from coterie.engines.file.status import DirectoryState, inspect, inspect_waits

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph


class DirectorySource:
    """Reads a lock directory; one that does not exist has no locks, and is not created."""

    default_view = "locks"

    def __init__(self, url: str) -> None:
        """Find the directory."""
        self._folder = make_engine(url).folder

    def state(self, *, locks: bool) -> DirectoryState:
        """Read the locks, if wanted."""
        if not locks:
            return DirectoryState(str(self._folder), [])
        self._say_if_absent()
        return inspect(self._folder)

    def waits(self) -> tuple[Graph[str], int]:
        """Read the wait-for graph; a directory has no health besides."""
        self._say_if_absent()
        return inspect_waits(self._folder), 0

    def print_nodes(self) -> int:
        """Print why there is nothing to list."""
        click.echo(
            f"no nodes: {self._folder} is a lock directory on this machine;"
            " try coterie status locks"
        )
        return 0

    def _say_if_absent(self) -> None:
        if not self._folder.exists():
            click.echo(f"{self._folder} does not exist: no lock has been taken yet", err=True)
