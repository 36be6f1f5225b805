"""Mutual exclusion by quorums that meet (Maekawa, 1985; Sanders, 1987), in the eager variant.

Over any coterie: majorities, weighted votes, grids and planes are instances. A request is a stamp of
its own, and a process stands twice on this page: as one that asks and as one that is asked. So no
function leads from a sort back to itself, and the solver decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, Thing, each, every, least, none, some, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.lab.prove.waits import Help, Waits
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.prove.plain import Fixed, State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("maekawa", "for every N and every coterie")


class Process(Ordered):
    """One that asks."""


class Arbiter(Thing):
    """The same processes, as those that are asked."""


class Time(Ordered):
    """Of logical clocks."""


class Stamp(Thing):
    """Of a request: its time and its process."""


of = page.function("of", Stamp, to=Process, fixed=True)
time = page.function("time", Stamp, to=Time, fixed=True)
member = page.relation("member", Process, Arbiter, fixed=True)  # a is in p's quorum

clock = page.function("clock", Process, to=Time)
current = page.relation("current", Stamp)  # a request that its process has not left yet
locked = page.relation("locked", Stamp, Arbiter)  # its process has a's lock for it
inquiry = page.relation("inquiry", Stamp, Arbiter)  # its process knows that a wants the lock back
owner = page.relation("owner", Arbiter, Stamp)  # a is locked for s
queue = page.relation("queue", Arbiter, Stamp)  # s waits at a
inquired = page.relation("inquired", Arbiter)  # a has asked its owner
request = page.relation("request", Stamp, Arbiter)  # messages under way, from here on
lock = page.relation("lock", Arbiter, Stamp)
inquire = page.relation("inquire", Arbiter, Stamp)
relinquish = page.relation("relinquish", Stamp, Arbiter)
released = page.relation("released", Stamp, Arbiter)


def older(s: Stamp, t: Stamp) -> Formula:
    return (time(s) < time(t)) | ((time(s) == time(t)) & (of(s) < of(t)))


def inside(s: Stamp) -> Formula:
    return current(s) & every(Arbiter, lambda a: member(of(s), a) >> locked(s, a))


@page.axiom
def two_quorums_meet(p: Process, q: Process) -> Formula:
    return some(Arbiter, lambda a: member(p, a) & member(q, a))


@page.start
def no_request_was_made(s: Stamp, a: Arbiter) -> Formula:
    at_processes = current(s) | locked(s, a) | inquiry(s, a)
    at_arbiters = owner(a, s) | queue(a, s) | inquired(a)
    under_way = request(s, a) | lock(a, s) | inquire(a, s) | relinquish(s, a) | released(s, a)
    return ~at_processes & ~at_arbiters & ~under_way


@page.action
def advance(p: Process, t: Time) -> None:
    """A clock may advance at any time, by what messages say."""
    when(clock(p) < t)
    clock[p] = t


@page.action
def acquire(s: Stamp) -> None:
    when(none(Stamp, lambda t: current(t) & (of(t) == of(s))), clock(of(s)) < time(s))
    current[s] = True
    clock[of(s)] = time(s)
    request[s, each] = lambda a: member(of(s), a)


@page.action
def receive_request(s: Stamp, a: Arbiter) -> None:
    when(request(s, a))
    request[s, a] = False
    queue[a, s] = True


@page.action
def give(a: Arbiter, s: Stamp) -> None:
    """A free arbiter is locked for the oldest that waits."""
    when(queue(a, s), none(Stamp, lambda t: owner(a, t)))
    when(every(Stamp, lambda t: queue(a, t) >> ~older(t, s)))
    queue[a, s] = False
    owner[a, s] = True
    lock[a, s] = True
    inquired[a] = False


@page.action
def ask_back(a: Arbiter, s: Stamp) -> None:
    when(owner(a, s), ~inquired(a), some(Stamp, lambda t: queue(a, t) & older(t, s)))
    inquired[a] = True
    inquire[a, s] = True


@page.action
def receive_lock(a: Arbiter, s: Stamp) -> None:
    when(lock(a, s))
    lock[a, s] = False
    locked[s, a] = True


@page.action
def receive_inquire(a: Arbiter, s: Stamp) -> None:
    when(inquire(a, s))
    inquire[a, s] = False
    inquiry[s, a] = inquiry(s, a) | (current(s) & ~inside(s))


@page.action
def give_back(s: Stamp, a: Arbiter) -> None:
    when(locked(s, a), inquiry(s, a), ~inside(s))
    inquiry[s, a] = False
    locked[s, a] = False
    relinquish[s, a] = True


@page.action
def receive_relinquish(s: Stamp, a: Arbiter) -> None:
    when(relinquish(s, a))
    relinquish[s, a] = False
    owner[a, s] = False
    queue[a, s] = True
    inquired[a] = False


@page.action
def release(s: Stamp) -> None:
    when(inside(s))
    current[s] = False
    locked[s, each] = lambda a: False
    inquiry[s, each] = lambda a: False
    released[s, each] = lambda a: member(of(s), a)


@page.action
def receive_release(s: Stamp, a: Arbiter) -> None:
    when(released(s, a))
    released[s, a] = False
    owner[a, s] = False
    inquired[a] = False


@page.safety
def mutual_exclusion(s: Stamp, t: Stamp) -> Formula:
    return (inside(s) & inside(t)) >> (s == t)


@page.safety
def no_handler_raises(s: Stamp, a: Arbiter) -> Formula:
    """A lock comes once and for the present request; the owner gives back, and no other."""
    comes_once = lock(a, s) >> (current(s) & ~locked(s, a))
    comes_back = (relinquish(s, a) | released(s, a)) >> owner(a, s)
    return comes_once & comes_back


@page.invariant
def one_owner(a: Arbiter, s: Stamp, t: Stamp) -> Formula:
    return (owner(a, s) & owner(a, t)) >> (s == t)


@page.invariant
def one_request_each(s: Stamp, t: Stamp) -> Formula:
    return (current(s) & current(t) & (of(s) == of(t))) >> (s == t)


@page.invariant
def a_lock_has_one_place(s: Stamp, a: Arbiter) -> Formula:
    owned = owner(a, s) & member(of(s), a) & ~relinquish(s, a)
    return (
        (locked(s, a) >> (current(s) & owned & ~lock(a, s)))
        & (lock(a, s) >> owned)
        & (relinquish(s, a) >> (current(s) & member(of(s), a)))
        & (released(s, a) >> ~current(s))
    )


@page.invariant
def one_that_waits_has_no_lock(s: Stamp, a: Arbiter) -> Formula:
    waits = current(s) & member(of(s), a) & ~owner(a, s)
    return (request(s, a) >> (waits & ~queue(a, s))) & (queue(a, s) >> waits)


@page.invariant
def no_request_is_ahead_of_its_clock(s: Stamp, a: Arbiter) -> Formula:
    return (current(s) | owner(a, s) | inquire(a, s)) >> (time(s) <= clock(of(s)))


@page.invariant
def a_request_is_not_lost(s: Stamp, a: Arbiter) -> Formula:
    waits = request(s, a) | queue(a, s) | relinquish(s, a)
    return (current(s) & member(of(s), a)) >> (waits | lock(a, s) | locked(s, a))


@page.invariant
def a_lock_is_not_lost(s: Stamp, a: Arbiter) -> Formula:
    return owner(a, s) >> (lock(a, s) | locked(s, a) | relinquish(s, a) | released(s, a))


@page.invariant
def an_inquiry_is_not_lost(s: Stamp, a: Arbiter) -> Formula:
    asked = owner(a, s) & inquired(a) & (lock(a, s) | locked(s, a))
    return asked >> (inquire(a, s) | inquiry(s, a) | inside(s))


@page.invariant
def an_owner_is_asked_once(s: Stamp, a: Arbiter) -> Formula:
    """The question is under way, or noted, or answered: every wait ends by this."""
    asked = owner(a, s) & inquired(a) & ~relinquish(s, a)
    return (
        ((inquire(a, s) & current(s)) >> (asked & ~inquiry(s, a)))
        & (inquiry(s, a) >> (asked & current(s)))
        & (relinquish(s, a) >> inquired(a))
    )


page.no_deadlock(
    Stamp,
    current,
    calls=["advance", "acquire"],
    given=least(Stamp, current, older),
    assumption="one request is the oldest",
)

# Every wait ends. Times are natural numbers, so finitely many requests are older than a given one.


def waiting(s: Stamp) -> Formula:
    return current(s) & ~inside(s)


def oldest(s: Stamp, o: Stamp) -> Formula:
    """No request is older than o; it is s, or older."""
    return current(o) & none(Stamp, lambda t: current(t) & older(t, o)) & ((o == s) | older(o, s))


def held(t: Stamp, a: Arbiter) -> Formula:
    """The process of t has the lock of a, or will."""
    return lock(a, t) | locked(t, a)


def blocks(s: Stamp, o: Stamp, a: Arbiter, t: Stamp) -> Formula:
    """The oldest waits at a, which is locked for t."""
    return oldest(s, o) & queue(a, o) & owner(a, t)


def blocked(how: Callable[[Stamp, Arbiter], Formula]) -> Callable[..., Formula]:
    """Make the set of arbiters where the oldest is blocked by one of this kind."""

    def found(s: Stamp, o: Stamp, a: Arbiter) -> Formula:
        return oldest(s, o) & queue(a, o) & some(Stamp, lambda t: owner(a, t) & how(t, a))

    return found


def may_still_ask_before(s: Stamp, t: Stamp) -> Formula:
    return older(t, s) & (clock(of(t)) < time(t))


def comes_before(s: Stamp, t: Stamp) -> Formula:
    return current(t) & ((t == s) | older(t, s))


PAIR = (Stamp, Arbiter)  # the oldest, and one of its arbiters
TRIPLE = (Stamp, Arbiter, Stamp)  # and the one that this is locked for

SHRINKING = Waits(
    Stamp,
    waiting,
    levels=[
        [((Stamp,), may_still_ask_before)],
        [((Stamp,), comes_before)],
        [
            (PAIR, lambda s, o, a: oldest(s, o) & inquire(a, o)),
            (PAIR, lambda s, o, a: oldest(s, o) & (inquire(a, o) | inquiry(o, a))),
        ],
        [(PAIR, lambda s, o, a: oldest(s, o) & (request(o, a) | relinquish(o, a)))],
        [
            (PAIR, lambda s, o, a: oldest(s, o) & queue(a, o)),
            (PAIR, lambda s, o, a: oldest(s, o) & (queue(a, o) | lock(a, o))),
            (PAIR, blocked(lambda t, a: owner(a, t))),
            (PAIR, blocked(held)),
            (PAIR, blocked(lambda t, a: lock(a, t))),
            (PAIR, blocked(lambda t, a: held(t, a) & ~inside(t))),
            (PAIR, blocked(lambda t, a: held(t, a) & ~inquired(a))),
            (PAIR, blocked(lambda t, a: held(t, a) & (~inquired(a) | inquire(a, t)))),
        ],
    ],
    helps=[
        Help(
            "receive_request",
            PAIR,
            lambda s, o, a: oldest(s, o) & request(o, a),
            lambda s, o, a: (o, a),
        ),
        Help(
            "receive_relinquish",
            PAIR,
            lambda s, o, a: oldest(s, o) & relinquish(o, a),
            lambda s, o, a: (o, a),
        ),
        Help(
            "give",
            PAIR,
            lambda s, o, a: oldest(s, o) & queue(a, o) & none(Stamp, lambda t: owner(a, t)),
            lambda s, o, a: (a, o),
        ),
        Help(
            "receive_lock",
            PAIR,
            lambda s, o, a: oldest(s, o) & lock(a, o),
            lambda s, o, a: (a, o),
        ),
        Help(
            "receive_lock",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & lock(a, t),
            lambda s, o, a, t: (a, t),
        ),
        Help(
            "ask_back",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & held(t, a) & ~inquired(a),
            lambda s, o, a, t: (a, t),
        ),
        Help(
            "receive_inquire",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & held(t, a) & inquire(a, t),
            lambda s, o, a, t: (a, t),
        ),
        Help(
            "give_back",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & locked(t, a) & inquiry(t, a) & ~inside(t),
            lambda s, o, a, t: (t, a),
        ),
        Help(
            "release",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & inside(t) & ~older(t, s),
            lambda s, o, a, t: (t,),
        ),
        Help(
            "release",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & inside(t) & older(t, s),
            lambda s, o, a, t: (t,),
        ),
        Help(
            "receive_relinquish",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & relinquish(t, a),
            lambda s, o, a, t: (t, a),
        ),
        Help(
            "receive_release",
            TRIPLE,
            lambda s, o, a, t: blocks(s, o, a, t) & released(t, a),
            lambda s, o, a, t: (t, a),
        ),
        Help("release", (Stamp,), lambda s, o: oldest(s, o) & inside(o), lambda s, o: (o,)),
    ],
    given=least(Stamp, current, older),
)
page.every_wait_ends(SHRINKING)

basic = page.flaw("basic", without=["ask_back"])  # the catalogue has it

forgetful = page.flaw("forgets-an-early-inquiry")


@forgetful.instead_of(receive_inquire)
def receive_inquire_with_its_lock(a: Arbiter, s: Stamp) -> None:
    when(inquire(a, s))
    inquire[a, s] = False
    inquiry[s, a] = inquiry(s, a) | (current(s) & ~inside(s) & locked(s, a))


careless = page.flaw("gives-back-inside")


@careless.instead_of(give_back)
def give_back_inside(s: Stamp, a: Arbiter) -> None:
    when(locked(s, a), inquiry(s, a))
    inquiry[s, a] = False
    locked[s, a] = False
    relinquish[s, a] = True


greedy = page.flaw("keeps-the-lock-that-it-gives-back")


@greedy.instead_of(give_back)
def give_back_and_keep(s: Stamp, a: Arbiter) -> None:
    when(locked(s, a), inquiry(s, a), ~inside(s))
    inquiry[s, a] = False
    relinquish[s, a] = True


def _state(now: Snapshot) -> State:
    processes = now.processes
    asking = [process for process in processes if process.stamp is not None]
    entered = [process for process in asking if process.locked >= set(process.quorum)]
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), (p.me for p in asking))
    now.agree("inside", now.users(Phase.INSIDE), (p.me for p in entered))
    return {
        "clock": {(p.me,): p.highest for p in processes},
        "current": once((p.stamp,) for p in asking),
        "locked": once((p.stamp, arbiter) for p in processes for arbiter in p.locked),
        "inquiry": once((p.stamp, arbiter) for p in processes for arbiter in p.inquiries),
        "owner": once((p.me, p.owner) for p in processes if p.owner is not None),
        "queue": once((p.me, stamp) for p in processes for stamp in p.queue),
        "inquired": once((p.me,) for p in processes if p.inquired),
        "request": _to_arbiters(now, "Request"),
        "lock": _from_arbiters(now, "Locked"),
        "inquire": _from_arbiters(now, "Inquire"),
        "relinquish": _to_arbiters(now, "Relinquish"),
        "released": _to_arbiters(now, "Release"),
    }


def _to_arbiters(now: Snapshot, kind: str) -> set[Any]:
    return once((sent.message.stamp, sent.receiver) for sent in now.sent(kind))


def _from_arbiters(now: Snapshot, kind: str) -> set[Any]:
    return once((sent.sender, sent.message.stamp) for sent in now.sent(kind))


def _fixed(processes: Sequence[Any]) -> Fixed:
    quorums = {process.me: frozenset(process.quorum) for process in processes}
    return {
        "of": lambda stamp: stamp.process,
        "time": lambda stamp: stamp.time,
        "member": lambda process, arbiter: arbiter in quorums[process],
    }


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    match action:
        case "acquire" | "release" | "give_back":
            return int(args[0].process)
        case "receive_lock" | "receive_inquire":
            return int(args[1].process)
        case "receive_request" | "receive_relinquish" | "receive_release":
            return int(args[1])
        case _:
            return int(args[0])


LINK = Link(
    "maekawa",
    _state,
    sorts=("Process", "Arbiter"),
    fixed=_fixed,
    place=_place,
    longest=7,
    variants=("eager",),
)
