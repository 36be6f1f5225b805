"""The tables of locks, who may use them, and the run of the server that locks are granted in.

Queues and sessions are in unlogged tables unless `durable=yes`: a crash of the server or the promotion of a
standby empties them, while holders may not know that yet. A logged row, `past`, names the run in which locks
are granted. A run is the start of the server, its timeline, and a mark in an unlogged table: it goes where
the queues go. A program that finds another run than `past` names closes the past; no program is let in until
one of them has seen it closed for the longest lease that may be left of earlier runs, and opens it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from coterie.engines.postgresql.statements import START
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

VERSION = 2  # of the tables; version 1 took advisory locks, and had `epoch` in the place of `past`
TRIES = 5  # where other programs make or change the same tables at the same moment

TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)"
RUN = f"extract(epoch from {START})::text || '/' || {TIMELINE} || '/' || coalesce((select max(mark) from coterie.memory), '')"
LOGGED = "(select relpersistence = 'p' from pg_class where oid = 'coterie.line'::regclass)"
# By which processes a program is known; tables of earlier builds have no column for it.
HAS_LIVES = (
    "exists (select from pg_attribute where attrelid = 'coterie.session'::regclass and attname = 'life'"
    " and not attisdropped)"
)
OWNS_SESSIONS = (
    "(select pg_has_role(relowner, 'usage') from pg_class where oid = 'coterie.session'::regclass)"
)
ADD_LIVES = "alter table coterie.session add column if not exists life text not null default ''"
READ = f"""
select version, run = {RUN}, longest >= $1, {LOGGED}, run, {START}, is_open, lease,
    {HAS_LIVES}, {OWNS_SESSIONS}
