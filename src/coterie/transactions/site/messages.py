"""What sites say to each other. Each message carries the clock of its sender (Lamport, 1978).

    coordinator        site of the key
    Ask           ->                       a read, a scan or a write
                  <-   Reply               its answer, once there is one; or a refusal, at any time
    Prepare       ->                       no request follows
                  <-   Vote                on disk; nothing but a decision ends it here
    Decide        ->                       commit, by its number, or abort
                  <-   Acknowledge         of commits: on disk, so the coordinator may forget them

Requests of a transaction to one site are counted, so that each is carried out once and a site that
has forgotten some of them does not vote. A write of a key that was read for update there has no `Ask`
of its own: it travels with the next request to the site, or with the prepare, and is counted as well.
Under two-phase locking it does not travel with a prepare that releases locks elsewhere.
A life of a site is the time from one start of it to the next: each answer and each vote names the life
that gives it, and each request after the first answer the life that is meant. So no transaction rests on
what a site has forgotten, however late an answer from before its restart arrives.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.clocks import LogicalTime, Stamp
from coterie.process import Payload
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Attempt,
    Found,
    Listed,
    Name,
    Number,
    Refused,
    Value,
)
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Container

    from coterie.process import ProcessId


class Read(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Read a key."""

    key: str
    update: bool = False  # on the way to writing it


class Scan(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Read the keys of a span that are there, or the first few of them."""

    span: Span
    limit: int | None = None


class More(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Send the next part of what the last scan has found."""


class Write(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Set a key, if the transaction commits; None deletes it."""

    key: str
    value: Value


class Validate(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Make sure that all that was read here could still be read again."""


Request: TypeAlias = Read | Scan | More | Write | Validate


class Ask(Payload, frozen=True):
    """Carry out a request."""

    time: LogicalTime
    name: Name
    count: int  # of the requests of this transaction to this site, from 1
    request: Request | None  # None: this transaction begins, its requests will follow
    opening: Attempt | None = None  # with the first one
    life: int | None = None  # of the site, if it has answered this transaction before
    writes: tuple[Write, ...] = ()  # held back until now: they come before the request


class Reply(Payload, frozen=True):
    """The answer to a request, or a refusal, which needs none."""

    time: LogicalTime
    name: Name
    count: int
    answer: Found | Listed | Accepted | Refused
    more: bool = False  # of a scan: this is a part, and the next one has to be asked for
    life: int = 0  # of the site


class Prepare(Payload, frozen=True):
    """Be ready to commit what `count` requests have asked for. A site that is alone decides itself."""

    time: LogicalTime
    name: Name
    count: int
    sites: tuple[int, ...]  # that take part
    settled: LogicalTime  # what this coordinator began before is over at all sites
    life: int | None = None  # of the site; None: it had nothing to answer
    writes: tuple[Write, ...] = ()  # held back until now: the last of those requests


class Vote(Payload, frozen=True):
    """Ready to commit. A site that leaves was only read at, and needs no decision."""

    time: LogicalTime
    name: Name
    number: Number  # proposed; the largest is taken
    leaves: bool = False
    life: int = 0  # of the site, in which it has carried out all that it votes for


class Decide(Payload, frozen=True):
    """Commit by this number; without one, abort."""

    time: LogicalTime
    name: Name
    number: Number | None = None


class Acknowledge(Payload, frozen=True):
    """These commits are on disk here."""

    time: LogicalTime
    name: Name
    others: tuple[Name, ...] = ()


class Inquire(Payload, frozen=True):
    """What has become of this transaction?"""

    time: LogicalTime
    name: Name


class Pending(Payload, frozen=True):
    """It is under way still, as far as I know."""

    time: LogicalTime
    name: Name
    others: tuple[Name, ...] = ()  # that have to end before its request is answered here
    count: int = 0  # of that request; 0: no request of it waits here, and it may be decided about


class Want(Payload, frozen=True):
    """A transaction waits for your promise to begin nothing at or below this stamp."""

    time: LogicalTime
    stamp: Stamp


class Promise(Payload, frozen=True):
    """Whatever I begin at your site from now on has a larger stamp: a null request."""

    time: LogicalTime
    stamp: Stamp


class Waiter(msgspec.Struct, frozen=True, array_like=True):
    """A request that waits at a site. It waits once, so its count tells this wait from all others."""

    site: int
    attempt: Attempt
    count: int
    targets: tuple[Name, ...]  # which have to end before

    def within(self, members: Container[Name]) -> Waiter | None:
        """Return the wait for members; None if it is not a wait of a member for a member."""
        kept = tuple(name for name in self.targets if name in members)
        if self.attempt.name not in members or not kept:
            return None
        return Waiter(self.site, self.attempt, self.count, kept)

    def is_still(self, before: Waiter) -> bool:
        """Return whether this is the same wait, at the same site, for all that it waited for before."""
        same = (self.site, self.attempt.name, self.count) == (
            before.site,
            before.attempt.name,
            before.count,
        )
        return same and set(before.targets) <= set(self.targets)


class Collect(Payload, frozen=True):
    """Which requests wait at your site, and for which transactions?"""

    time: LogicalTime
    search: int


class Collected(Payload, frozen=True):
    """The requests that wait here."""

    time: LogicalTime
    search: int
    waiters: tuple[Waiter, ...]


class Sacrifice(Payload, frozen=True):
    """Refuse this request if it waits still: it is the victim of a deadlock."""

    time: LogicalTime
    name: Name
    count: int
    others: tuple[Name, ...]


Aside: TypeAlias = Want | Promise | Collect | Collected | Sacrifice  # beside the protocol
Message: TypeAlias = Ask | Reply | Prepare | Vote | Decide | Acknowledge | Inquire | Pending | Aside


# What the name of a transaction says: it is the stamp with which the transaction began.


@functools.lru_cache(maxsize=1024)  # each message of a transaction names it
def coordinator_of(name: Name) -> ProcessId:
    """Return the site where a transaction began, which coordinates it."""
    return int(name.rpartition(".")[2])


@functools.lru_cache(maxsize=1024)
def time_of(name: Name) -> LogicalTime:
    """Return the time at which a transaction began."""
    return int(name.partition(".")[0])
