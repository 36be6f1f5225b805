"""Adapters: what an audit needs to know of a library of locks, in about ten lines of a module.

SERVER = "valkey"       # the server to start, a name of `SERVERS`; left out if there is none
LEASE = 2.0             # seconds after which a lock that is not renewed is free; left out if there are none
LIBRARY = "redis"       # the distribution whose version is shown; may be left out

def lock(place, name):  # returns what has the methods of `AuditedLock`
return redis.Redis(port=place.port).lock(name, timeout=LEASE)
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class AuditedLock(Protocol):
    """One lock, as one program has it; programs call nothing of it at the same time.

    It may say more. `token` is the fence of the present hold. `held()` says whether the library still calls the lock
    held, by what it knows without asking the server: a flag, a listener, a clock. `ask()` is its question to the
    server for that. `close()` disconnects.
    """

    def acquire(self) -> object:
        """Wait for the lock; only False and None mean that it was not obtained."""

    def release(self) -> object:
        """Give it back; raise an error, or return False, if it was lost before."""


class LockPlace(msgspec.Struct, frozen=True):
    """Where a program finds the server: by ports of its own on 127.0.0.1, which lead through a proxy."""

    folder: str  # shared by all programs; for locks that are files
    ports: tuple[int, ...] = ()
    url: str = ""  # of the first port, without parameters; with user and password where the server has these

    @property
    def port(self) -> int:
        """The port of the first server."""
        return self.ports[0]


class Adapter(NamedTuple):
    """A library of locks under audit."""

    title: str
    make: Callable[[LockPlace, str], AuditedLock]
    server: str  # empty if there is none
    lease: float | None
    version: str


class KnownTarget(NamedTuple):
    """A target that has a name: its module, the server where it does not choose one itself, and what it needs."""

    module: str
    server: str = ""
    install: str = ""


OURS = "of_coterie"
KNOWN = {
    "redis-py": KnownTarget("redis_py", install="redis"),
    "pottery": KnownTarget("redlock", install="pottery"),
    "etcd3gw": KnownTarget("etcd_gateway", install="etcd3gw"),
    "kazoo": KnownTarget("zookeeper_lock", install="kazoo"),
    "psycopg": KnownTarget("advisory", install="psycopg[binary]"),
    "filelock": KnownTarget("file_lock", install="filelock"),
    "fasteners": KnownTarget("inter_process", install="fasteners"),
    "file": KnownTarget(OURS),
    "coterie": KnownTarget(OURS, "coterie"),
    "valkey": KnownTarget(OURS, "valkey", "coterie[redis]"),
    "postgresql": KnownTarget(OURS, "postgresql", "coterie[postgresql]"),
    "etcd": KnownTarget(OURS, "etcd", "coterie[etcd]"),
    "zookeeper": KnownTarget(OURS, "zookeeper", "coterie[zookeeper]"),
}


def load_adapter(target: str) -> Adapter:
    """Import the adapter of a target: a name of `KNOWN`, or the path of a file."""
    if target in KNOWN:
        known = KNOWN[target]
        try:
            module = importlib.import_module(f"coterie.lab.lock_audit.adapters.{known.module}")
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{target}: {error.name} is not installed: pip install '{known.install}'"
            ) from None
        return _described(target, module, known.server)
    if not target.endswith(".py"):
        names = ", ".join(KNOWN)
        raise UsageError(f"expected one of {names}, or the file of an adapter, got {target!r}")
    return _described(target, _import_file(Path(target)), "")


def _described(target: str, module: ModuleType, server: str) -> Adapter:
    make = getattr(module, "lock", None)
    if not callable(make):
        raise UsageError(f"{target} has no function lock(place, name)")
    lease = getattr(module, "LEASE", None)
    server = server or getattr(module, "SERVER", "")
    library = getattr(module, "LIBRARY", "")
    return Adapter(target, make, server, lease, f"{library} {_version(library)}" if library else "")


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _import_file(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # for its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - code of a user, which may raise anything
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from None
    return module
