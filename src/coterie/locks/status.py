"""The status of locks: where that of a URL comes from, and how its nodes are, in words.

`coterie status` prints it, the dashboard draws it, and both say the same. Each kind of service has its own
source in a module `status`: `cluster.admin`, `cluster.classic`, `engines.queue`, `engines.file`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from coterie.locks.url import engine_of_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.locks.engine import LockState

Kind: TypeAlias = Literal["cluster", "classic cluster", "server", "lock directory"]
Look: TypeAlias = Literal["good", "warning", "bad"]


class NodeView(NamedTuple):
    """A node or server, as it describes itself, or as its silence looks from here."""

    name: str
    address: str
    look: Look
    state: str  # in words
    state_seconds: float = 0.0  # how long the state will last, where that is known
    up_seconds: float | None = None
    facts: Mapping[str, str] = {}  # further columns, by their headings
    messages: Mapping[str, int] = {}  # that it has received and sent since it started, by kind
    trouble: str = ""  # why it cannot be asked


class ServiceFinding(NamedTuple):
    """Something on which locks rest, and how it is: what `coterie doctor` says of a service beside its nodes."""

    what: str
    look: Look
    found: str
    advice: str = ""


class ProgramView(NamedTuple):
    """A program with a session at the nodes."""

    name: str
    connected: int  # to this many nodes
    expires_seconds: float  # until its lease ends if it is not renewed


class ServiceState(Protocol):
    """The state as the service tells it, which `coterie status -o json` prints."""

    @property
    def locks(self) -> list[LockState]:
        """The locks that are held or waited for, if they were asked for."""

    @property
    def health(self) -> int:
        """The exit status of `coterie status`."""


class Status(NamedTuple):
    """One look at the locks of a URL."""

    kind: Kind
    name: str
    state: ServiceState
    nodes: Sequence[NodeView]
    columns: Sequence[str]  # the facts of nodes that a narrow table shows
    health: str  # in words
    summary: str  # all of it in a line
    graph: Graph[str] | None = None  # None: it was not asked for, or the service has none
    programs: Sequence[ProgramView] = ()
    lease: float | None = None  # how long a program that is silent keeps its locks
    about: Sequence[str] = ()  # the rules of the service
    notes: Sequence[str] = ()  # that it shows less than there is

    @property
    def look(self) -> Look:
        """How good the health is."""
        looks: dict[int, Look] = {0: "good", 1: "warning"}
        return looks.get(self.state.health, "bad")


class Source(Protocol):
    """Where the status comes from."""

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        """Ask once; raise a `CoterieError` or an `OSError` if there is no answer."""


async def find_source(url: str) -> Source:
    """Return where the status of the locks at a URL comes from."""
    scheme = scheme_of(url)
    source: Source
    if scheme == "coterie":
        source = await importlib.import_module("coterie.cluster.url").find_source(url)
    elif scheme == "file":
        source = importlib.import_module("coterie.engines.file.status").make_source(url)
    else:
        source = importlib.import_module("coterie.engines.queue.status").make_source(
            engine_of_url(url), scheme
        )
    return source


def down(name: str, address: str, trouble: str) -> NodeView:
    """Describe a node that does not answer."""
    return NodeView(name, address, "bad", f"down: {trouble}", trouble=trouble)
