"""Mutual exclusion by asking everyone (Ricart and Agrawala, 1981)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, each, later, least, none, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.lab.prove.waits import Help, Waits
from coterie.process import Phase

if TYPE_CHECKING:
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("ricart-agrawala")


class Process(Ordered):
    """Ids decide between requests of one time."""


class Time(Ordered):
    """Of logical clocks: nothing is known of it but its order."""


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
    return asking(p) & none(Process, lambda q: awaiting(p, q))


@page.start
def no_request_was_made(p: Process, q: Process) -> Formula:
    return ~asking(p) & ~awaiting(p, q) & ~deferred(p, q) & ~request(p, q) & ~reply(p, q)


@page.action
def acquire(p: Process, t: Time) -> None:
    when(~asking(p), clock(p) < t)
    asking[p] = True
    time[p] = clock[p] = t
    request[p, each] = lambda q: q != p
    stamp[p, each] = lambda q: t
    awaiting[p, each] = lambda q: q != p


@page.action
def receive_request(q: Process, p: Process) -> None:
    when(request(p, q))
    comes_first = (time(q) < stamp(p, q)) | ((time(q) == stamp(p, q)) & (q < p))
    defers = asking(q) & comes_first
    request[p, q] = False
    clock[q] = later(clock(q), stamp(p, q))
    deferred[q, p] = deferred(q, p) | defers
    reply[q, p] = reply(q, p) | ~defers


@page.action
def receive_reply(p: Process, q: Process) -> None:
    when(reply(q, p))
    reply[q, p] = False
    awaiting[p, q] = False


@page.action
def release(p: Process) -> None:
    when(inside(p))
    asking[p] = False
    reply[p, each] = lambda q: reply(p, q) | deferred(p, q)
    deferred[p, each] = lambda q: False


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.invariant
def replies_of_others_are_awaited_while_asking(p: Process, q: Process) -> Formula:
    return awaiting(p, q) >> (asking(p) & (p != q))


@page.invariant
def a_request_under_way_is_awaited(p: Process, q: Process) -> Formula:
    unanswered = awaiting(p, q) & ~reply(q, p) & ~deferred(q, p)
    return request(p, q) >> (unanswered & (stamp(p, q) == time(p)))


@page.invariant
def a_reply_under_way_is_awaited(p: Process, q: Process) -> Formula:
    return reply(q, p) >> (awaiting(p, q) & ~deferred(q, p))


@page.invariant
def only_the_older_defers(p: Process, q: Process) -> Formula:
    waits = awaiting(p, q) & (time(p) <= clock(q))
    return deferred(q, p) >> (waits & asking(q) & older(q, p))


@page.invariant
def a_permission_counts(p: Process, q: Process) -> Formula:
    """A process that has replied has seen the request, and asks later, if at all."""
    permitted = asking(p) & (p != q) & (reply(q, p) | ~awaiting(p, q))
    return permitted >> ((time(p) <= clock(q)) & (asking(q) >> older(p, q)))


@page.invariant
def an_awaited_reply_is_under_way(p: Process, q: Process) -> Formula:
    return awaiting(p, q) >> (request(p, q) | reply(q, p) | deferred(q, p))


page.no_deadlock(
    Process,
    asking,
    calls=["acquire"],
    given=least(Process, asking, older),
    assumption="one request is the oldest",
)


def waiting(p: Process) -> Formula:
    return asking(p) & ~inside(p)


def all_have_heard(p: Process) -> Formula:
    """Then no process asks before p any more."""
    return none(Process, lambda q: request(p, q))


def first(p: Process, o: Process) -> Formula:
    """Before p enters, o has to; or it is p."""
    return all_have_heard(p) & asking(o) & ((o == p) | older(o, p))


SHRINKING = Waits(
    Process,
    waiting,
    levels=[
        [((Process,), request)],
        [
            ((Process,), first),
            ((Process, Process), lambda p, o, q: first(p, o) & request(o, q)),
            ((Process, Process), lambda p, o, q: first(p, o) & (request(o, q) | deferred(q, o))),
            ((Process, Process), lambda p, o, q: first(p, o) & awaiting(o, q)),
        ],
    ],
    helps=[
        Help("receive_request", (Process,), request, lambda p, q: (q, p)),
        Help(
            "receive_request",
            (Process, Process),
            lambda p, o, q: first(p, o) & request(o, q),
            lambda p, o, q: (q, o),
        ),
        Help(
            "receive_reply",
            (Process, Process),
            lambda p, o, q: first(p, o) & reply(q, o),
            lambda p, o, q: (o, q),
        ),
        Help("release", (Process,), lambda p, o: first(p, o) & inside(o), lambda p, o: (o,)),
    ],
    given=least(Process, asking, older),
)
page.every_wait_ends(SHRINKING)

forgetful = page.flaw("forgets-the-time-of-a-request")


@forgetful.instead_of(receive_request)
def receive_request_and_forget_its_time(q: Process, p: Process) -> None:
    when(request(p, q))
    comes_first = (time(q) < stamp(p, q)) | ((time(q) == stamp(p, q)) & (q < p))
    defers = asking(q) & comes_first
    request[p, q] = False
    deferred[q, p] = deferred(q, p) | defers
    reply[q, p] = reply(q, p) | ~defers


def _state(now: Snapshot) -> State:
    processes = now.processes
    asking_now = {process.me for process in processes if process.stamp is not None}
    entered = {p.me for p in processes if p.stamp is not None and not p.awaiting}
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), asking_now)
    now.agree("inside", now.users(Phase.INSIDE), entered)
    requests = now.sent("Request")
    return {
        "asking": once(asking_now),
        "time": {(p.me,): p.stamp.time for p in processes if p.stamp is not None},
        "clock": {(p.me,): p.highest for p in processes},
        "awaiting": once((p.me, peer) for p in processes for peer in p.awaiting),
        "deferred": once((p.me, peer) for p in processes for peer in p.deferred),
        "request": once((sent.sender, sent.receiver) for sent in requests),
        "stamp": {(sent.sender, sent.receiver): sent.message.stamp.time for sent in requests},
        "reply": once((sent.sender, sent.receiver) for sent in now.sent("Reply")),
    }


LINK = Link("ricart-agrawala", _state)
