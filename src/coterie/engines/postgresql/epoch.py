"""The runs of the server that locks were granted in: what is left of them on the disk.

Advisory locks are gone with the server, while their holders may not know that yet. So a session that
finds itself on a run of the server that the table does not name lets no program in until the leases from before
are over. All sessions read the row before they take a lock, and the numbers are set forward before it can be read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from typing import Any

# A run later than the last: the time since 2020 at which this run grants, in parts of a second that leave room
# for 2**22 grants in each. In a failover the sequence may go back by what the replica has not heard of, and
# the run before may have begun a moment ago; but this one grants later than that by the pause.
FORWARD = (
    "select setval('coterie.number', greatest((select last_value + 1048576 from coterie.number),"
    " (select ceil((extract(epoch from opens) - 1577836800) * 4194304)::bigint"
    " from coterie.epoch where run = $1)))"
)
MAKE = """
create schema if not exists coterie;
create sequence if not exists coterie.number;
create table if not exists coterie.epoch (
    run text primary key, opens timestamptz not null, pause float8 not null, lease float8 not null
)
"""
FIND = (
    "select least(pause, extract(epoch from opens - clock_timestamp()))::float8, lease"
    " from coterie.epoch where run = $1"
)
# The longest lease that was asked for counts, and a pause that the last run has not seen the end of. A
# server that was promoted may not have heard of a lease, or of the table: its timeline is not the first. Then
# our own lease counts as well, which other programs have, too.
ADD = """
insert into coterie.epoch (run, opens, pause, lease)
select $1, clock_timestamp() + make_interval(secs => pause), pause, $2
from (select greatest(
    max(lease), extract(epoch from max(opens) - clock_timestamp()),
    case when pg_walfile_name(pg_current_wal_lsn()) >= '00000002' then $2::float8 end, 0
)::float8 as pause from coterie.epoch) former
on conflict do nothing returning run
"""


async def enter(connection: Any, run: str, lease: float) -> float:
    """Say that leases of this length are granted from now on; return in how many seconds they may be."""
    for _ in range(3):
        try:
            found = await connection.fetchrow(FIND, run)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            await _make(connection)
            continue
        if found is not None and found[1] >= lease:
            return max(0.0, float(found[0]))
        async with connection.transaction():
            # A server that crashes has to remember this, whatever it may forget else.
            await connection.execute("set local synchronous_commit = on")
            if found is not None:
                query = "update coterie.epoch set lease = greatest(lease, $2) where run = $1"
                await connection.execute(query, run, lease)
            else:
                await _add(connection, run, lease)
    raise asyncpg.InterfaceError("the row of this run of the server is removed again and again")


async def _make(connection: Any) -> None:
    # Another process may make them at the same moment.
    with contextlib.suppress(asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
        await connection.execute(MAKE)


async def _add(connection: Any, run: str, lease: float) -> None:
    await connection.execute("lock table coterie.epoch in share row exclusive mode")
    if await connection.fetchval(ADD, run, lease) is not None:
        # No number of this run has been drawn yet: the row cannot be read before the transaction ends.
        await connection.fetchval(FORWARD, run)
        await connection.execute("delete from coterie.epoch where run <> $1", run)
