"""A real cluster in the process of a test: sockets and leases, but no other program to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from coterie.cluster.membership.config import convert
from coterie.cluster.node import Node
from coterie.errors import MisuseError, UsageError
from coterie.sync.loop import Loop
from coterie.testing.nodes import local_document, node_names, url_of

if TYPE_CHECKING:
    from types import TracebackType

LEASE_SECONDS = 2.0  # short, so that a test of a lost lock does not take long


class LocalCluster:
    """Voting nodes on free ports of the loopback interface, in a thread of their own; use it in `with`.

    Nothing is kept on a disk: a node that is started again waits for a lease before it votes.
    """

    def __init__(self, nodes: int = 3, *, lease: float = LEASE_SECONDS) -> None:
        """Choose ports; nothing is started yet."""
        if nodes < 1:
            raise UsageError(f"a cluster needs at least 1 node, got {nodes}")
        self._names = tuple(node_names(nodes))
        self._config = convert(local_document(self._names, lease=lease))
        self.url = url_of(self._config)
        self._running: dict[str, Node] = {}
        self._loop: Loop | None = None

    def __repr__(self) -> str:
        """Show where it is reached."""
        return f"<LocalCluster {self.url!r}>"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes, whether or not they run."""
        return self._names

    def __enter__(self) -> Self:
        """Start all nodes; they vote at once."""
        if self._loop is not None:
            raise MisuseError(f"{self!r} runs already")
        self._loop = Loop()
        try:
            for name in self._names:
                self._start(name, new_cluster=True)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all nodes."""
        self._end()

    def stop(self, name: str) -> None:
        """Stop a node; with too few of them left, locks are granted no more."""
        self._check(name)
        node = self._running.pop(name, None)
        if node is not None:
            self._present().run(node.stop)

    def start(self, name: str) -> None:
        """Start a node again; it votes after one lease, since it does not know what it promised."""
        self._check(name)
        if name not in self._running:
            self._start(name, new_cluster=False)

    def _start(self, name: str, *, new_cluster: bool) -> None:
        node = Node(self._config, name, new_cluster=new_cluster)
        self._present().run(node.start)
        self._running[name] = node

    def _end(self) -> None:
        loop = self._present()
        try:
            for name in list(self._running):
                self.stop(name)
        finally:
            self._loop = None
            loop.stop()

    def _present(self) -> Loop:
        if self._loop is None:
            raise MisuseError(f"{self!r} does not run; use it in `with`")
        return self._loop

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise UsageError(f"no node {name!r}; choose from: {', '.join(self._names)}")
