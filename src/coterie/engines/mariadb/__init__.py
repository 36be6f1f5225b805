"""Locks on MariaDB (10.6 or newer) or MySQL (8.0 or newer): `mariadb://user@host:3306/database`, `mysql://`.

Guaranteed, as long as one server at a time is written to: at most one holder at a time, or several in
shared mode; tokens that only grow; first come, first served. Entries and sessions are rows of InnoDB, and leases are
counted by the processes that wait, each on its own clock: neither the server's time of day nor its idea of a
connection takes part. After a restart holds go on, and no other program is let in until the leases from before are over.
Not guaranteed: anything while two servers take writes. Galera and group replication with several writers are refused.

A process needs two connections, of which one waits for news.
"""

from coterie.errors import ConfigError

try:
    import pymysql  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "mariadb:// and mysql:// need PyMySQL, which is not there: pip install 'coterie[mariadb]'"
    ) from None

from coterie.engines.mariadb.server import make_engine

__all__ = ["make_engine"]
