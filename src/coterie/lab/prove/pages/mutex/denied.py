"""Ricart and Agrawala with a "not yet": a peer that stays silent has crashed, and is done without.

Denied is not on this page: exclusion does not rest on it. A process that lives answers each request within
the patience of its sender. So a peer that is silent for longer is down, and all that it has sent has come.
In the link one time passes for all.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.catalogue import load
from coterie.lab.prove import Ordered, Page, each, later, none, when
from coterie.lab.prove.link import ANYWHERE, Link, Snapshot, Trial, once
from coterie.lab.prove.timed_walk import TimedWalk, Timing
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("denied", "for every N and any number of crashes")


class Process(Ordered):
    """Ids decide between requests of one time."""


class Time(Ordered):
    """Of logical clocks: nothing is known of it but its order."""


crashed = page.relation("crashed", Process)
gone = page.relation("gone", Process, Process)  # p does without q for good
asking = page.relation("asking", Process)  # from acquire until release
time = page.function("time", Process, to=Time)  # of its latest request
clock = page.function("clock", Process, to=Time)  # highest request time seen or used
awaiting = page.relation("awaiting", Process, Process)  # p has no reply of q yet
deferred = page.relation("deferred", Process, Process)  # p owes q a reply
request = page.relation("request", Process, Process)  # under way from p to q …
stamp = page.function("stamp", Process, Process, to=Time)  # … with this time
reply = page.relation("reply", Process, Process)  # under way from p to q


def older(p: Process, q: Process) -> Formula:
    return (time(p) < time(q)) | ((time(p) == time(q)) & (p < q))


def inside(p: Process) -> Formula:
    return asking(p) & ~crashed(p) & none(Process, lambda q: awaiting(p, q))


@page.start
def no_request_was_made(p: Process, q: Process) -> Formula:
    links = request(p, q) | reply(p, q)
    return ~crashed(p) & ~gone(p, q) & ~asking(p) & ~awaiting(p, q) & ~deferred(p, q) & ~links


@page.action
def acquire(p: Process, t: Time) -> None:
    when(~crashed(p), ~asking(p), clock(p) < t)
    asking[p] = True
    time[p] = clock[p] = t
    request[p, each] = lambda q: (q != p) & ~gone(p, q) & ~crashed(q)
    stamp[p, each] = lambda q: t
    awaiting[p, each] = lambda q: (q != p) & ~gone(p, q)


@page.action
def receive_request(q: Process, p: Process) -> None:
    when(request(p, q))
    comes_first = (time(q) < stamp(p, q)) | ((time(q) == stamp(p, q)) & (q < p))
    defers = asking(q) & comes_first
    request[p, q] = False
    clock[q] = later(clock(q), stamp(p, q))
    deferred[q, p] = deferred(q, p) | defers
    reply[q, p] = reply(q, p) | (~defers & ~crashed(p))


@page.action
def receive_reply(p: Process, q: Process) -> None:
    when(reply(q, p))
    reply[q, p] = False
    awaiting[p, q] = False


@page.action
def release(p: Process) -> None:
    when(inside(p))
    asking[p] = False
    reply[p, each] = lambda q: reply(p, q) | (deferred(p, q) & ~crashed(q))
    deferred[p, each] = lambda q: False


@page.action
def crash(x: Process) -> None:
    """What is on its way to it is lost."""
    when(~crashed(x))
    crashed[x] = True
    request[each, x] = lambda p: False
    reply[each, x] = lambda p: False


@page.action
def lose_request(p: Process, q: Process) -> None:
    when(crashed(p), request(p, q))
    request[p, q] = False


@page.action
def lose_reply(q: Process, p: Process) -> None:
    when(crashed(q), reply(q, p))
    reply[q, p] = False


@page.action
def do_without(p: Process, q: Process) -> None:
    """It was silent, so it had crashed, and what it had sent would have come."""
    when(~crashed(p), awaiting(p, q), crashed(q), ~reply(q, p))
    awaiting[p, q] = False
    gone[p, q] = True


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Process, q: Process) -> Formula:
    """A reply is one that is awaited."""
    return reply(q, p) >> awaiting(p, q)


@page.invariant
def replies_of_others_are_awaited_while_asking(p: Process, q: Process) -> Formula:
    return awaiting(p, q) >> (asking(p) & (p != q))


@page.invariant
def nothing_comes_to_the_dead(p: Process, x: Process) -> Formula:
    return crashed(x) >> (~request(p, x) & ~reply(p, x))


@page.invariant
def those_that_are_gone_are_down(p: Process, q: Process) -> Formula:
    return gone(p, q) >> crashed(q)


@page.invariant
def a_request_under_way_is_awaited(p: Process, q: Process) -> Formula:
    unanswered = awaiting(p, q) & ~reply(q, p) & ~deferred(q, p)
    return request(p, q) >> (unanswered & (stamp(p, q) == time(p)))


@page.invariant
def only_the_older_defers(p: Process, q: Process) -> Formula:
    waits = awaiting(p, q) & (time(p) <= clock(q))
    return (deferred(q, p) & ~crashed(q)) >> (waits & asking(q) & older(q, p))


@page.invariant
def a_permission_counts(p: Process, q: Process) -> Formula:
    """A process that lives and has replied has seen the request, and asks later, if at all."""
    permitted = asking(p) & (p != q) & (reply(q, p) | ~awaiting(p, q))
    return (permitted & ~crashed(q)) >> ((time(p) <= clock(q)) & (asking(q) >> older(p, q)))


hasty = page.flaw("does-without-the-slow")


@hasty.instead_of(do_without)
def do_without_the_slow(p: Process, q: Process) -> None:
    when(~crashed(p), awaiting(p, q), ~reply(q, p), ~request(p, q))
    awaiting[p, q] = False
    gone[p, q] = True


late = page.flaw("does-without-one-whose-reply-comes")


@late.instead_of(do_without)
def do_without_one_whose_reply_comes(p: Process, q: Process) -> None:
    when(~crashed(p), awaiting(p, q), crashed(q))
    awaiting[p, q] = False
    gone[p, q] = True


PATIENCE, GRAIN = Fraction(2), Fraction(1, 8)
PASSES = (GRAIN, 8 * GRAIN)


def _build(trial: Trial, variant: str) -> Sequence[Any]:
    entry = load("ricart-agrawala")
    return entry.build(entry.setup(trial.size, variant, {"patience": str(float(PATIENCE))}))


def _state(now: Snapshot) -> State:
    processes = now.processes
    asking_now = {process.me for process in processes if process.stamp is not None}
    entered = {p.me for p in processes if p.stamp is not None and not p.awaiting}
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), asking_now)
    now.agree("inside", now.users(Phase.INSIDE), entered)
    requests = now.sent("Request")
    return {
        "crashed": once(now.crashed),
        "gone": once((p.me, peer) for p in processes for peer in p.crashed),
        "asking": once(asking_now),
        "time": {(p.me,): p.stamp.time for p in processes if p.stamp is not None},
        "clock": {(p.me,): p.highest for p in processes},
        "awaiting": once((p.me, peer) for p in processes for peer in p.awaiting),
        "deferred": once((p.me, peer) for p in processes for peer in p.deferred),
        "request": once((sent.sender, sent.receiver) for sent in requests),
        "stamp": {(sent.sender, sent.receiver): sent.message.stamp.time for sent in requests},
        "reply": once((sent.sender, sent.receiver) for sent in now.sent("Reply")),
    }


def _ways(before: State, after: State) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Name what may have happened between two states; most steps change little."""

    def come(name: str) -> list[tuple[Any, ...]]:
        return sorted(after[name] - before[name])

    def gone_from(name: str) -> list[tuple[Any, ...]]:
        return sorted(before[name] - after[name])

    yield []
    yield [("crash", key) for key in come("crashed")]
    yield [("acquire", (*key, after["time"][key])) for key in come("asking")]
    yield [("release", key) for key in gone_from("asking")]
    yield [("do_without", key) for key in come("gone")]
    yield [("receive_request", (q, p)) for p, q in gone_from("request")]
    yield [("receive_reply", (p, q)) for q, p in gone_from("reply")]
    yield [("lose_request", key) for key in gone_from("request")]
    yield [("lose_reply", key) for key in gone_from("reply")]


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    return ANYWHERE if action.startswith("lose") else int(args[0])


LINK = Link(
    "ricart-agrawala",
    _state,
    place=_place,
    build=_build,
    ways=_ways,
    walk=partial(TimedWalk, Timing(PASSES, delay_max=lambda _: PATIENCE / 2 - GRAIN, haste=4)),
    variants=("denied",),
    trials=(Trial(3, 3, runs=12, crashes=1), Trial(5, 3, runs=12, crashes=3)),
)
