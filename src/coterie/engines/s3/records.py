"""What stands in the bucket, and under which keys; all of it is JSON.

- `PREFIX/past.json`: the run in which locks are granted or not yet. A bucket that was emptied has none.
- `PREFIX/s/SESSION.json`: a session. Its ETag is the counter that others compare.
- `PREFIX/q/LOCK.json`: a lock with its queue. It stays when the queue is empty, for its number goes on.
- `PREFIX/m/PARTICIPANT.json`: letters to a program.
- `PREFIX/v/LOCK.json`: the value of a lock.

Each record has a word that is in none before it, so that no ETag comes again.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from coterie import system
from coterie.engines.queue.nonsense import sensible
from coterie.engines.queue.server import Author, Ticket
from coterie.locks.value import ValueRecord

VERSION = 1  # of all this
ENDED = -1
NONCE_BYTES = 8
NAME_PART = (
    200  # characters of a key between two slashes, which some servers take for names of files
)
LETTERS_MAX = 64


class BucketObject(msgspec.Struct, frozen=True, kw_only=True):
    """What all of them have."""

    nonce: str = ""


class PastObject(BucketObject, frozen=True):
    """In which run locks are granted."""

    version: int = VERSION
    run: str = ""
    is_open: bool = False
    lease: float = 0.0  # that is waited for while it is closed


class SessionObject(BucketObject, frozen=True):
    """A session, alive or dead; it never comes to life again."""

    participant: str
    counter: int  # of the renewals that its process has sent; below 0: an operator has ended them
    lease: float
    is_alive: bool = True
    life: str = ""  # by which processes its program is known


class QueuedEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry in the queue of a lock."""

    session: str
    attempt: int
    shared: bool
    number: int
    author: Author


class QueueObject(BucketObject, frozen=True):
    """A lock with its queue."""

    number: int  # of the last entry that has joined
    entries: tuple[QueuedEntry, ...] = ()


class MailObject(BucketObject, frozen=True):
    """The last letters to a program, each with a name of its own."""

    letters: tuple[tuple[str, bytes], ...] = ()


class ValueObject(BucketObject, frozen=True):
    """What was written last, and the token of the last hold that has read or written it."""

    fence: int = 0
    record: ValueRecord | None = None


RecordT = TypeVar("RecordT", bound=BucketObject)

DEAD = SessionObject(participant="", counter=0, lease=0.0, is_alive=False)

_encode = msgspec.json.Encoder().encode


def write(record: BucketObject) -> bytes:
    """Write a record as it was never written before."""
    nonce = system.secret(NONCE_BYTES).hex()
    return _encode(msgspec.structs.replace(record, nonce=nonce))


def read(server: object, body: bytes, kind: type[RecordT]) -> RecordT:
    """Read a record; raises `Unavailable` if no program of ours has written it."""
    with sensible(server):
        return msgspec.json.decode(body, type=kind)


# The size of the largest record of a queue without entries: a list shows by it which locks are not used.
EMPTY_BYTES_MAX = len(_encode(QueueObject(nonce="0" * 2 * NONCE_BYTES, number=10**19)))


def fingerprint(etag: str) -> int:
    """Return the number that stands for an ETag where a counter is wanted."""
    return int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8])


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        """Remember the prefix."""
        self.past = f"{prefix}/past.json"
        self.sessions = f"{prefix}/s/"
        self.queues = f"{prefix}/q/"
        self.values = f"{prefix}/v/"
        self._prefix = prefix

    def session(self, name: str) -> str:
        """Return that of a session."""
        return f"{self.sessions}{name}.json"

    def queue(self, lock: str) -> str:
        """Return that of a lock."""
        return f"{self.queues}{_written(lock)}.json"

    def value(self, lock: str) -> str:
        """Return that of the value of a lock."""
        return f"{self.values}{_written(lock)}.json"

    def mail(self, participant: str) -> str:
        """Return that of the letters to a participant."""
        return f"{self._prefix}/m/{participant}.json"

    def rivals(self) -> str:
        """Return one that was never used."""
        return f"{self._prefix}/check/{system.secret(NONCE_BYTES).hex()}.json"

    def session_of(self, key: str) -> str:
        """Return the name of the session that a key is of."""
        return key.removeprefix(self.sessions).removesuffix(".json")

    def lock_of(self, key: str) -> str:
        """Return the name of the lock that a key is of."""
        written = key.removeprefix(self.queues).removesuffix(".json")
        return unquote(written.replace(NAME_GOES_ON, ""))


NAME_GOES_ON = "+/"  # what no name has when it is written


def _written(name: str) -> str:
    """Write any name as part of a key."""
    text = quote(name, safe="")
    parts = [text[at : at + NAME_PART] for at in range(0, len(text), NAME_PART)]
    return NAME_GOES_ON.join(parts)


def is_entry_of(entry: QueuedEntry, session: str, ticket: Ticket) -> bool:
    """Return True if this is the entry of a ticket."""
    return entry.session == session and entry.attempt == ticket.attempt
