"""What is said to PostgreSQL about sessions and queues, each in one statement.

A lock is a row with its queue, there as long as the queue is not empty. An entry is a text of five parts:

    x17 SESSION PARTICIPANT 1763503205.25 HOST:PID

its mode (`x` alone, `s` shared) and attempt, the session that it stands and falls with, the address of its
mail, when it was made, and by which process. It is chosen before it is sent, so a join that is sent again finds it.

Two rules that statements here depend on. In a statement that writes, the row of the lock is its newest version,
and a session that is read beside it is as old as the snapshot of the statement: so a session that is seen to be
dead is dead, and one that is not seen may be too new. And a number is drawn while its entry is inside, by the
`returning` of a statement that has the row, or by a later look: one that is drawn before the row is waited for
may be older than that of a hold that comes between.
"""

from __future__ import annotations

import functools

from coterie.engines.queue.observation import NEIGHBOURS

DESCRIBE = "select current_setting('server_version'), pg_is_in_recovery()"
GREET = "select pg_backend_pid(), pg_is_in_recovery(), current_setting('application_name')"

SETTINGS = {
    "application_name": "",  # filled in for each connection
    # A statement that waits for the row of a lock must not keep a renewal waiting for a lease.
    "lock_timeout": "",
    # What an administrator has set for the role or the database is not meant for locks.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    # Rows are found by their keys. The planner takes tables that are nearly empty for cheaper to read as a whole, and
    # these are full of rows that have gone: each lock is two.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # What does read a whole table counts as costly then, and would be compiled each time, for tenths of a second.
    "jit": "off",
    # Rows of unlogged tables need no flush; what must survive a crash asks for it.
    "synchronous_commit": "off",
}
TRANSACTION_TIMEOUT_SINCE = 17


def settings(version: int) -> dict[str, str]:
    """Return what is set for each connection, where the server is of that version."""
    if version < TRANSACTION_TIMEOUT_SINCE:
        return dict(SETTINGS)
    return SETTINGS | {"transaction_timeout": "0"}


def set_all(names: list[str]) -> str:
    """Return the statement that makes settings, whose values are its parameters."""
    parts = (f"set_config('{name}', ${number}, false)" for number, name in enumerate(names, 1))
    return f"select {', '.join(parts)}"


# What a notice begins with: look at that lock, or this entry is inside with that number. Those of letters begin with
# a digit.
NEWS, INSIDE = "w", "i"

START = "pg_postmaster_start_time()"

# Queues


def _inside(queue: str) -> str:
    """Return the entries of a queue that are inside: the first, or all before one that wants it alone."""
    return (
        f"{queue}[:greatest(1, coalesce((select min(place) - 1 from unnest({queue}) with ordinality"
        f" as all_of(entry, place) where entry like 'x%'), cardinality({queue})))]"
    )


def _is_inside(entry: str, queue: str) -> str:
    return f"({queue}[1] = {entry} or (left({entry}, 1) = 's' and {entry} = any({_inside(queue)})))"


def _without(queue: str, sessions: str) -> str:
    return (
        f"array(select entry from unnest({queue}) with ordinality as all_of(entry, place)"
        f" where split_part(entry, ' ', 2) <> all({sessions}) order by place)"
    )


def _wake(queue: str, lock: str) -> str:
    """Notify those who are inside now that they may look."""
    return (
        "(select count(pg_notify('coterie_' || split_part(entry, ' ', 3), "
        f"'{NEWS}' || {lock})::text) from unnest({_inside(queue)}) as entry)"
    )


def _let_in(queue: str, lock: str, gone: str, is_open: str) -> str:
    """Notify those who have come inside by the end of an entry, each with its number.

    A notice is sent if and only if its transaction commits, and each entry that it names is inside from then on,
    until it is removed. The number is drawn while this transaction has the row. So a notice is as good as
    the answer to a look, which is also under way for a while; as long as the run is closed it is a mere hint.
    Beside a sharer that leaves all others that share are inside already.
    """
    return (
        "(select count(pg_notify('coterie_' || split_part(entry, ' ', 3),"
        f" case when {is_open} then '{INSIDE}' || nextval('coterie.number') || chr(10) || entry"
        f" || chr(10) || {lock} else '{NEWS}' || {lock} end)::text)"
        f" from unnest({_inside(queue)}) as entry"
        f" where left({gone}, 1) = 'x' or entry like 'x%')"
    )


# The living and the dead of a queue, with their counters.
_SESSIONS_OF = (
    "array(select name || ' ' || counter || ' ' || lease || ' ' || alive from coterie.session"
    " where name in (select split_part(entry, ' ', 2) from unnest(queue) as entry))"
)


