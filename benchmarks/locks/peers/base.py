"""What a peer has to bring along.

One half runs in the process that measures: it starts and stops servers, and needs no client library.
The other half, `begin` and `connect`, runs in the workers.
"""

from __future__ import annotations

import importlib.util
import shutil
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.locks.machine import Server

LEASE_SECONDS = 30  # asked for wherever a peer wants one


class Client(Protocol):
    """Somebody who takes locks."""

    async def acquire(self, name: str, timeout: float | None) -> Any:  # noqa: ASYNC109 - the peers' own
        """Take the lock and give what `release` needs, or raise when the time is over."""

    async def release(self, held: Any) -> None:
        """Give it back, and return when that is certain."""


class BlockingClient(Protocol):
    """The same of a library without an event loop; each has a thread or process of its own."""

    def acquire(self, name: str, timeout: float | None) -> Any: ...

    def release(self, held: Any) -> None: ...


class Need(NamedTuple):
    """Something that has to be installed."""

    package: str  # its name at Debian, or at PyPI if `module` is given
    program: str | None = None  # on the path, or the path of a file
    module: str | None = None

    def is_met(self) -> bool:
        if self.module is not None:
            return importlib.util.find_spec(self.module) is not None
        assert self.program is not None, "a program or a module"
        return shutil.which(self.program) is not None or Path(self.program).exists()


def advice(unmet: Sequence[Need]) -> str:
    """Say how to install what is missing."""
    debian = " ".join(need.package for need in unmet if need.module is None)
    python = " ".join(need.package for need in unmet if need.module is not None)
    commands = [f"apt-get install {debian}"] if debian else []
    commands += [f"pip install {python}"] if python else []
    return "; ".join(commands)


class Peer:
    """One way to get a lock."""

    label: ClassVar[str]
    servers_label: ClassVar[str]  # how many servers agree on a grant
    on_disk: ClassVar[str]  # what of a grant is on disk before it is answered
    needs: ClassVar[tuple[Need, ...]] = ()
    members: ClassVar[int] = 0  # above 0: no servers, that many workers are the cluster
    is_blocking: ClassVar[bool] = False  # its clients are `BlockingClient`
    has_failover: ClassVar[bool] = False
    is_on_uvloop: ClassVar[bool] = False  # its clients run on uvloop, not on asyncio's event loop
    settling_seconds: ClassVar[float] = 0.0  # of load before anything is measured

    def __init__(self) -> None:
        self.servers: list[Server] = []

    def start(self, folder: Path) -> None:
        """Start the servers and return when they serve."""

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        """Tell the workers where to connect: first to the leader, or to one that W5 does not kill."""
        return {}

    def victim(self) -> Server:
        """Choose the server that W5 kills: the leader, where there is one."""
        return self.servers[0]

    async def begin(self, settings: dict[str, Any], index: int) -> None:
        """Begin a worker, before there are clients in it."""

    @abstractmethod
    async def connect(self, settings: dict[str, Any], *, shared: bool) -> Client | BlockingClient:
        """Make a client; the shared ones of a worker may use one connection together."""
