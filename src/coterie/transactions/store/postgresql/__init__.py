"""Transactions on a PostgreSQL server (12 or newer): `postgresql://user@host:5432/database`.

The server keeps them apart, by serializable snapshot isolation, and keeps what was committed. All
processes that name the same database share the keys.
"""

from coterie.errors import ConfigError

try:
    import asyncpg  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "postgresql:// needs asyncpg, which is not there: pip install 'coterie[postgresql]'"
    ) from None

from coterie.transactions.store.postgresql.executor import PostgresqlExecutor

__all__ = ["PostgresqlExecutor"]