# Of lock $7 entry $6, if it is alone there, and no one has the row at this moment.
_ALONE_ELSEWHERE = """
with alone as (
    delete from coterie.line where ctid = any(array(
        select ctid from coterie.line where lock = $7::text and queue = array[$6::text]
        for update skip locked
    )) returning 1
)
"""


@functools.cache
def join(*, shared: bool, leaves: bool, elsewhere: bool = False) -> str:
    """Return the statement that enters a queue; it answers with the number, if we are inside, and the queue.

    In session $1 on the run begun at $2; no number is drawn as long as the run is closed ($3). Lock $4 by
    entry $5, which another of ours ($6) leaves in the same step. Without an answer the session is over, or
    the run is another one.

    Where the other one is of another lock ($7), the answer ends with whether it was left. That is tried with the
    row of $4 locked, and no row may be waited for then: two programs that change places would wait for each other
    until the server undoes what one of them has asked for. So a row that is locked is left as it is.

    Args:
        shared: The mode of the entry.
        leaves: There is another one to be left.
        elsewhere: It is of another lock.
    """
    queue, woken, first = "line.queue", "", ""
    if elsewhere:
        first, woken = _ALONE_ELSEWHERE, ", (select count(*) from alone)"
    elif leaves:
        queue = "array_remove(line.queue, $6::text)"
        woken = f", {_let_in('queue', '$4', '$6', '$3')}"
    is_inside = _is_inside("$5", "queue") if shared else "queue[1] = $5"
    return f"""
        {first}
        insert into coterie.line as line
        select $4::text, array[$5::text] from coterie.session
        where name = $1 and alive and {START} = $2
        on conflict (lock) do update set
            queue = case when $5 = any(line.queue) then {queue} else {queue} || $5 end
        returning
            case when $3::bool and {is_inside} then nextval('coterie.number') end,
            case when not $3::bool or queue[1] <> $5 then queue end{woken}
        """


# Of lock $1 entry $2, if it is alone there.
LEAVE_ALONE = """
delete from coterie.line where lock = $1 and queue = array[$2::text] returning lock
"""
# The same whether it is alone or not, on a run that is open or not ($3). A queue that another program changes at this
# moment may look to each part as if it was for the other one: then REMOVE follows.
LEAVE = f"""
with alone as (
    delete from coterie.line where lock = $1 and queue = array[$2::text] returning lock
), one as (
    update coterie.line set queue = array_remove(queue, $2)
    where lock = $1 and $2 = any(queue) and queue <> array[$2::text] returning queue
)
select lock, 0 from alone
union all
select $1, {_let_in("queue", "$1", "$2::text", "$3::bool")} from one
"""
# The snapshot of the statement has the entry, which was there before it: so its newest row is looked at.
REMOVE = f"""
update coterie.line set queue = array_remove(queue, $2) where lock = $1 and $2 = any(queue)
returning {_wake("queue", "$1")}
"""
TIDY = "delete from coterie.line where lock = any($1) and queue = '{}'"

# Of locks $4 the entries $5, with the parameters of a join; all of one moment. A session that stands in a queue and
# is not seen here is over: it was made before its entry, and this statement reads both from one snapshot.
LOOK = f"""
select wanted.lock, wanted.entry,
    case when $3::bool and {_is_inside("wanted.entry", "queue")}
        then nextval('coterie.number') end,
    queue, case when queue[1] <> wanted.entry then {_SESSIONS_OF} end
from coterie.session mine
cross join unnest($4::text[], $5::text[]) as wanted(lock, entry)
left join coterie.line using (lock)
where mine.name = $1 and mine.alive and {START} = $2
"""

# Entries of sessions $2 in locks $1, which are over.
DROP = f"""
update coterie.line set queue = {_without("queue", "$2")}
where lock in (select lock from coterie.line where lock = any($1) order by lock for update)
returning {_wake("queue", "lock")}
"""

MINE = """
select lock, entry from coterie.line, unnest(queue) as entry where split_part(entry, ' ', 2) = $1
"""

LINES = """
select lock, array(
    select entry from unnest(queue) with ordinality as all_of(entry, place)
    join coterie.session on name = split_part(entry, ' ', 2) and alive order by place
) from coterie.line where $1::text[] is null or lock = any($1)
"""

# Sessions

OPEN = "insert into coterie.session (name, counter, lease, alive) values ($1, 0, $2, true)"

