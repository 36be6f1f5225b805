"""What the engine needs of a server: a session with a lease, queues of entries, and mail.

A process keeps one session with the server. Its entries stand in the queues of locks as long as the
session lives; the server removes them when it has not been renewed for a lease, or other processes
do so that have seen it silent for that long (`observation`), or the end of its program (`witness`). An
entry is inside when no entry before it is in its way: a sharer looks only at exclusive entries before it,
an exclusive one at all. So the order of the queue is the order of service, and writers are not starved.

Each module of this kind keeps these rules, each of which a lock on some server has once been broken without:

- `join` and `leave` are not cancelled by the engine as long as the session is open: the server may
  carry out a `join` after a `leave` that overtook it, and an entry that no process knows of would be
  renewed for good. The name of an entry is chosen before anything is sent and used for one attempt
  only, so a retry finds its own entry.
- Whatever wakes a waiter is a hint: it looks at the server before `wait` returns.
- A number, once returned by `join` or `wait`, is above every number returned for this lock before,
  also over restarts and failovers of the server as far as the module promises to survive them.
- A session that was lost stays lost: its methods raise `SessionLost` from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.locks.status import ServiceFinding
    from coterie.locks.value import ValueRecord


class SessionLost(Exception):  # noqa: N818 - says what is the matter
    """The session is over, with all of its entries."""


class Ticket(NamedTuple):
    """One attempt to get a lock: names an entry in its queue."""

    lock: str
    shared: bool
    attempt: int  # not used again by this participant


class Author(msgspec.Struct, frozen=True, array_like=True):
    """What an entry says about the process that made it."""

    participant: str  # where its mail goes
    process: str  # for people: host:pid
    since: float  # when it asked, in seconds since 1970


class QueueEntry(NamedTuple):
    """An entry in the queue of a lock, as the server knows it."""

    author: Author
    shared: bool
    inside: bool
    number: int  # 0 where the server does not say


class ServerNode(msgspec.Struct, frozen=True):
    """One server that the URL names, or why it is of no use now."""

    address: str
    version: str = ""
    role: str = ""  # of several that agree or follow, such as leader
    trouble: str = ""


@runtime_checkable
class ExaminedServer(Protocol):
    """A kind of server of which there is more to know than that it answers."""

    async def examine(self) -> list[ServiceFinding]:
        """Look at what its locks rest on; an error is a finding, too."""


class SessionListener(Protocol):
    """What a session tells its user; each is called in the event loop that opened it."""

    def renewed(self, sent_at: float) -> None:
        """Count the lease from then on, by `system.now()`: the renewal sent then was confirmed."""

    def lost(self, reason: str) -> None:
        """Take note that the session is over."""

    def closed(self, reason: str, until: float) -> None:
        """Take note that no lock is granted before that time, by `system.now()`; empty: they are again."""

    def mail(self, letter: bytes) -> None:
        """Take a letter of another process."""


class QueueSession(Protocol):
    """One session with the server, from its beginning to its loss or end."""

    @property
    def lease(self) -> float:
        """After how many seconds without a renewal our entries may be removed."""

    @property
    def carries(self) -> bool:
        """Whether a `join` leaves an entry of another lock in the same request."""

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Enter the queue, leaving another entry in the same step; return the number if we are inside at once.

        That one is of the same lock, unless the session `carries`. It is named in the first try of an attempt alone.
        Where the join raises, it may be there, and is left again.
        """

    async def wait(self, ticket: Ticket) -> int:
        """Wait until an entry that has joined is inside, and return its number; may be cancelled."""

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, whether it is inside, waits or is not there any more."""

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Return the queues of these locks, or of all; of each lock from one moment."""

    async def send(self, participant: str, letter: bytes) -> None:
        """Send a letter to another process; it arrives once or not at all."""

    async def close(self) -> None:
        """End the session and remove all of its entries; it ends in bounded time."""


@runtime_checkable
class CondemningSession(Protocol):
    """A session that can end another one whose leases are counted by those who wait."""

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Let no renewal of the session succeed by which a participant is inside; None if it is not.

        Return its lease. Its entries stay, for it does not know that yet: others have to see it silent for that
        long, from now on, before they remove it. None of them is let in earlier than without this call.
        """


class ValueStore(Protocol):
    """Where a session keeps the values of locks, by the rules of `coterie.locks.value`.

    Each call raises `SessionLost` if the server knows the session no more, and `Unavailable` if its outcome is not
    known: a write may take effect later then, as long as its entry is there.
    """

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Return the newest record that any write has left, once no crash takes it back.

        With the token of a holder, no write of an earlier hold takes effect afterwards.
        """

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write a record, and return True when it is durable; False if it is late.

        In the one step that writes, the server compares: the entry is there, in a session that is not over, so it is
        still inside; and the version is above the stored one. A server that compares one record at a time looks whether
        no later hold has read or written. `is_alone` says that no earlier write of this hold may
        still be under way: then a record without data need not be kept.
        """

    async def all(self) -> list[ValueRecord]:
        """Return all records."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store that can write a value within a transaction of the user's."""

    async def write_in(self, connection: object, record: ValueRecord) -> bool:
        """Write a record in the transaction that is open on a connection, which commits it; False if it is late.

        That transaction may end after the hold. So a read with the token of a later holder waits for it, and lets
        none of an earlier hold write afterwards.
        """


@runtime_checkable
class ClockedStore(Protocol):
    """A store whose server tells the time of day."""

    async def time(self) -> float:
        """Return it, in seconds since 1970."""


@runtime_checkable
class ValueSession(Protocol):
    """A session that can keep values."""

    @property
    def values(self) -> ValueStore | None:
        """Where they are kept; None if this server keeps none."""


class Server(Protocol):
    """A kind of server at some address."""

    lease: float
    """How many seconds a session lasts without a renewal, if nothing else is asked for."""

    lease_min: float
    """The shortest that can be asked for."""

    def __str__(self) -> str:
        """Name the server and its address for people, without passwords."""

    async def open(self, participant: str, told: SessionListener, lease: float) -> QueueSession:
        """Begin a session under that name; raises `Unavailable` or `ConfigError`.

        `told.renewed` has been called once when it returns.
        """

    async def nodes(self) -> list[ServerNode]:
        """Ask each server that the URL names for its version, without a session.

        One that does not answer says so in `trouble`; raises `ConfigError` where we are refused.
        """


@runtime_checkable
class PolledServer(Protocol):
    """A server that tells nothing by itself: each look at it is a request, and letters lie there until they are looked for."""

    poll_seconds: float
    """How long a program that waits pauses between two looks, at most."""


def inside(modes: Sequence[bool]) -> int:
    """Return how many entries of a queue are inside, given for each whether it shares."""
    if not modes:
        return 0
    if not modes[0]:
        return 1
    return next((position for position, shared in enumerate(modes) if not shared), len(modes))