from coterie.past
"""
IS_OPEN = "select is_open, lease from coterie.past where run = $1"
# By compare-and-set, like the removal of any other session: of the run that was seen closed for so long.
OPEN = "update coterie.past set is_open = true where run = $1 and not is_open returning run"

HAS_SCHEMA = "select to_regnamespace('coterie') is not null"
# Of a value what was written last, and the token of the last hold that has read it. Logged, whatever the others are.
HAS_VALUES = "select to_regclass('coterie.value') is not null"
MAKE_VALUES = """
create table if not exists coterie.value (
    name text primary key, fence bigint not null, token bigint not null, sequence bigint not null,
    record bytea
)
"""
MAKE = f"""
create sequence if not exists coterie.number;
create table if not exists coterie.past (
    version int primary key, run text not null, is_open bool not null,
    lease float8 not null, longest float8 not null
);
{MAKE_VALUES};
create unlogged table if not exists coterie.memory (mark text not null);
create unlogged table if not exists coterie.session (
    name text primary key, counter bigint not null, lease float8 not null, alive bool not null,
    life text not null default ''
) with (fillfactor = 50);
create unlogged table if not exists coterie.line (
    lock text primary key, queue text[] not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
"""
MAKE_DURABLE = """
alter table coterie.memory set logged;
alter table coterie.session set logged;
alter table coterie.line set logged
"""

# A program of version 1 reads this table before it takes a lock; what it finds now is a view that fails.
FORMER = "select relkind = 'r' from pg_class where oid = to_regclass('coterie.epoch')"
FORMER_PROGRAMS = """
select string_agg(split_part(application_name, ' ', 3), ', ') from pg_stat_activity
where datname = current_database() and starts_with(application_name, 'coterie ')
"""
FORMER_LEASE = """
select greatest(max(lease), max(pause), extract(epoch from max(opens) - clock_timestamp()), 0)::float8
from coterie.epoch
"""
REFUSE_FORMER = """
create function coterie.refuse() returns text language plpgsql as $$ begin
    raise exception using errcode = '28000', message =
        'locks of this database are kept by a newer version of coterie; upgrade this program';
end $$;
create view coterie.epoch as select
    coterie.refuse() as run, now() as opens, 0::float8 as pause, 0::float8 as lease;
grant select on coterie.epoch to public
"""

MARK = """
insert into coterie.memory select gen_random_uuid()::text
where not exists (select from coterie.memory)
"""
FIRST = "insert into coterie.past values ($1, '', false, $2, $2) on conflict do nothing"
LOCK = "select version from coterie.past for update"
IS_NAMED = f"select run = {RUN} from coterie.past"
# The longest lease that was granted counts, and that of a past which was not opened yet. A server that was promoted
# may know of neither: so our own lease counts as well, which other programs have, too. Before the first run of the
# first timeline there is nothing to wait for.
CLOSE = f"""
update coterie.past set
    run = {RUN},
    is_open = run = '' and longest = 0 and {TIMELINE} = '00000001',
    lease = greatest($1, longest, case when not is_open then lease end),
    longest = greatest($1, (select max(lease) from coterie.session where alive))
"""
LENGTHEN = "update coterie.past set longest = greatest(longest, $1)"
# The first numbers of a run: above all that earlier ones can have drawn, whatever of them was lost, by their count
# or by the time since 2020, in parts of a second that leave room for 2**22 grants in each. So tokens go back only if
# the server has lost more than a million grants, its time of day went back, and no program that returns knows better.
FORWARD = """
select setval('coterie.number', greatest(
    $2::bigint + 1048576, (select last_value + 1048576 from coterie.number),
    ceil((extract(epoch from clock_timestamp()) + $1::float8 - 1577836800) * 4194304)::bigint
))
"""

RIGHTS = """
select format('grant usage on schema coterie to %I', current_user)
where not has_schema_privilege('coterie', 'usage')
union all
select format('grant select, insert, update, delete on coterie.%I to %I', relname, current_user)
from pg_class where relnamespace = 'coterie'::regnamespace and relname in ('past', 'memory', 'session', 'line')
    and not (has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
        and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
union all
select format('grant usage, select, update on sequence coterie.number to %I', current_user)
from pg_class where relnamespace = 'coterie'::regnamespace and relname = 'number'
    and not (has_sequence_privilege(oid, 'usage') and has_sequence_privilege(oid, 'select')
        and has_sequence_privilege(oid, 'update'))
"""

RACES = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateFunctionError,
    asyncpg.DuplicateSchemaError,
)


class PostgresqlRun(NamedTuple):
    """The run of the server that a connection leads to."""

    name: str
    start: datetime  # of the server, part of the name
    is_open: bool
    lease: float  # that is waited for while it is closed
    is_logged: bool  # whether the queues survive a crash
    has_lives: bool  # whether sessions can say by which processes their programs are known


async def enter(connection: Any, lease: float, known: int, *, durable: bool) -> PostgresqlRun:
    """Find the run of the server, in which leases of this length are granted from now on.

    Args:
        connection: That no one else uses yet.
        lease: In seconds.
        known: The highest number that this process knows of.
        durable: The tables are to survive a crash.
    """
    was_tried = False
    for _ in range(TRIES):
        if await connection.fetchval(HAS_SCHEMA):
            await _check_rights(connection)
        try:
            found = await connection.fetchrow(READ, lease)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            found = None
        if found is None:
            with contextlib.suppress(*RACES):  # another program makes them at the same moment
                await _make(connection)
            continue
        *past, has_lives, owns_sessions = found
        version, is_named, is_long, is_logged, name, start, is_open, left = past
        if version != VERSION:
            raise ConfigError(
                f"locks are kept in tables of version {version} there, and this program knows version"
                f" {VERSION}; let all programs have the same coterie"
            )
        if not is_named or not is_long:
            await _change(connection, lease, known)
        elif durable and not is_logged:
            await _make_durable(connection)
        elif owns_sessions and not has_lives and not was_tried:
            was_tried = True
            await _add_lives(connection)
        else:
            return PostgresqlRun(name, start, is_open, left, is_logged, has_lives)
    raise asyncpg.InterfaceError("its tables are changed again and again")


async def _check_rights(connection: Any) -> None:
    """Raise `ConfigError` with the statements that give this role the rights it lacks, now or after a restart."""
    lacking = [grant for (grant,) in await connection.fetch(RIGHTS)]
    if lacking:
        raise ConfigError(
            f"this role lacks rights that locks need; let their owner run: {'; '.join(lacking)}"
        )


async def _make(connection: Any) -> None:
    """Make the tables; those of version 1 go, if no program uses them."""
    async with connection.transaction():
        if not await connection.fetchval(HAS_SCHEMA):
            await connection.execute("create schema coterie")
        await connection.execute(MAKE)
        former = await connection.fetchval(FORMER)
        lease = 0.0
        if former:
            # No program of version 1 opens a session after this: it reads the table first.
            await connection.execute("lock table coterie.epoch in access exclusive mode")
            programs = await connection.fetchval(FORMER_PROGRAMS)
            if programs:
                raise ConfigError(
                    f"programs with an older version of coterie use locks there ({programs}); end them first:"
                    " the two do not exclude each other"
                )
            # The server may have ended a session that its holder takes for alive: so their leases are waited for.
            lease = await connection.fetchval(FORMER_LEASE)
            await connection.execute("drop table coterie.epoch")
        if former is not False:
            await connection.execute(REFUSE_FORMER)
        await connection.execute(FIRST, VERSION, lease)


async def _change(connection: Any, lease: float, known: int) -> None:
    """Close the past for a run that it does not name, or note a longer lease."""
    async with connection.transaction():
        # A server that crashes has to remember this, whatever it may forget else.
        await connection.execute("set local synchronous_commit = on")
        await connection.execute(LOCK)
        # In a statement of its own: one that waits for a row sees the other tables as they were before it waited.
        if await connection.fetchval(IS_NAMED):
            await connection.execute(LENGTHEN, lease)
            return
        await connection.execute(MARK)
        await connection.execute(CLOSE, lease)
        # No number of this run has been drawn yet: the row is not seen before the transaction ends.
        await connection.execute(FORWARD, lease, known)


async def _add_lives(connection: Any) -> None:
    """Add the column to a table of an earlier build, or do without it.

    A dump reads the table as long as it runs, and renewals would wait behind one who waits for its end.
    """
    with contextlib.suppress(asyncpg.LockNotAvailableError, *RACES):
        async with connection.transaction():
            await connection.execute("set local lock_timeout = '100ms'")
            await connection.execute(ADD_LIVES)


async def _make_durable(connection: Any) -> None:
    """Let the tables survive a crash, if no program uses them that does not wait for the disk."""
    async with connection.transaction():
        await connection.execute("lock table coterie.session in access exclusive mode")
        if await connection.fetchval("select count(*) from coterie.session where alive"):
            raise ConfigError(
                "programs without durable=yes use locks there; end them first, then give it to all"
            )
        await connection.execute(MAKE_DURABLE)
