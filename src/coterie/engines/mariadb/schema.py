"""The tables of locks, and the run of the server that locks are granted in.

Queues and sessions are InnoDB's, and survive a restart of the server, but perhaps not a backup that is put back or
another server that takes over. So a row, `past`, names the run in which locks are granted: the server, and a
mark in a table in memory, which each restart empties. A program that finds another run than `past` names closes the past; no program is
let in until one of them has seen it closed for the longest lease that may be left of earlier runs, and opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.mariadb.connection import NO_TABLE, ServerError, shown
from coterie.engines.mariadb.statements import PART_BYTES_MAX, STRIPES, text
from coterie.errors import ConfigError, Unavailable
from coterie.system.witness import LIFE_LENGTH_MAX

if TYPE_CHECKING:
    from coterie.engines.mariadb.connection import MariadbConnection

VERSION = 1  # of the tables
NUMBERS_LOST_MAX = 1 << 20  # with the end of a run, and not made up for by the time of day
TRIES = 5  # where other programs make or change the same tables at the same moment

RUN = "concat(@@hostname, ':', @@port, '/', @@server_id, '/', coalesce((select mark from coterie_mark), ''))"
MAKE = f"""
create table if not exists coterie_past (
    one tinyint primary key, version int not null, run varbinary(400) not null, is_open bool not null,
    lease double not null, longest double not null, base bigint not null
) engine = innodb;
create table if not exists coterie_mark (
    one tinyint primary key, mark varbinary(36) not null
) engine = memory;
create table if not exists coterie_stripe (id int primary key) engine = innodb;
create table if not exists coterie_session (
    name varbinary(32) primary key, participant varbinary(32) not null, counter bigint not null,
    lease double not null, alive bool not null, connection bigint unsigned not null,
    ear bigint unsigned not null, mark varbinary(36) not null, key (participant)
) engine = innodb;
create table if not exists coterie_life (
    session varbinary(32) primary key, life varbinary({LIFE_LENGTH_MAX}) not null
) engine = innodb;
create table if not exists coterie_entry (
    id bigint auto_increment primary key, lock_name varbinary(255) not null,
    session varbinary(32) not null, attempt bigint not null, shared bool not null,
    participant varbinary(32) not null, process varbinary(400) not null, since double not null,
    unique key (session, attempt), key (lock_name, id)
) engine = innodb;
create table if not exists coterie_mail (
    id bigint auto_increment primary key, participant varbinary(32) not null,
    letter varbinary(32) not null, part varbinary({PART_BYTES_MAX}) not null, key (participant)
) engine = memory;
create table if not exists coterie_value (
    name varbinary(255) primary key, token bigint not null, sequence bigint not null,
    looks bigint not null, record mediumblob
) engine = innodb;
insert ignore into coterie_stripe values {", ".join(f"({each})" for each in range(STRIPES))};
insert ignore into coterie_past values (1, {VERSION}, '', 0, 0, 0, 0)
"""
# What a program does later, and has to be allowed: nothing of it changes a row.
REHEARSE = "; ".join(
    statement
    for table, column in (
        ("past", "run"),
        ("mark", "mark"),
        ("stripe", "id"),
        ("session", "name"),
        ("life", "life"),
        ("entry", "id"),
        ("mail", "id"),
        ("value", "looks"),
    )
    for statement in (
        f"insert into coterie_{table} select * from coterie_{table} where false",
        f"update coterie_{table} set {column} = {column} where false",
        f"delete from coterie_{table} where false",
    )
)
MARK = "insert ignore into coterie_mark values (1, uuid())"


class ServerRun(NamedTuple):
    """The run of the server that a connection leads to."""

    name: str
    is_open: bool
    lease: float  # that is waited for while it is closed


async def enter(connection: MariadbConnection, lease: float, known: int) -> ServerRun:
    """Find the run of the server, in which leases of this length are granted from now on.

    Args:
        connection: Which uses the database of the locks.
        lease: In seconds.
        known: The highest number that this process knows of.
    """
    least = known + NUMBERS_LOST_MAX
    read = (
        f"{REHEARSE}; select version, run = {RUN}, longest >= {lease!r}, is_open or base >= {least},"
        f" {RUN}, is_open, lease, exists (select 1 from coterie_mark) from coterie_past"
    )
    for _ in range(TRIES):
        try:
            answer = await connection.ask(read, tries=TRIES)
        except ServerError as error:
            if error.code != NO_TABLE:
                raise
            answer = None
        if answer is None or not answer.rows[-1]:
            await connection.ask(MAKE, tries=TRIES)
            continue
        ((version, is_named, is_long, is_above, name, is_open, left, is_marked),) = answer.rows[-1]
        if version != VERSION:
            raise ConfigError(
                f"{connection}: locks are kept in tables of version {version} there, and this program"
                f" knows version {VERSION}; let all programs have the same coterie"
            )
        if not is_marked:
            await connection.ask(MARK)
        elif not (is_named and is_long and is_above):
            await connection.ask(_change(lease, least), tries=TRIES)
        else:
            return ServerRun(shown(name), bool(is_open), left)
    raise Unavailable(f"{connection}: its tables are changed again and again")


def _change(lease: float, least: int) -> str:
    """Return the request that closes the past for a run that it does not name, then notes the lease and the numbers.

    All in one, so that no program which is stopped in the middle keeps others waiting. The longest lease that was granted
    counts, and that of a past which was not opened yet; also our own, which other programs have, too: a server that
    takes over may know of neither. Assignments are made from left to right.

    Numbers go on above all that earlier runs can have drawn, whatever of them was lost: by their count, or by the time
    since 2020, in parts of a second that leave room for 2**22 grants in each. So tokens go back only if the server has
    lost more than a million grants, its time of day went back, and no program that returns before the past is opened
    knows better.
    """
    time = f"ceil((unix_timestamp() + {lease!r} - 1577836800) * 4194304)"
    return (
        "begin; select version from coterie_past for update;"
        " update coterie_past set"
        f" lease = greatest({lease!r}, longest, if(is_open, 0, lease)),"
        f" longest = greatest({lease!r}, coalesce((select max(lease) from coterie_session where alive), 0)),"
        f" base = greatest(base + {NUMBERS_LOST_MAX}, {least}, {time}),"
        f" is_open = 0, run = {RUN} where run <> {RUN};"
        f" update coterie_past set longest = greatest(longest, {lease!r}),"
        f" base = if(is_open, base, greatest(base, {least})) where run = {RUN}; commit"
    )


def open_past(run: str) -> str:
    """Return the request that opens a run, by compare-and-set like the removal of any other session.

    All entries get new numbers, in their order: none was given out while the run was closed. Joins, which hold a
    stripe, are over or begin later.
    """
    return (
        "begin; select count(*) from coterie_stripe for update;"
        f" update coterie_past set is_open = 1 where run = {text(run)} and not is_open;"
        " set @opened = row_count();"
        " set @id = (select greatest(base, coalesce((select max(id) from coterie_entry), 0)) from coterie_past);"
        " update coterie_entry set id = (@id := @id + 1) where @opened = 1 order by id;"
        # The next number that is drawn is above that of the highest row that ever was.
        " insert into coterie_entry (id, lock_name, session, attempt, shared, participant, process, since)"
        " select @id + 1, '', '', 0, 0, '', '', 0 from coterie_past where @opened = 1;"
        " delete from coterie_entry where session = '' and attempt = 0; commit"
    )
