"""The keys of locks in etcd, and what they say.

- `coterie/s/SESSION`: a session, with its participant and lease. It is written when it begins, and once more if an operator ends it.
  Below it stand the keys that go when it goes: `.c`, a challenge, whose revision others compare; `.h`, the hint that the
  program lives, which goes with a lease of etcd; `.w`, by which processes the program is known; `.a.ATTEMPT`, the mark of an
  attempt that has left, which stops a join that comes late.
- `coterie/q/LOCK:x.SESSION.ATTEMPT`, or `:s.` where it shares: an entry. Its number is the revision in which it was
  created, and the queue of a lock is its keys in the order of their creation.
- `coterie/m/PARTICIPANT/`: letters. `coterie/v/LOCK`: a value.

Programs of an earlier build keep entries in the same queues, with a lease of etcd that ends them: so an entry that goes with a lease
is in the way until etcd has removed it, and no program removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from coterie.engines.etcd import messages as api
from coterie.engines.queue.server import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.engines.etcd.messages import KeyValue

QUEUES = b"coterie/q/"
MAILBOXES = b"coterie/m/"
SESSIONS = b"coterie/s/"
CHALLENGE, HINT, LIFE = b".c", b".h", b".w"


class EtcdSessionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What the key of a session says."""

    participant: str
    lease: float


encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgspec.msgpack.Decoder(EtcdSessionRecord).decode


class SessionState(NamedTuple):
    """A session as an answer shows it; each field is 0, empty or None where its key is not there."""

    record: EtcdSessionRecord
    revision: int  # of the last change of the record
    challenge: int = 0  # the revision in which it was created
    is_present: bool = False  # whether the hint is there
    life: str = ""


class EtcdEntry(NamedTuple):
    """An entry of a queue."""

    key: bytes
    ticket: Ticket
    session: str
    number: int
    counts: bool  # whether its session is counted; False: it goes with a lease of etcd
    author: bytes


def after(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def queue(lock: str) -> bytes:
    """Return how the keys of a lock begin: no other lock's do."""
    return QUEUES + f"{quote(lock)}:".encode()


def way(ticket: Ticket) -> tuple[bytes, bytes]:
    """Return the range of the keys that can be in the way: for a sharer only exclusive ones."""
    start = queue(ticket.lock) + (b"x." if ticket.shared else b"")
    return start, after(start)


def entry(ticket: Ticket, session: str) -> bytes:
    """Return the key of an entry."""
    mode = "s" if ticket.shared else "x"
    return queue(ticket.lock) + f"{mode}.{session}.{ticket.attempt}".encode()


def read_entry(found: KeyValue) -> EtcdEntry:
    """Read the key of an entry; one that makes no sense is in the way of all as long as it is there."""
    lock, _, rest = found.key[len(QUEUES) :].decode(errors="replace").partition(":")
    counts = not found.lease
    try:
        mode, session, attempt = rest.split(".")
        ticket = Ticket(unquote(lock), mode == "s", int(attempt))
    except ValueError:
        ticket, session, counts = Ticket(unquote(lock), False, 0), "?", False
    return EtcdEntry(found.key, ticket, session, found.created, counts, found.value)


def session(name: str) -> bytes:
    """Return the key of a session."""
    return SESSIONS + name.encode()


def of_session(name: str) -> tuple[bytes, bytes]:
    """Return the range of the key of a session and of those below it."""
    return session(name), session(name) + b"/"


def mark(ticket: Ticket, name: str) -> bytes:
    """Return the mark of an attempt that has left."""
    return session(name) + f".a.{ticket.attempt}".encode()


def mailbox(participant: str) -> tuple[bytes, bytes]:
    """Return the range of the letters to a participant."""
    start = MAILBOXES + f"{participant}/".encode()
    return start, after(start)


def read_sessions(found: Iterable[KeyValue]) -> dict[str, SessionState]:
    """Read sessions, in the order of their keys; without those whose own key is not among them."""
    states: dict[str, SessionState] = {}
    for each in found:
        name, dot, kind = each.key[len(SESSIONS) :].decode().partition(".")
        state = states.get(name)
        if not dot:
            states[name] = SessionState(_decode_record(each.value), each.changed)
        elif state is not None:
            states[name] = _with(state, b"." + kind.encode(), each)
    return states


def _with(state: SessionState, kind: bytes, found: KeyValue) -> SessionState:
    if kind == CHALLENGE:
        return state._replace(challenge=found.created)
    if kind == HINT:
        return state._replace(is_present=True)
    if kind == LIFE:
        return state._replace(life=found.value.decode())
    return state


def challenge(names: Iterable[str]) -> bytes:
    """Encode a TxnRequest that puts a challenge before sessions, if all are there, and reads what stands there.

    One that is there stays, with the revision in which it was created.
    """
    each = [session(name) for name in names]
    puts = [api.chunk(2, api.put(key + CHALLENGE, b"", 0)) for key in each]
    gets = [api.chunk(1, api.get(key, key + b"/")) for key in each]
    return api.transaction([api.exists(key) for key in each], puts + gets)
