"""Ricart and Agrawala's algorithm with permissions that last (Roucairol and Carvalho, 1983)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, choose, each, every, later, least, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.process import Phase

if TYPE_CHECKING:
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("roucairol-carvalho")


class Process(Ordered):
    """Ids decide between requests of one time."""


class Time(Ordered):
    """Of logical clocks."""


asking = page.relation("asking", Process)  # from acquire until release
time = page.function("time", Process, to=Time)  # of its latest request
clock = page.function("clock", Process, to=Time)  # highest request time seen or used
permitted = page.relation("permitted", Process, Process)  # p has the permission of q
deferred = page.relation("deferred", Process, Process)  # p owes q a reply
request = page.relation("request", Process, Process)  # under way from p to q …
stamp = page.function("stamp", Process, Process, to=Time)  # … with this time
reply = page.relation("reply", Process, Process)  # under way from p to q


def older(p: Process, q: Process) -> Formula:
    return (time(p) < time(q)) | ((time(p) == time(q)) & (p < q))


def inside(p: Process) -> Formula:
    return asking(p) & every(Process, lambda q: (q == p) | permitted(p, q))


@page.start
def nothing_was_asked_or_permitted(p: Process, q: Process) -> Formula:
    return ~asking(p) & ~permitted(p, q) & ~deferred(p, q) & ~request(p, q) & ~reply(p, q)


@page.action
def acquire(p: Process, t: Time) -> None:
    """Those that have permitted an earlier entry, and asked for none since, are not asked."""
    when(~asking(p), clock(p) < t)
    asking[p] = True
    time[p] = clock[p] = t
    request[p, each] = lambda q: (q != p) & ~permitted(p, q)
    stamp[p, each] = lambda q: t


def goes_before(q: Process, p: Process) -> Formula:
    """A process with all permissions is inside, and need not be older."""
    comes_first = (time(q) < stamp(p, q)) | ((time(q) == stamp(p, q)) & (q < p))
    return asking(q) & (comes_first | inside(q))


@page.action
def receive_request(q: Process, p: Process) -> None:
    when(request(p, q))
    asks_again = ~goes_before(q, p) & permitted(q, p) & asking(q)
    request[p, q] = False
    clock[q] = later(clock(q), stamp(p, q))
    deferred[q, p] = deferred(q, p) | goes_before(q, p)
    reply[q, p] = reply(q, p) | ~goes_before(q, p)
    permitted[q, p] = permitted(q, p) & goes_before(q, p)
    request[q, p] = request(q, p) | asks_again
    stamp[q, p] = choose(asks_again, time(q), stamp(q, p))


@page.action
def receive_reply(p: Process, q: Process) -> None:
    when(reply(q, p))
    reply[q, p] = False
    permitted[p, q] = True


@page.action
def release(p: Process) -> None:
    """A reply that is owed ends the permission of who gets it."""
    when(inside(p))
    asking[p] = False
    reply[p, each] = lambda q: reply(p, q) | deferred(p, q)
    permitted[p, each] = lambda q: permitted(p, q) & ~deferred(p, q)
    deferred[p, each] = lambda q: False


@page.theorem
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Process, q: Process) -> Formula:
    """A reply comes to who has asked for it, once."""
    return reply(q, p) >> (asking(p) & ~permitted(p, q) & (p != q))


@page.invariant
def a_permission_has_one_place(p: Process, q: Process) -> Formula:
    held = permitted(p, q) | reply(q, p)
    return held >> (~permitted(q, p) & ~reply(p, q))


@page.invariant
def a_request_lacks_its_permission(p: Process, q: Process) -> Formula:
    unanswered = ~permitted(p, q) & ~reply(q, p) & ~deferred(q, p)
    return request(p, q) >> (asking(p) & unanswered & (stamp(p, q) == time(p)) & (p != q))


@page.invariant
def one_that_defers_goes_before(p: Process, q: Process) -> Formula:
    waits = asking(p) & ~permitted(p, q) & ~reply(q, p) & (time(p) <= clock(q)) & (p != q)
    return deferred(q, p) >> (waits & asking(q) & (older(q, p) | inside(q)))


@page.invariant
def one_that_replied_asks_later(p: Process, q: Process) -> Formula:
    return reply(q, p) >> ((time(p) <= clock(q)) & (asking(q) >> older(p, q)))


@page.invariant
def a_permission_is_on_its_way(p: Process, q: Process) -> Formula:
    lacks = asking(p) & (p != q) & ~permitted(p, q)
    return lacks >> (request(p, q) | reply(q, p) | deferred(q, p))


page.no_deadlock(
    Process,
    asking,
    calls=["acquire"],
    given=least(Process, asking, older),
    assumption="one request is the oldest",
)

hasty = page.flaw("replies-inside")


@hasty.instead_of(receive_request)
def receive_request_by_age_alone(q: Process, p: Process) -> None:
    """One that is inside by permissions of earlier entries lets an older request pass."""
    when(request(p, q))
    comes_first = (time(q) < stamp(p, q)) | ((time(q) == stamp(p, q)) & (q < p))
    first = asking(q) & comes_first
    request[p, q] = False
    clock[q] = later(clock(q), stamp(p, q))
    deferred[q, p] = deferred(q, p) | first
    reply[q, p] = reply(q, p) | ~first


def _state(now: Snapshot) -> State:
    processes = now.processes
    asking_now = {process.me for process in processes if process.stamp is not None}
    entered = {p.me for p in processes if p.stamp is not None and not p.awaits()}
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), asking_now)
    now.agree("inside", now.users(Phase.INSIDE), entered)
    requests = now.sent("Request")
    return {
        "asking": once(asking_now),
        "time": {(p.me,): p.stamp.time for p in processes if p.stamp is not None},
        "clock": {(p.me,): p.highest for p in processes},
        "permitted": once((p.me, peer) for p in processes for peer in p.permissions),
        "deferred": once((p.me, peer) for p in processes for peer in p.deferred),
        "request": once((sent.sender, sent.receiver) for sent in requests),
        "stamp": {(sent.sender, sent.receiver): sent.message.stamp.time for sent in requests},
        "reply": once((sent.sender, sent.receiver) for sent in now.sent("Reply")),
    }


LINK = Link("ricart-agrawala", _state, variants=("keeping",))
