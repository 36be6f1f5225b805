"""Locks in a bucket of S3, or of a server that speaks its protocol: `s3s://s3.eu-central-1.amazonaws.com/bucket`.

Guaranteed, as long as the bucket keeps what it has acknowledged and writes on conditions (`If-None-Match`, `If-Match`): at
most one holder at a time, or several in shared mode; tokens that only grow; first come, first served. Each lock is one object
with its whole queue, each session another one, and leases are counted by the processes that wait, each on its own clock.

S3 tells nothing by itself: programs that wait look again and again, and each look is paid for. So this is for jobs of minutes, with a
lease of 30 s and some seconds from one holder to the next.

The client is part of this package: HTTP over asyncio and version 4 of Amazon's signature. The libraries there are send a write again
by themselves when an answer is late, and do not say which of the two was refused.
"""

from coterie.engines.s3.server import make_engine

__all__ = ["make_engine"]
