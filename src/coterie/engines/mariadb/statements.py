"""What is said to MariaDB and MySQL about sessions and queues: each function returns one request.

An entry is a row; its number, which is also its token and its place in the queue, is drawn as it is written. So that
entries of a lock are seen in the order of their numbers, a join holds one of `STRIPES` rows, chosen by the name of the lock,
from before it draws the number until it is committed: none is ever written before one that was seen. That is all
that is locked: a look reads a snapshot, of one moment, and entries before its own can only have gone since.

A session is used over one connection at a time, the last that was attached. What was sent over an earlier one and
arrives late finds no session.

Values are written as numbers, or as hexadecimal digits: there is nothing to be escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.engines.queue.observation import NEIGHBOURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.engines.queue.server import Author, Ticket
    from coterie.locks.value import Version

STRIPES = 1024
PART_BYTES_MAX = 1024  # of a letter: a row of a table in memory has room for the longest
EARS_MAX = 1000  # that are looked for; others look by themselves after a while

GREET = (
    "select connection_id(), @@version, @@global.innodb_flush_log_at_trx_commit, @@global.read_only;"
    " show global variables where variable_name in ('wsrep_on', 'group_replication_single_primary_mode')"
)
MARIADB_SETTINGS = ("max_statement_time = 0", "idle_transaction_timeout = 0")
MYSQL_SETTINGS = ("max_execution_time = 0",)
SETTINGS = (
    # Each statement sees what was committed before it began.
    "transaction_isolation = 'READ-COMMITTED'",
    # A join that waits for another one must not keep a renewal waiting for a lease.
    "innodb_lock_wait_timeout = 1",
    "lock_wait_timeout = 1",
    # What an administrator has set is not meant for locks.
    "wait_timeout = 86400",
    "sql_mode = 'STRICT_ALL_TABLES'",
    "completion_type = 0",
    "sql_safe_updates = 0",
    "sql_select_limit = 18446744073709551615",
)


def settings(*, is_mariadb: bool) -> str:
    """Return the request that sets what each connection needs."""
    isolation, *others = SETTINGS
    if is_mariadb:  # which has had another name for it, until both were known
        isolation = isolation.replace("transaction_isolation", "tx_isolation")
    own = MARIADB_SETTINGS if is_mariadb else MYSQL_SETTINGS
    return f"set {', '.join(f'session {each}' for each in (isolation, *others, *own))}"


def text(value: str | bytes) -> str:
    """Write a value as hexadecimal digits."""
    raw = value.encode() if isinstance(value, str) else value
    return f"x'{raw.hex()}'"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(text, values))


# Sessions

# The connection that the session was attached to last is this one.
_OWN = "alive and connection = connection_id()"


def open_session(session: str, participant: str, lease: float) -> str:
    """Begin a session."""
    return (
        "insert into coterie_session (name, participant, counter, lease, alive, connection, ear, mark)"
        f" values ({text(session)}, {text(participant)}, 0, {lease!r}, 1, connection_id(), 0, x'');"
        f" {past(session)}"
    )


def attach(session: str) -> str:
    """Use a session over this connection from now on; waits for what is under way over the last one."""
    return (
        f"update coterie_session set connection = connection_id() where name = {text(session)} and alive;"
        f" {past(session)}"
    )


def past(session: str) -> str:
    """Return what is known of the run, the counter of the session, and whether it is used over this connection."""
    return (
        "select run, is_open, past.lease, counter, connection = connection_id()"
        " from coterie_past past left join coterie_session"
        f" on name = {text(session)} and alive"
    )


def renew(session: str, counter: int) -> str:
    """Move the counter on, if it is still this one; show the neighbours."""
    mine = text(session)
    return (
        f"update coterie_session set counter = counter + 1 where name = {mine} and counter = {counter}"
        f" and {_OWN};"
        f" {past(session)};"
        f" select count(*) from coterie_entry where session = {mine};"
        f" select name, counter, lease from coterie_session where alive and name <> {mine}"
        f" order by name < {mine}, name limit {NEIGHBOURS}"
    )


def kill(session: str, counter: int) -> str:
    """Make a session dead, if its counter is still the one that was seen for a whole lease."""
    return (
        f"update coterie_session set alive = 0 where name = {text(session)} and counter = {counter}"
        " and alive"
    )


def live(session: str, life: str) -> str:
    """Write down by which processes the program of our session is known."""
    return (
        f"insert into coterie_life (session, life) select name, {text(life)} from coterie_session"
        f" where name = {text(session)} and {_OWN} on duplicate key update life = values(life)"
    )


def lives(sessions: Sequence[str]) -> str:
    """Show by which processes the programs of these sessions are known, of those that say so."""
    return f"select session, life from coterie_life where session in ({_texts(sessions)})"


def bury(session: str, life: str) -> str:
    """Make a session dead, whatever its counter is, if it is known by these processes still."""
    return (
        "update coterie_session own join coterie_life known on known.session = own.name set own.alive = 0"
        f" where own.name = {text(session)} and own.alive and known.life = {text(life)}"
    )


def condemn(lock: str, participant: str) -> str:
    """Show the lease of a participant that is inside and does not answer an operator, and end its renewals.

    None compares with a number below 0. The session is alive until it was seen with that number for a whole lease.
    """
    name = text(lock)
    holder = (
        "alive and name in (select session from coterie_entry entry"
        f" where lock_name = {name} and entry.participant = {text(participant)} and not exists ("
        f"select 1 from coterie_entry other where other.lock_name = {name} and other.id < entry.id"
        " and not (other.shared and entry.shared)))"
    )
    return (
        f"select max(lease) from coterie_session where {holder};"
        f" update coterie_session set counter = least(counter, -1 - counter) where {holder}"
    )


def sweep(session: str) -> str:
    """Remove all entries of a session that is over, the records of such, and letters that no one will read."""
    over = f"entry.session = {text(session)} and (name is null or not alive)"
    joined = "coterie_entry entry left join coterie_session on name = entry.session"
    return (
        f"select lock_name from {joined} where {over};"
        f" delete entry from {joined} where {over};"
        " delete own from coterie_session own left join coterie_entry entry on entry.session = own.name"
        " where not own.alive and entry.id is null;"
        " delete known from coterie_life known left join coterie_session own on own.name = known.session"
        " where own.name is null;"
        " delete mail from coterie_mail mail left join coterie_session reader"
        " on reader.participant = mail.participant and reader.alive where reader.name is null"
    )


def close(session: str) -> str:
    """End a session of ours: from then on its entries are of no session."""
    own = f"from coterie_entry where session = {text(session)}"
    return (
        f"delete from coterie_session where name = {text(session)};"
        f" select lock_name {own}; delete {own};"
        f" delete from coterie_life where session = {text(session)}"
    )


# Queues


def join(session: str, ticket: Ticket, author: Author, leaving: Ticket | None) -> str:
    """Enter a queue, unless the entry is there, and look; leave another one, of whatever lock, in the same transaction.

    So the disk is waited for once. The transaction waits for a stripe alone while it has the row of an entry of ours,
    which is waited for only by those who take that for dead: so no two of these wait for each other.
    """
    enter = (
        "insert into coterie_entry (lock_name, session, attempt, shared, participant, process, since)"
        f" select {text(ticket.lock)}, name, {ticket.attempt}, {int(ticket.shared)},"
        f" {text(author.participant)}, {text(author.process)}, {author.since!r}"
        " from coterie_stripe straight_join coterie_session"
        f" where id = crc32({text(ticket.lock)}) % {STRIPES} and name = {text(session)} and {_OWN} for update"
        " on duplicate key update attempt = coterie_entry.attempt"
    )
    if leaving is None:
        return f"{enter}; {look(session, [ticket])}"
    return (
        f"begin; {_delete(session, leaving.attempt)}; {enter}; commit;"
        f" {look(session, [ticket])}; {ears([leaving.lock])}"
    )


def look(session: str, tickets: Sequence[Ticket]) -> str:
    """Show what `past` shows, and what is before our entries, all of one moment."""
    asked = ", ".join(str(ticket.attempt) for ticket in tickets)
    return (
        "select run, is_open, past.lease, own.counter, own.connection = connection_id(), mine.attempt, mine.id,"
        " other.shared, other.session, owner.counter, owner.lease"
        " from coterie_past past"
        f" left join coterie_session own on own.name = {text(session)} and own.alive"
        f" left join coterie_entry mine on mine.session = own.name and mine.attempt in ({asked or 'null'})"
        " left join coterie_entry other on other.lock_name = mine.lock_name and other.id < mine.id"
        " left join coterie_session owner on owner.name = other.session and owner.alive"
        " order by mine.id, other.id"
    )


def leave(session: str, ticket: Ticket) -> str:
    """Remove an entry, and show who has to be woken."""
    return f"{_delete(session, ticket.attempt)}; {ears([ticket.lock])}"


def _delete(session: str, attempt: int) -> str:
    return f"delete from coterie_entry where session = {text(session)} and attempt = {attempt}"


def ears(locks: Sequence[str]) -> str:
    """Show the first entries of queues, each with the connection on which its session waits for news."""
    return (
        "select lock_name, shared, owner.name, owner.ear from coterie_entry entry"
        " join coterie_session owner on owner.name = entry.session"
        " join coterie_mark on coterie_mark.mark = owner.mark"
        f" where lock_name in ({_texts(locks)}) and owner.alive order by lock_name, id limit {EARS_MAX}"
    )


def own(session: str) -> str:
    """Show all entries of ours."""
    return f"select lock_name, shared, attempt from coterie_entry where session = {text(session)}"


def lines(locks: Sequence[str] | None) -> str:
    """Show the entries of living sessions."""
    where = f" where lock_name in ({_texts(locks)})" if locks is not None else ""
    return (
        "select lock_name, shared, entry.participant, process, since from coterie_entry entry"
        f" join coterie_session on name = session and alive{where} order by lock_name, id"
    )


# Values


def read_value(lock: str) -> str:
    """Show the record of a value, then write to its row: what was committed before is on the disk by then."""
    where = f"where name = {text(lock)}"
    return (
        f"select record from coterie_value {where};"
        f" update coterie_value set looks = looks + 1 {where}"
    )


def write_value(session: str, ticket: Ticket, version: Version, record: bytes | None) -> str:
    """Write a value by an entry of a session that is not over, over a lower version; show the version that is there.

    The session and the entry are locked until that is committed. Assignments are made from left to right: so the
    token, by which the others decide, is the last.
    """
    body = "null" if record is None else text(record)
    name, token, sequence = text(ticket.lock), version.token, version.sequence
    is_newer = f"(token < {token} or (token = {token} and coterie_value.sequence < {sequence}))"
    return (
        "insert into coterie_value (name, token, sequence, looks, record)"
        f" select entry.lock_name, {token}, {sequence}, 0, {body}"
        " from coterie_session own straight_join coterie_entry entry on entry.session = own.name"
        f" where own.name = {text(session)} and {_OWN} and entry.attempt = {ticket.attempt}"
        f" and not entry.shared and entry.lock_name = {name} for update"
        " on duplicate key update"
        f" record = if({is_newer}, values(record), coterie_value.record),"
        f" sequence = if({is_newer}, values(sequence), coterie_value.sequence),"
        f" token = greatest(coterie_value.token, values(token));"
        f" select token, sequence from coterie_value where name = {name}"
    )


TIME = "select unix_timestamp(now(6))"

ALL_VALUES = "select record from coterie_value where record is not null"

# News


def ring(ear: int) -> str:
    """End the sleep of a connection, which may be over: a hint."""
    return f"kill query {ear}"


def post(participant: str, letter: str, body: bytes) -> str:
    """Leave a letter for a process that is there; show where it waits."""
    size = PART_BYTES_MAX
    parts = " union all ".join(
        f"select {at} as place, {text(body[at : at + size])} as part"
        for at in range(0, max(1, len(body)), size)
    )
    reader = f"from coterie_session where participant = {text(participant)} and alive"
    return (
        "insert into coterie_mail (participant, letter, part)"
        f" select {text(participant)}, {text(letter)}, part from ({parts}) parts"
        f" where exists (select 1 {reader}) order by place;"
        f" select distinct ear {reader} and ear and mark = (select mark from coterie_mark)"
    )


def begin_to_listen(session: str) -> str:
    """Write down that this connection is the one to be rung."""
    return (
        "update coterie_session set ear = connection_id(), mark = (select mark from coterie_mark)"
        f" where name = {text(session)}"
    )


def hold_bell(bell: str) -> str:
    """Hold a lock of the server, for which the connection that listens waits."""
    return f"do get_lock({text(bell)}, 0)"


def listen(participant: str, bell: str, seconds: float, read: Sequence[int]) -> str:
    """Wait until a ring, or not at all if there is a letter; then show whether we hold the bell, and the letters.

    Those that were read go. The table is not used in the statement that waits, which would lock it. It waits for a
    lock and does not sleep: all sleepers of a server share a mutex, and several `kill query` at a time keep them all
    asleep for seconds.
    """
    mine = f"from coterie_mail where participant = {text(participant)}"
    gone = f"delete from coterie_mail where id in ({', '.join(map(str, read))}); " if read else ""
    return (
        f"{gone}set @letters = (select count(*) {mine});"
        f" do get_lock({text(bell)}, if(@letters, 0, {seconds!r})); select release_lock({text(bell)});"
        f" select id, letter, part {mine} order by id"
    )
