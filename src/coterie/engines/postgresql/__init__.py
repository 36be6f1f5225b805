"""Locks on PostgreSQL (14 or newer): `postgresql://user@host:5432/database`, `postgres://`.

Guaranteed, as long as one server at a time is the primary: at most one holder at a time, or several in
shared mode; tokens that only grow; first come, first served. A lock is a row with its queue, and leases are
counted by the processes that wait, each on its own clock: neither the server's time of day nor its idea of
a connection takes part. After a restart, a crash of the server or a failover no program is let in until
the leases from before it are over. Not guaranteed: anything while two servers take themselves for the primary.

A process needs one connection.
"""

from coterie.errors import ConfigError

try:
    import asyncpg  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "postgresql:// needs asyncpg, which is not there: pip install 'coterie[postgresql]'"
    ) from None

from coterie.engines.postgresql.server import make_engine

__all__ = ["make_engine"]
