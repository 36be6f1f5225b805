"""Locks on etcd (3.4 or newer): `etcd://host:2379,host:2379`.

Guaranteed, as long as etcd keeps its own promises (a majority of its members, with their disks): at
most one holder at a time, or several in shared mode; tokens that only grow, over failovers and
restarts of all members; first come, first served, by the order of revisions.
"""

import os

from coterie.errors import ConfigError

# With gRPC's own handling of forks one child in twenty crashed, killed by a segmentation fault, where a
# program that holds a lock forks. Without it a child is safe as long as it leaves gRPC alone, and
# coterie refuses to be used there.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault(
    "GRPC_VERBOSITY", "ERROR"
)  # stderr is the program's; errors say what happened

try:
    import grpc  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ConfigError(
        "etcd:// needs grpcio, which is not there: pip install 'coterie[etcd]'"
    ) from None

from coterie.engines.etcd.server import make_engine

__all__ = ["make_engine"]
