"""Locks on ZooKeeper (3.5 or newer): `zookeeper://host:2181,host:2181`, or `zookeepers://` with TLS.

Guaranteed, as long as ZooKeeper keeps its own promises (a majority of its members, with their disks): at
most one holder at a time, or several in shared mode; tokens that only grow, over failovers and
restarts of all members; first come, first served, by the order of sequence numbers.
"""

from coterie.errors import ConfigError

try:
    import kazoo  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "zookeeper:// needs kazoo, which is not there: pip install 'coterie[zookeeper]'"
    ) from None

from coterie.engines.zookeeper.server import make_engine

__all__ = ["make_engine"]
