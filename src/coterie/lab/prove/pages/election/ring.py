"""Election of the highest process by a list that goes round a ring, with any number of crashes.

A list is a message: its members, where it began, to whom it goes, and whether it has come round. It may
be sent again past a process that is down, so one list may be under way at several places. The detector
is perfect. That an election ends is not proved, and no process returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.algorithms.election.ring import Election, Message, Ring
from coterie.lab.prove import Ordered, Page, Thing, choose, each, every, none, when
from coterie.lab.prove.link import ANYWHERE, Link, Snapshot, Trial
from coterie.process import ProcessId  # noqa: TC001 - of a field, which is read when it is restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula
    from coterie.process import Outbox

PAGE = page = Page("ring", "for every N and any number of crashes")


class Process(Ordered):
    """The first comes after the last."""


class List(Thing):
    """Of those that live."""


after = page.function("after", Process, to=Process, fixed=True)
member = page.relation("member", List, Process, fixed=True)
first = page.function("first", List, to=Process, fixed=True)
to = page.function("to", List, to=Process, fixed=True)
round_ = page.relation("round", List, fixed=True)  # it has come to its first member, or past it

crashed = page.relation("crashed", Process)
follows = page.relation("follows", Process, Process)
sent = page.relation("sent", List)  # ever
closed = page.relation("closed", List)  # one in it has got it again, so its members are a result


@page.axiom
def processes_form_a_ring(p: Process) -> Formula:
    """The next one is the next larger one, or after the largest the smallest."""
    next_larger = (p < after(p)) & none(Process, lambda q: (p < q) & (q < after(p)))
    return next_larger | every(Process, lambda q: (q <= p) & (after(p) <= q))


@page.start
def all_follow_the_highest(p: Process, q: Process, r: Process, k: List) -> Formula:
    return ~crashed(p) & ~sent(k) & ~closed(k) & (follows(p, q) >> (r <= q))


@page.action
def miss(p: Process) -> None:
    """The leader is down."""
    when(~crashed(p))
    follows[p, each] = lambda q: False


@page.action
def begin(p: Process, k: List) -> None:
    when(~crashed(p), first(k) == p, to(k) == after(p), round_(k) == (after(p) == p))
    when(every(Process, lambda q: member(k, q) == (q == p)))
    sent[k] = True


def goes_on(k: List, m: List) -> Formula:
    """To the one that comes next."""
    place = (first(m) == first(k)) & (to(m) == after(to(k)))
    return place & (round_(m) == (round_(k) | (to(m) == first(k))))


@page.action
def join(p: Process, k: List, m: List) -> None:
    when(sent(k), to(k) == p, ~crashed(p), ~member(k, p), goes_on(k, m))
    when(every(Process, lambda q: member(m, q) == (member(k, q) | (q == p))))
    sent[m] = True


@page.action
def skip(k: List, m: List) -> None:
    """The process that has passed it on learns that the next one is down."""
    when(sent(k), crashed(to(k)), goes_on(k, m))
    when(every(Process, lambda q: member(m, q) == member(k, q)))
    sent[m] = True


@page.action
def close(p: Process, k: List) -> None:
    when(sent(k), to(k) == p, ~crashed(p), member(k, p))
    closed[k] = True


@page.action
def follow(p: Process, k: List, h: Process) -> None:
    """The result comes by."""
    when(~crashed(p), closed(k), member(k, h), every(Process, lambda q: member(k, q) >> (q <= h)))
    follows[p, each] = lambda q: q == h


@page.action
def crash(p: Process) -> None:
    when(~crashed(p))
    crashed[p] = True
    follows[p, each] = lambda q: False


def lies_behind(p: Process, k: List) -> Formula:
    """The list has passed it, on the way from its first member to the one that it goes to."""
    upward = (first(k) <= p) & (p < to(k))
    return choose(first(k) < to(k), upward, (first(k) <= p) | (p < to(k)))


@page.safety
def no_process_that_lives_is_higher_than_a_leader(p: Process, q: Process, r: Process) -> Formula:
    return (follows(p, q) & (q < r)) >> crashed(r)


@page.theorem
def one_leads(p: Process, q: Process) -> Formula:
    return (follows(p, p) & follows(q, q) & ~crashed(p) & ~crashed(q)) >> (p == q)


@page.invariant
def a_list_was_sent_before_it_came_back(k: List) -> Formula:
    return closed(k) >> (sent(k) & round_(k))


@page.invariant
def a_list_that_is_back_has_come_round(k: List) -> Formula:
    return (sent(k) & (to(k) == first(k))) >> round_(k)


@page.invariant
def behind_a_list_are_members_and_the_dead(k: List, p: Process) -> Formula:
    passed = round_(k) | lies_behind(p, k)
    return (sent(k) & passed) >> (member(k, p) | crashed(p))


@page.invariant
def members_lie_behind_a_list(k: List, p: Process) -> Formula:
    return (sent(k) & ~round_(k) & member(k, p)) >> lies_behind(p, k)


hasty = page.flaw("skips-one-that-lives")


@hasty.instead_of(skip)
def skip_any(k: List, m: List) -> None:
    when(sent(k), goes_on(k, m), every(Process, lambda q: member(m, q) == member(k, q)))
    sent[m] = True


early = page.flaw("closes-before-it-is-back")


@early.instead_of(close)
def close_at_any_time(p: Process, k: List) -> None:
    when(sent(k), ~crashed(p), member(k, p))
    closed[k] = True


Listed: TypeAlias = tuple[str, int, tuple[int, ...], int, int]  # name, first, members, to, size


class NotingRing(Ring):
    """A process that notes each list which it passes on, also to itself, and each that comes back."""

    noted: list[tuple[ProcessId, Election]] = []
    back: list[Election] = []

    def elect(self, out: Outbox[Message]) -> None:
        """Begin."""
        self._note(out, lambda: Ring.elect(self, out))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Take a list."""
        if isinstance(message, Election) and self.me in message.members:
            self.back = [*self.back, message]
        self._note(out, lambda: Ring.receive(self, sender, message, out))

    def down(self, peer: ProcessId, out: Outbox[Message]) -> None:
        """Pass it on again."""
        self._note(out, lambda: Ring.down(self, peer, out))

    def _note(self, out: Outbox[Message], handler: Callable[[], None]) -> None:
        sent, own = len(out.sends), len(out.local)
        handler()
        passed = [*out.sends[sent:], *((self.me, message) for message in out.local[own:])]
        lists = [(to, message) for to, message in passed if isinstance(message, Election)]
        self.noted = [*self.noted, *(each for each in lists if each not in self.noted)]