# The next sessions in the order of names come along, so that each is watched by others.
RENEW = f"""
update coterie.session mine set counter = counter + 1 where name = $1 and counter = $2 and alive
returning array(
    select name || ' ' || counter || ' ' || lease || ' ' || alive from coterie.session
    where alive and name <> $1 order by name < $1, name limit {NEIGHBOURS}
)
"""
FIND = "select counter from coterie.session where name = $1 and alive"

# Rule of compare-and-set: only with the counter that was seen for a whole lease. Dead is a value.
KILL = (
    "update coterie.session set alive = false where name = $1 and counter = $2 and alive"
    " returning name"
)
# Without the counter, where the program is known to be gone: by the processes that were looked for.
BURY = (
    "update coterie.session set alive = false where name = $1 and life = $2 and alive"
    " returning name"
)
LIVE = "update coterie.session set life = $2 where name = $1 and alive"
LIVES = "select name, life from coterie.session where name = any($1) and life <> '' and alive"
# Participant $2 that is inside lock $1 does not answer an operator. No renewal of its session succeeds any more, for
# none compares with a number below 0. The session is alive until it has been seen with that number for a whole lease.
CONDEMN = f"""
update coterie.session set counter = least(counter, -1 - counter)
where alive and name in (
    select split_part(entry, ' ', 2) from coterie.line, unnest({_inside("queue")}) as entry
    where lock = $1 and split_part(entry, ' ', 3) = $2
)
returning lease
"""
# All entries of a session that is over; rows are locked in one order, or two of these may wait for each other.
SWEEP = f"""
update coterie.line set queue = {_without("queue", "array[$1]")}
where lock in (
    select lock from coterie.line
    where exists (select from unnest(queue) as entry where split_part(entry, ' ', 2) = $1)
    order by lock for update
)
returning lock, {_wake("queue", "lock")}
"""
# A dead session that stands in no queue. An entry that a late join puts there afterwards is of a session that is
# not there, and a look drops it.
FORGET = """
delete from coterie.session where not alive and not exists (
    select from coterie.line, unnest(queue) as entry where split_part(entry, ' ', 2) = name
)
"""
CLOSE = "delete from coterie.session where name = $1"

# In one transaction, so the parts arrive together and in this order.
NOTIFY = "select count(pg_notify($1, part)::text) from unnest($2::text[]) part"

# Values

# Whatever of the locks may be lost in a crash, a value must not. Both settings are made for this statement alone.
_DURABLE = (
    "set_config('synchronous_commit',"
    " coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true) is not null"
)
# A transaction may have the row of a value for long, and renewals must not wait behind that.
_BRIEF = "set_config('lock_timeout', '100ms', true) is not null"

READ_VALUE = "select record from coterie.value where name = $1"

# Read the value of lock $1 in the hold with token $2. A transaction of an earlier hold, whose end no one sees here,
# has the row by now, and is waited for, or finds this token in it.
READ_VALUE_IN_HOLD = f"""
insert into coterie.value as present (name, fence, token, sequence)
select $1, $2::bigint, 0, 0 where {_DURABLE} and {_BRIEF}
on conflict (name) do update set fence = greatest(present.fence, excluded.fence)
returning record
"""

_WRITE = """
on conflict (name) do update set
    fence = excluded.fence, token = excluded.token, sequence = excluded.sequence, record = excluded.record
where present.fence <= excluded.fence
    and (present.token, present.sequence) < (excluded.token, excluded.sequence)
returning 1
"""
# Write the value of lock $2 in the hold with token $4, by entry $3 of session $1. The rows of both are locked: so
# the end of the session, or of the entry, comes before this statement, which does nothing then, or after it.
WRITE_VALUE = f"""
with session as materialized (
    select 1 from coterie.session
    where name = $1 and alive and {_DURABLE} and {_BRIEF} for share
), line as materialized (
    select 1 from coterie.line where lock = $2 and queue[1] = $3 for share
)
insert into coterie.value as present (name, fence, token, sequence, record)
select $2, $4::bigint, $4, $5::bigint, $6::bytea from session, line
{_WRITE}
"""
# The same in a transaction of the user's, which may be open for long: it keeps no row of the locks. Whether it is late
# the row itself says, for each later holder that reads leaves its token there. `$5` is the run of the server.
WRITE_VALUE_IN_TRANSACTION = f"""
with past as (
    select 1 from coterie.past where run = $5
), written as (
    insert into coterie.value as present (name, fence, token, sequence, record)
    select $1, $2::bigint, $2, $3::bigint, $4::bytea from past where {_DURABLE}
    {_WRITE}
)
select exists (select from past), exists (select from written)
"""

TIME = "select extract(epoch from clock_timestamp())::float8"

ALL_VALUES = "select record from coterie.value where record is not null"
