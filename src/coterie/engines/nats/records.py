"""What stands in the stream of locks, and under which subjects.

- `NAME.lock.past`: the run of the servers, in which locks are granted or not yet.
- `NAME.lock.s.SESSION`: a session. The number of its message in the stream is the counter that others compare.
- `NAME.lock.q.LOCK.SESSION.MODE.ATTEMPT`: an entry in the queue of a lock, of mode `x` or `s`. Its message says whose it
  is; one that says nothing marks an attempt that has left, which no message that comes late can undo.
- `NAME.lock.v.LOCK`: the value of a lock. `NAME.lock.mark`: nothing; its number says how far the stream has come.

Two more subjects are not kept: `NAME.news.LOCK`, where the number of an entry that has left is said, and
`NAME.mail.PARTICIPANT`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from coterie.engines.queue.nonsense import NONSENSE
from coterie.engines.queue.server import Ticket

VERSION = 1  # of all this


class PastRecord(msgspec.Struct, frozen=True):
    """In which run of the servers locks are granted."""

    version: int = VERSION
    run: str = ""
    is_open: bool = False
    lease: float = 0.0  # that is waited for while it is closed
    longest: float = 0.0  # that was granted in this run
    base: int = (
        0  # what is added to the number of a message, so that numbers go on if the stream does not
    )


class SessionRecord(msgspec.Struct, frozen=True):
    """A session, alive or dead; it never comes to life again."""

    participant: str
    counter: int  # of the renewals that its process has sent; below 0: an operator has ended them
    lease: float
    is_alive: bool = True
    life: str = ""  # by which processes its program is known


DEAD = SessionRecord("", 0, 0.0, is_alive=False)
ENDED = -1
MODES = ("x", "s")
ENTRY_PARTS = 7  # of the subject of an entry


_decode_session = msgspec.json.Decoder(SessionRecord).decode


def read_session(body: bytes) -> SessionRecord | None:
    """Read the record of a session, dead or alive; None if no program of ours has written it."""
    try:
        return _decode_session(body)
    except NONSENSE:
        return None


class EntryName(NamedTuple):
    """What the subject of an entry says."""

    ticket: Ticket
    session: str


class Subjects:
    """The subjects of the locks that have one stream."""

    def __init__(self, stream: str) -> None:
        """Remember the name of the stream, which all subjects begin with."""
        self.all = f"{stream}.lock.>"
        self.past = f"{stream}.lock.past"
        self.sessions = f"{stream}.lock.s.>"
        self.entries = f"{stream}.lock.q.>"
        self.values = f"{stream}.lock.v.>"
        self.mark = f"{stream}.lock.mark"
        self._stream = stream
        self._news = f"{stream}.news."

    def session(self, name: str) -> str:
        """Return that of a session."""
        return f"{self._stream}.lock.s.{name}"

    def queue(self, lock: str) -> str:
        """Return that of all entries of a lock."""
        return f"{self._stream}.lock.q.{_token(lock)}.>"

    def entry(self, ticket: Ticket, session: str) -> str:
        """Return that of an entry."""
        mode = "s" if ticket.shared else "x"
        return f"{self._stream}.lock.q.{_token(ticket.lock)}.{session}.{mode}.{ticket.attempt}"

    def entries_of(self, session: str) -> str:
        """Return that of all entries of a session."""
        return f"{self._stream}.lock.q.*.{session}.>"

    def value(self, lock: str) -> str:
        """Return that of the value of a lock."""
        return f"{self._stream}.lock.v.{_token(lock)}"

    def news(self, lock: str) -> str:
        """Return where it is said that an entry of a lock has left."""
        return self._news + _token(lock)

    def mail(self, participant: str) -> str:
        """Return where the letters to a participant go."""
        return f"{self._stream}.mail.{_token(participant)}"

    def lock_of_news(self, subject: str) -> str:
        """Return which lock a subject brings news of; empty if it brings none."""
        if not subject.startswith(self._news):
            return ""
        return unquote(subject.removeprefix(self._news))

    @staticmethod
    def read_entry(subject: str) -> EntryName:
        """Read the subject of an entry; raises `ValueError` if it is none."""
        *_, lock, session, mode, attempt = parts = subject.split(".")
        if len(parts) != ENTRY_PARTS or mode not in MODES:
            raise ValueError(f"no entry: {subject!r}")
        return EntryName(Ticket(unquote(lock), mode == "s", int(attempt)), session)

    @staticmethod
    def read_session(subject: str) -> str:
        """Return the name of the session that a subject is of."""
        return subject.rpartition(".")[2]


def _token(name: str) -> str:
    """Write any name as one part of a subject."""
    return quote(name, safe="").replace(".", "%2E")
