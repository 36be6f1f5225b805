"""What a peer has to bring along: a bank, and clients that make transfers there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.locks.peers.base import Need
    from benchmarks.transactions.workload import Transfer


class Client(Protocol):
    """A client that makes transfers, as a task of the event loop."""

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        """Make one transfer, if need be again and again; give how many attempts that took."""


class BlockingClient(Protocol):
    """The same of a library without an event loop; each has a thread of its own."""

    def transfer(self, transfer: Transfer, pause: float) -> int: ...

    def close(self) -> None: ...


class Peer(ABC):
    """One way to make transfers."""

    needs: ClassVar[tuple[Need, ...]] = ()
    server: int | None = None  # the process whose CPU time counts as well

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    async def open(self, folder: Path) -> None:
        """Make a bank with all accounts."""

    @abstractmethod
    async def balances(self) -> list[int]:
        """Read all accounts, when no client writes any more."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End whatever was begun."""


class TaskPeer(Peer):
    """One whose clients are tasks of the event loop."""

    @abstractmethod
    async def connect(self) -> Client: ...


class ThreadPeer(Peer):
    """One whose clients have a thread each."""

    @abstractmethod
    def connect(self) -> BlockingClient:
        """Make a client; this runs in its thread."""
