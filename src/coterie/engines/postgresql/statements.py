"""What is said to PostgreSQL.

A lock is the advisory lock of a session, with a key of 64 bits that is made from its name.
"""

from __future__ import annotations

import functools
import hashlib

from coterie.system.postgresql import RUN

NUMBER = "nextval('coterie.number')"

# A statement that PostgreSQL carries out without looking at anything; its answer renews the lease.
BEAT = "select pg_backend_pid()"

DESCRIBE = "select current_setting('server_version'), pg_is_in_recovery()"

SETTINGS = {
    "idle_session_timeout": "",  # the lease: filled in for each session
    "application_name": "",  # the directory of processes: as above
    # What an administrator has set for the role or the database is not meant for locks.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    # A backend that waits for a lock looks at its connection only that often, in milliseconds.
    "client_connection_check_interval": "1000",
}
SET = "select " + ", ".join(
    f"set_config('{name}', ${number}, false)" for number, name in enumerate(SETTINGS, 1)
)

BEGIN = f"select pg_backend_pid(), pg_is_in_recovery(), current_setting('application_name'), {RUN}"

LINES = """
select l.classid::bigint << 32 | l.objid::bigint, l.mode = 'ShareLock', l.granted, l.pid,
       a.application_name, extract(epoch from coalesce(l.waitstart, clock_timestamp()))::float8
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.objsubid = 1 and starts_with(a.application_name, 'coterie ')
  and l.database = (select oid from pg_database where datname = current_database())
  and ($1::bigint[] is null or l.classid::bigint << 32 | l.objid::bigint = any($1))
order by l.granted desc, l.waitstart nulls last
"""

# In one transaction, so the parts arrive together and in this order.
NOTIFY = "select count(pg_notify($1, part)::text) from unnest($2::text[]) part"


@functools.lru_cache(maxsize=4096)
def key_of(lock: str) -> int:
    """Return the key of a lock; two of a million names have the same with a chance of 3 in 10**8."""
    digest = hashlib.blake2b(lock.encode(), digest_size=8, person=b"coterie").digest()
    return int.from_bytes(digest, signed=True)


def unlock(*, shared: bool) -> str:
    """Return the statement that gives a lock back."""
    return f"select pg_advisory_unlock{_suffix(shared)}($1)"


@functools.cache
def take(*, shared: bool, leaving: bool | None, waits: bool) -> str:
    """Return the statement that takes a lock and returns the next number.

    The conditions of a `case` are tried in their order. PostgreSQL lets a request that does not wait not
    overtake those that do. A number is drawn while the lock is held, so numbers grow in the order of the
    holds.

    Args:
        shared: Whether others may share it.
        leaving: Gives the lock of the second parameter back before, in the mode that is said here.
        waits: Wait until the lock is free; the number is negative then.
    """
    suffix = _suffix(shared)
    parts = [f"when pg_try_advisory_lock{suffix}($1) then {NUMBER}"]
    if leaving is not None:
        parts.insert(0, f"when pg_advisory_unlock{_suffix(leaving)}($2) is null then null")
    if waits:
        parts.append(f"when pg_advisory_lock{suffix}($1)::text is not null then -{NUMBER}")
    return f"select case {' '.join(parts)} end"


def _suffix(shared: bool) -> str:
    return "_shared" if shared else ""
