"""Locks on Redis (6.2 or newer) or Valkey: `redis://host:6379`, `rediss://`, `valkey://`, `valkeys://`.

Guaranteed, as long as one server answers for all programs: at most one holder at a time, or several in
shared mode; tokens that only grow, as long as the server's time of day does not go back; first come,
first served. A restart, with or without what it had in memory, lets no program in for a lease, so holds
from before it are over. Not guaranteed: anything across a failover to a replica, which may not have what
the primary had answered. All programs have to use the same lease.
"""

from coterie.errors import ConfigError

try:
    import redis  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "redis:// and valkey:// need redis-py, which is not there: pip install 'coterie[redis]'"
    ) from None

from coterie.engines.redis.server import make_engine

__all__ = ["make_engine"]
