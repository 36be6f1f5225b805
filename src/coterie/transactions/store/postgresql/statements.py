"""What is said to PostgreSQL.

A version is the number of the transaction that wrote it. Two that write the same key cannot
overlap, or the second is refused; so the second has got its number after the first has committed, and
the numbers order the versions of a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.system.postgresql import RUN

if TYPE_CHECKING:
    from coterie.transactions.schemes.span import Span

MAKE = (
    'create table if not exists coterie_store (key text collate "C" primary key, value bytea,'
    " version bigint not null)"
)
IS_MADE = "select to_regclass('coterie_store') is not null"

# A scan of the whole of a small table would be cheaper, but is in the way of all that write.
BEGIN = (
    "begin isolation level serializable read write;"
    " set local enable_seqscan = off; set local enable_bitmapscan = off"
)
COMMIT = "commit"
ROLLBACK = "rollback"

READ = "select value, version from coterie_store where key = $1"
READ_FOR_UPDATE = f"{READ} for update"
READ_ALL = "select key, value, version from coterie_store order by key"

# The numbers of transactions have 64 bits here; they do not begin again.
WRITE = """
with put as (
    insert into coterie_store (key, value, version)
    select k, v, txid_current() from unnest($1::text[], $2::bytea[]) as given (k, v)
    on conflict (key) do update set value = excluded.value, version = excluded.version
), gone as (
    delete from coterie_store where key = any($3::text[])
) select txid_current()
"""

# A number of a transaction that left no trace before a crash is given again after it.
CONNECTED = f"select pg_is_in_recovery(), {RUN}"
STATUS = "select txid_status($1)"
# One that waits for a commit which was lost on the way would do so until its connection is given up.
END = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where backend_xid::text::bigint = $1 & 4294967295 and datname = current_database()
"""


def scan_of(span: Span, limit: int | None) -> tuple[str, list[str | int | None]]:
    """Return the statement that reads a span, and its arguments.

    PostgreSQL keeps no text with a NUL in it: a bound with one lies just behind the part before it.
    """
    low, behind_low, _ = span.low.partition("\0")
    lower = ">" if behind_low else ">="
    selected = f"select key, value, version from coterie_store where key {lower} $1"  # noqa: S608
    if span.high is None:
        return f"{selected} order by key limit $2", [low, limit]
    high, behind_high, _ = span.high.partition("\0")
    upper = "<=" if behind_high else "<"
    return f"{selected} and key {upper} $2 order by key limit $3", [low, high, limit]
