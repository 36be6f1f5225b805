"""What an audit needs of a store: sessions that run one transaction at a time, and a place to tidy up.

Values are texts, lists have whole numbers. An audit keeps to names that begin with its own prefix.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coterie.errors import ConfigError, UsageError
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Aborted(Exception):  # noqa: N818 - says what is the matter
    """The store has refused a transaction because of others; nothing of it has taken effect."""


class Level(NamedTuple):
    """A way to run transactions on a store."""

    summary: str
    promises: str  # a level of `coterie.lab.isolation.LEVELS`; empty if none


class Session(Protocol):
    """A connection, on which one transaction follows another."""

    async def begin(self) -> None:
        """Begin a transaction."""

    async def read(self, key: str) -> str | None:
        """Return the value of a key, None if it has none."""

    async def write(self, key: str, value: str) -> None:
        """Give a key a value."""

    async def append(self, key: str, element: int) -> None:
        """Append to the list of a key."""

    async def read_list(self, key: str) -> list[int]:
        """Return the list of a key."""

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Return what has a value among all keys of a prefix; `names` are those that may have one."""

    async def commit(self) -> None:
        """Commit; raise `Aborted` if the store refuses."""

    async def abort(self) -> None:
        """Give up the transaction that is under way."""

    async def close(self) -> None:
        """Disconnect."""


class Target(Protocol):
    """A store that is audited."""

    prefix: str  # of the names of all that is made

    @property
    def levels(self) -> Mapping[str, Level]:
        """The ways to run transactions, from weak to strong."""

    @property
    def rounds_at_a_time(self) -> int | None:
        """How many rounds may run at the same time; None: as many as there are clients for."""

    async def open(self) -> None:
        """Connect, and make what the audit needs."""

    async def session(self, level: str) -> Session:
        """Open a session whose transactions run at a level."""

    async def remove(self) -> None:
        """Remove all that the audit has made, and disconnect."""


class _Home(NamedTuple):
    module: str
    library: str
    extra: str


POSTGRESQL = _Home("postgresql", "asyncpg", "postgresql")
REDIS = _Home("redis", "redis", "redis")
ETCD = _Home("etcd", "grpc", "etcd")
SQLITE = _Home("sqlite", "", "")
HOMES = {
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    "sqlite": SQLITE,
    "redis": REDIS,
    "rediss": REDIS,
    "valkey": REDIS,
    "valkeys": REDIS,
    "etcd": ETCD,
    "etcds": ETCD,
}


def make_target(url: str, prefix: str) -> Target:
    """Return the store that a URL names; its tables or keys will begin with the prefix."""
    scheme, colon, _ = url.partition("://")
    home = HOMES.get(scheme)
    if not colon or home is None:
        kinds = ", ".join(f"{name}://" for name in ("postgresql", "sqlite", "redis", "etcd"))
        raise UsageError(f"expected the URL of a store ({kinds}), got {without_password(url)!r}")
    try:
        module = importlib.import_module(f"coterie.lab.audit.{home.module}")
    except ModuleNotFoundError as error:
        if error.name != home.library:
            raise
        raise ConfigError(
            f"{scheme}:// needs {home.library}, which is not there: pip install 'coterie[{home.extra}]'"
        ) from None
    target: Target = module.make_target(url, prefix)
    return target
