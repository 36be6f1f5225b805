"""Locks on PostgreSQL (14 or newer): `postgresql://user@host:5432/database`, `postgres://`.

Guaranteed, as long as one server at a time is the primary and its time of day does not jump just after a
start: at most one holder at a time, or several in shared mode; tokens that only grow; first come, first
served, by the order of the server's own lock manager. Locks are advisory locks, so they are in
memory alone: after a restart, a crash of the server or a failover no program is let in until the
leases from before it are over. Not guaranteed: anything while two servers take themselves for the primary.

A process needs one connection, and one more for each lock that it had to wait for.
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
