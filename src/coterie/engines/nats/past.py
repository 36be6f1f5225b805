"""The run of the servers that locks are granted in.

What a server has acknowledged is on its disk when the machine has written it there, which NATS does not wait for. So a
server that is alone may come back without the last of it, where its machine has failed. Each start of it is another run. In a
cluster the run is that of the stream: it has three replicas, which agree on each message.

A program that finds another run than the one that is noted closes it; no program is let in until one of them has seen it
closed for the longest lease that may be left of earlier runs, and opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.engines.nats.records import VERSION, PastRecord, read_session
from coterie.engines.queue.nonsense import sensible
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.nats.records import Subjects
    from coterie.engines.nats.stream import LockStream, Stored

NUMBERS_LOST_MAX = 1 << 20  # with the end of a run, and not made up for by the time of day
GRANTS_PER_SECOND_MAX = 1 << 22
EPOCH = 1_577_836_800  # 2020
TRIES = 5  # where other programs change the record at the same moment

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PastRecord).decode


async def enter(stream: LockStream, subjects: Subjects, lease: float, known: int) -> str:
    """Return the run of the servers, in which leases of this length are granted from now on.

    Args:
        stream: Where locks are kept.
        subjects: Of its messages.
        lease: In seconds.
        known: The highest number that this process knows of.
    """
    least = known + NUMBERS_LOST_MAX
    for _ in range(TRIES):
        state = await stream.enter()
        info = stream.connection.info
        run = f"{info.cluster or info.server_id}/{state.created}"
        found = await stream.get_when_ready(subjects.past)
        past = read_past(stream, found) if found else PastRecord()
        if past.run != run:
            longest = max([lease, *await _leases(stream, subjects)])
            left = 0.0 if past.is_open else past.lease
            changed = PastRecord(
                run=run,
                # Our own lease, too, which other programs have: a server that comes back may know of none.
                lease=max(lease, past.longest, left),
                longest=longest,
                base=max(past.base + state.last + NUMBERS_LOST_MAX, least, _number_by_time(lease)),
            )
        elif past.longest < lease or not (past.is_open or past.base >= least):
            base = past.base if past.is_open else max(past.base, least)
            changed = msgspec.structs.replace(past, longest=max(past.longest, lease), base=base)
        else:
            return run
        if await stream.put(subjects.past, _encode(changed), found.number if found else 0):
            return run
    raise Unavailable(f"{stream.connection}: its record of the past is changed again and again")


async def open_run(stream: LockStream, subjects: Subjects, run: str) -> None:
    """Open a run that is closed, by compare-and-set like the removal of any other session."""
    found = await stream.get(subjects.past)
    past = read_past(stream, found) if found else None
    if found and past and past.run == run and not past.is_open:
        opened = msgspec.structs.replace(past, is_open=True)
        await stream.put(subjects.past, _encode(opened), found.number)


def read_past(stream: LockStream, found: Stored) -> PastRecord:
    """Read the record."""
    with sensible(stream.connection):
        past = _decode(found.body)
    if past.version != VERSION:
        raise ConfigError(
            f"{stream.connection}: locks are kept in records of version {past.version} there, and this program"
            f" knows version {VERSION}; let all programs have the same coterie"
        )
    return past


async def _leases(stream: LockStream, subjects: Subjects) -> list[float]:
    """Return the leases of the sessions that are there."""
    records = [read_session(found.body) for found in await stream.all(subjects.sessions)]
    return [record.lease for record in records if record is not None]


def _number_by_time(lease: float) -> int:
    """Return a number above all that were drawn so far, if the time of day has not gone back."""
    return int((system.wall() + lease - EPOCH) * GRANTS_PER_SECOND_MAX)
