"""Locks on NATS JetStream (2.11 or newer): `nats://user@a:4222,b:4222,c:4222`.

Guaranteed, as long as JetStream keeps what it has acknowledged: at most one holder at a time, or several in
shared mode; tokens that only grow; first come, first served. Entries and sessions are messages of a stream, and leases
are counted by the processes that wait, each on its own clock: neither the server's time of day nor its idea of a
connection takes part. After a restart of a server that is alone, holds go on, and no other program is let in until the
leases from before are over. In a cluster the stream has three replicas.

It is a stream of its own and not a key-value bucket: a bucket keeps a mark of each key that was deleted.

A process needs one connection. The client is part of this package, so nothing else has to be installed.
"""

from coterie.engines.nats.server import make_engine

__all__ = ["make_engine"]
