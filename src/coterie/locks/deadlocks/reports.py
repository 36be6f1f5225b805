"""What is said about locks: which owners hold them, and what those wait for themselves.

An owner is a task or a thread, not a process: two tasks of one program can wait for each other, too.
A wait is numbered by its participant and never changes: with another lock asked for, granted or
given up, it is another wait. A hold is known by its token, which no other hold has. So a wait or a
hold that is reported twice has lasted all the time between.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

from coterie.algorithms.deadlock.condition import Condition
from coterie.algorithms.deadlock.victim import seniority
from coterie.locks.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


NAME_LENGTH_MAX = 512
DEPTH_MAX = 16  # of a condition: another program may write any that a decoder takes

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)]  # for decoders
Time: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]  # before the year 10000


class Requester(NamedTuple):
    """One request of a participant, where it matters which requests came before it."""

    participant: Name = ""  # empty: not said
    number: int = 0  # not used again by this participant


class Wanted(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What a request waits for: a lock, alone or shared.

    A request to share a lock is blocked by other claims than a request to have it alone, and by
    other claims than a request to share that came earlier: so it names its requester.
    """

    lock: Name
    shared: bool = False
    requester: Requester = Requester()

    def __str__(self) -> str:
        """Show the lock and the mode, but not the requester."""
        return f"{self.lock} (shared)" if self.shared else self.lock


class OwnerId(NamedTuple):
    """A task or thread of a participant."""

    participant: Name
    number: int


Node: TypeAlias = OwnerId | Wanted


class LockWait(msgspec.Struct, frozen=True, array_like=True):
    """One wait of one owner for locks."""

    number: int  # not used again by this participant
    condition: Condition[Wanted]
    age: int  # when it began, on a clock by which participants agree roughly
    since: Time  # the same in seconds since 1970, for people
    picked: int = 0  # how often its owner has been a victim in vain
    gives_way: bool = True  # False: its participant detects nothing, and cannot be the victim

    @property
    def size(self) -> float:
        """How many parts its condition has; infinitely many where no program nests them like this."""
        size = 0
        groups: tuple[Condition[Wanted], ...] = (self.condition,)
        for _ in range(DEPTH_MAX):
            size += sum(group.size for group in groups)
            groups = tuple(inner for group in groups for inner in group.groups)
            if not groups:
                return size
        return math.inf


class LockOwner(msgspec.Struct, frozen=True, array_like=True):
    """What is said of an owner."""

    id: OwnerId
    process: Name  # for people: host:pid
    task: Name
    wait: LockWait | None  # None: it runs

    def seniority(self) -> tuple[bool, int, tuple[float, OwnerId]]:
        """Order possible victims, the one to pick last."""
        assert self.wait is not None, "a victim waits"
        return seniority(self.wait.picked, self.wait.age, (self.wait.since, self.id))


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """An owner that blocks a request: it holds the lock, or waits for it before one that shares."""

    wanted: Wanted  # by the request that it blocks
    token: int  # 0: it does not hold the lock, but comes first
    owner: LockOwner
    shared: bool = False  # others may hold it, too

    def within(self, members: Container[Node]) -> Hold | None:
        """Return the hold if its owner and what it blocks are both among these."""
        return self if self.wanted in members and self.owner.id in members else None

    def is_still(self, before: Hold) -> bool:
        """Return True if the same owner has held this lock, and been in the same wait, ever since."""
        mine, its = self.owner.wait, before.owner.wait
        return (
            (self.wanted, self.token, self.owner.id)
            == (before.wanted, before.token, before.owner.id)
            and mine is not None
            and its is not None
            and mine.number == its.number
        )


def is_all(holds: Iterable[Hold]) -> bool:
    """Return True if no further owner can block the request: one has the lock alone, or comes first."""
    return any(not hold.shared for hold in holds)


def merged(some: Iterable[Hold], others: Iterable[Hold]) -> list[Hold]:
    """Return what was said in two places, each owner once."""
    return list({hold.owner.id: hold for hold in (*others, *some)}.values())


def choose_victim(owners: Iterable[LockOwner]) -> LockOwner | None:
    """Return the owner that gives way, by `seniority`; None if none of them detects deadlocks.

    Any two that know the same waits choose the same.
    """
    able = [owner for owner in owners if owner.wait is not None and owner.wait.gives_way]
    return max(able, key=LockOwner.seniority, default=None)


def names(owners: Iterable[LockOwner]) -> dict[OwnerId, str]:
    """Name owners as people find them: by the process, and by the task where that is not enough."""
    found: dict[OwnerId, str] = {}
    known = {owner.id: owner for owner in owners}
    processes = [owner.process for owner in known.values()]
    for owner in known.values():
        alone = processes.count(owner.process) == 1
        name = one_line(owner.process if alone else f"{owner.process} {owner.task}")
        found[owner.id] = name if name not in found.values() else f"{name} #{owner.id.number}"
    return found


def clock_time(since: float) -> str:
    """Return a time in a zone that all machines agree on."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
