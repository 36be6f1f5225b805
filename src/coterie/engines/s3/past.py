"""The run that locks are granted in.

A bucket has no runs: what S3 has acknowledged stays. But all objects may have been removed, with the queues of locks that
are held. So a bucket without the record of the past is taken for one that was emptied just now: the first program makes the
record, closed, and no program is let in until one of them has seen it closed for a whole lease, and opens it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.engines.cas.steps import ServerPast
from coterie.engines.s3.records import VERSION, PastObject, read, write
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.s3.bucket import Bucket
    from coterie.engines.s3.records import Keys

NUMBERS_LOST_MAX = 1 << 20  # with a bucket that was emptied, and not made up for by the time of day
GRANTS_PER_SECOND_MAX = 1 << 22
EPOCH = 1_577_836_800  # 2020
PAUSES = (0.0, 0.01, 0.05, 0.2, 0.5)  # where other programs change the record at the same moment


async def enter(bucket: Bucket, keys: Keys, lease: float) -> ServerPast:
    """Return the run in which leases of this length are granted from now on; begin one if there is none."""
    for pause in PAUSES:
        found = await bucket.get(keys.past)
        if found is None:
            await bucket.check_rivals(keys.rivals())
            changed = PastObject(run=system.secret(8).hex(), lease=lease)
        else:
            past = read(bucket, found.body, PastObject)
            if past.version != VERSION:
                raise ConfigError(
                    f"{bucket}: locks are kept in records of version {past.version} there, and this program"
                    f" knows version {VERSION}; let all programs have the same coterie"
                )
            if past.is_open or past.lease >= lease:
                return shown(past)
            changed = msgspec.structs.replace(past, lease=lease)
        if await bucket.put(keys.past, write(changed), found.etag if found else None):
            return shown(changed)
        await asyncio.sleep(pause * system.random().random())
    raise Unavailable(f"{bucket}: its record of the past is changed again and again")


async def open_run(bucket: Bucket, keys: Keys, run: str) -> None:
    """Open a run that is closed, by compare-and-set like the removal of any other session."""
    found = await bucket.get(keys.past)
    past = read(bucket, found.body, PastObject) if found else None
    if found and past and past.run == run and not past.is_open:
        opened = msgspec.structs.replace(past, is_open=True)
        await bucket.put(keys.past, write(opened), found.etag)


def shown(past: PastObject) -> ServerPast:
    """Return what a session wants to know of it."""
    return ServerPast(past.run, past.is_open, past.lease)


def number_by_time() -> int:
    """Return a number above all that were drawn so far, if the time of day has not gone back."""
    return int((system.wall() - EPOCH) * GRANTS_PER_SECOND_MAX) + NUMBERS_LOST_MAX
