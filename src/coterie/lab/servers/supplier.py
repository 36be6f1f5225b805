"""What faults need of a server: it is killed, started again and suspended, and says which of this it can bear."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

LEASED = "lease"  # a holder that is suspended loses its lock
RESTARTS = "restart"  # the server can be killed and started again
CUTS = "cut"  # a proxy can be put before the server
FAILS_OVER = "survives failover"  # one of several servers can be killed
FREES_AT_ONCE = "frees at once"  # what a killed process held
REMEMBERS = "remembers"  # holds are in force over a restart of the server
VALUES = "values"  # keeps values of locks


class Supplier(Protocol):
    """A server that grants locks, or several that do so together."""

    name: str
    lease: float
    can: frozenset[str]

    @property
    def port(self) -> int:
        """Where a proxy leads to."""

    def url(self, port: int | None = None) -> str:
        """Name the server, or what stands before it at another port."""

    def kill(self) -> None:
        """Kill the server: of several that one whose loss costs most."""

    def start(self) -> None:
        """Start what was killed, and wait until it answers."""

    def suspend(self) -> None:
        """Stop what `kill` would kill, as a machine does that hangs; its connections stay."""

    def resume(self) -> None:
        """Let it run again."""


@runtime_checkable
class Stops(Protocol):
    """A server that can be stopped in good order."""

    def stop(self) -> None:
        """Stop it; connections are ended."""


@runtime_checkable
class EndsSessions(Protocol):
    """A server whose connections an administrator can end."""

    def end_sessions(self) -> None:
        """End all connections of programs at the server's side."""


@runtime_checkable
class Forgets(Protocol):
    """A server that can lose its memory while it is away."""

    def lose_memory(self) -> None:
        """Remove all that it has written; it is not running."""


@runtime_checkable
class Cleaned(Protocol):
    """A folder whose files can be removed while locks use them."""

    def clean(self) -> None:
        """Remove its files, as cleaners of temporary files do."""


@runtime_checkable
class Several(Protocol):
    """Servers to which each program has a way of its own."""

    ports: list[int]


def ports_of(supplier: Supplier) -> list[int]:
    """Return where proxies lead to."""
    return supplier.ports if isinstance(supplier, Several) else [supplier.port]
