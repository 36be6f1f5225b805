"""What a session asks of a server that compares and sets; each is one step there.

The rules that a server of this kind has to keep, beside those of `engines/queue/server.py`:

- A write that was acknowledged stays as long as the run of the server that `ServerPast` names.
- An entry that is shown before another one was there before it: none comes between them later.
- A session is there before its entries, and a look shows sessions as they are at the moment of which it shows the
  entries, or later. So an entry whose session is not shown, or shown dead, is over. Dead is a value: no session
  comes to life again, and its record goes after its entries.
- The number of an entry is drawn as it takes its place. In another run of the server all entries get new ones,
  in their order, above those of the former run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coterie.engines.queue.server import Author, QueueEntry, Ticket


class ServerPast(NamedTuple):
    """Whether locks are granted in this run of the server, or the leases from before are waited for."""

    run: str  # compared for equality, never for order
    is_open: bool
    lease: float  # that is waited for while it is closed


class CountedSession(NamedTuple):
    """A living session, as an answer shows it."""

    name: str
    counter: int
    lease: float


class Renewal(NamedTuple):
    """What the answer to a renewal shows."""

    sent_at: float
    past: ServerPast
    entries: int  # of this session, in all queues
    neighbour: (
        CountedSession | None
    )  # the next living session in the order of names, around the end
    others: Sequence[CountedSession] = ()  # those after it


class EntryBefore(NamedTuple):
    """An entry that stands before ours."""

    shared: bool
    session: str
    counted: CountedSession | None  # None: the session is over


class Sight(NamedTuple):
    """An entry of ours, and what stands before it."""

    number: int
    before: Sequence[EntryBefore]


class Wake(Protocol):
    """Has entries of ours looked at."""

    def __call__(self, lock: str = "") -> None:
        """Look at those of a lock that has news; at all if it is not known which one has."""


class Steps(Protocol):
    """The requests of one session. Each raises `Unavailable` if its outcome is not known, or it was not carried out.

    Each that is made in the name of the session raises `SessionLost` where the server knows it no more.
    """

    known: int
    """The highest number that this process was given."""

    @property
    def carries(self) -> bool:
        """Whether a `join` leaves an entry of another lock in the same request."""

    @property
    def renews_by_reading(self) -> bool:
        """Whether a renewal writes nothing: then it is made twice as often, for what it shows of other sessions."""

    async def open(self) -> tuple[float, ServerPast]:
        """Begin the session with counter 0; return when that was sent."""

    async def find(self) -> int | None:
        """Return the counter of the session; None if it is over."""

    async def renew(self, counter: int) -> Renewal | None:
        """Move the counter on, if it is this one; None if it is not."""

    async def join(
        self, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> tuple[ServerPast, Sight]:
        """Leave another entry, and enter the queue at its end unless the entry is there."""

    async def look(self, tickets: Sequence[Ticket]) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Return those of the entries that are there."""

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, and wake those who are inside then."""

    async def own(self) -> list[Ticket]:
        """Return all entries of the session."""

    async def remove(self, session: str, counter: int) -> bool:
        """Make a session dead if it has that counter still, and remove its entries; wake those behind."""

    async def live(self, life: str) -> bool:
        """Write down by which processes the program of the session is known; False: the next renewal does."""

    async def lives(self, sessions: Sequence[str]) -> Mapping[str, str]:
        """Return by which processes the programs of these sessions are known, of those that say so."""

    async def bury(self, session: str, life: str) -> bool:
        """Make a session dead, whatever its counter is, if it is known by these processes still; else as `remove`."""

    async def sweep(self, session: str) -> None:
        """Remove the entries of a session that is over, and wake those behind."""

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Give the session by which a participant is inside a counter that no renewal compares with; return its lease."""

    async def open_past(self, run: str) -> None:
        """Open a run that is closed."""

    async def close(self, *, is_over: bool) -> None:
        """End the session, unless it is over, and let go of the server, in bounded time."""

    async def listen(self, wake: Wake, mail: Callable[[bytes], None]) -> None:
        """Tell of news, all of which are hints, and of letters, until it is cancelled."""

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Return the queues of these locks, or of all, without entries of sessions that are over."""

    async def send(self, participant: str, letter: bytes) -> None:
        """Send a letter to another process."""
