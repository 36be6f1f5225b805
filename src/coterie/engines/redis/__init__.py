"""Locks on Redis (6.2 or newer) or Valkey: `redis://host:6379`, `rediss://`, `valkey://`, `valkeys://`.

Guaranteed, as long as one server answers for all programs: at most one holder at a time, or several in
shared mode; first come, first served; tokens that only grow, unless the server has lost its memory and its
time of day has gone back and no program that knew a later one comes back. Leases are counted by the
programs, on their own clocks. A restart, with or without what it had in memory, lets no program in until
holds from before are over. Not guaranteed: anything across a failover to a replica, which may not have
what the primary had answered; where sentinels are named, `redis+sentinel://a,b,c/mymaster`, no hold outlasts one. All programs
have to use the same lease.
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