def _listed(message: Election, to: ProcessId, size: int) -> tuple[Listed]:
    members = message.members
    return ((str(message.name), members[0], tuple(sorted(members)), to, size),)


def _state(now: Snapshot) -> State:
    processes, size = now.processes, len(now.processes) + len(now.crashed)
    return {
        "crashed": {(process,) for process in now.crashed},
        "follows": {(p.me, p.leader) for p in processes if p.leader is not None},
        "sent": {_listed(message, to, size) for p in processes for to, message in p.noted},
        "closed": {_listed(message, p.me, size) for p in processes for message in p.back},
    }


def _has_come_round(k: Listed) -> bool:
    """Return whether it goes to its first member or past it."""
    _, beginner, members, receiver, size = k
    furthest = max((member - beginner) % size for member in members)
    return (receiver - beginner) % size <= furthest


def _after(process: int, size: int) -> int:
    return process % size + 1


def _source(m: Listed, known: set[tuple[Listed]]) -> tuple[str, tuple[Any, ...]]:
    """Say how a list came about: it was begun, or has grown, or has gone past one that is down."""
    name, beginner, members, receiver, size = m
    for (k,) in known:
        if k[:2] == (name, beginner) and _after(k[3], size) == receiver and k != m:
            if k[3] not in k[2] and members == tuple(sorted((*k[2], k[3]))):
                return "join", (k[3], k, m)
            if k[2] == members:
                return "skip", (k, m)
    return "begin", (beginner, m)


def _ways(before: State, after: State) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Name what one process may have done: lists, then those that are back, then whom it follows."""
    new = sorted(after["sent"] - before["sent"], key=lambda each: (len(each[0][2]), each))
    lists = [_source(m, after["sent"]) for (m,) in new]
    back = [("close", (k[3], k)) for (k,) in sorted(after["closed"] - before["closed"])]
    gone = sorted(before["follows"] - after["follows"])
    come = sorted(after["follows"] - before["follows"])
    crashes = [("crash", key) for key in sorted(after["crashed"] - before["crashed"])]
    misses = [("miss", (p,)) for p, _ in gone if all(p != q for q, _ in come)]
    if crashes or not come:
        yield crashes or [*lists, *back, *misses]
    for (k,) in sorted(after["closed"]) if come else ():
        follows = [("follow", (p, k, h)) for p, h in come]
        yield [*lists, *back, *follows]


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    return ANYWHERE if action == "skip" else int(args[0])


LINK = Link(
    "ring",
    _state,
    fixed=lambda processes: {
        "after": lambda p: _after(p, len(processes)),
        "member": lambda k, p: p in k[2],
        "first": lambda k: k[1],
        "to": lambda k: k[3],
        "round": _has_come_round,
    },
    place=_place,
    lasting=("sent", "closed"),
    ways=_ways,
    build=lambda trial, _: [NotingRing(me, trial.size) for me in range(1, trial.size + 1)],
    variants=("members",),
    trials=(
        Trial(2, 1, crashes=1),
        Trial(3, 0, crashes=2),
        Trial(3, 1, runs=10, crashes=2),
        Trial(5, 1, runs=5, crashes=3),
    ),
)
