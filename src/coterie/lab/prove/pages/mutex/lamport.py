"""Mutual exclusion by a queue of which every process keeps a copy (Lamport, 1978).

Links keep the order, so what is under way has places: 0 is the next to arrive. `place` names the
place of the present request of a process, which a clause would else have to search for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Int, Ordered, Page, choose, each, every, later, none, when
from coterie.lab.prove.link import Link, Snapshot, Trial, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.prove.page import Symbol
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("lamport")


class Process(Ordered):
    """Ids decide between requests of one time."""


class Time(Ordered):
    """Of logical clocks."""


asking = page.relation("asking", Process)
time = page.function("time", Process, to=Time)  # of its latest request
clock = page.function("clock", Process, to=Time)
awaiting = page.relation("awaiting", Process, Process)  # q may still send p an older request
queued = page.relation("queued", Process, Process)  # p has a request of q in its queue …
since = page.function("since", Process, Process, to=Time)  # … with this time
length = page.function("length", Process, Process, to=Int)  # of what is under way from p to q
request = page.relation("request", Process, Process, Int)  # at this place of it
answer = page.relation("answer", Process, Process, Int)
released = page.relation("released", Process, Process, Int)
sent = page.function("sent", Process, Process, Int, to=Time)  # the time that the message tells
place = page.function("place", Process, Process, to=Int)

KINDS = (request, answer, released)


def inside(p: Process) -> Formula:
    return asking(p) & every(
        Process, lambda q: ~awaiting(p, q) & (queued(p, q) >> is_older(p, time(p), q, since(p, q)))
    )


def is_older(p: Process, t: Time, q: Process, u: Time) -> Formula:
    return (t < u) | ((t == u) & (p < q))


def under_way(p: Process, q: Process, i: Int) -> Formula:
    return request(p, q, i) | answer(p, q, i) | released(p, q, i)


@page.start
def no_request_was_made(p: Process, q: Process, i: Int) -> Formula:
    idle = ~asking(p) & ~awaiting(p, q) & ~queued(p, q)
    return idle & (length(p, q) == 0) & ~under_way(p, q, i)


def broadcast(sent_kind: Symbol[Formula], p: Process, t: Time) -> None:
    def is_new(q: Process, i: Int) -> Formula:
        return (i == length(p, q)) & (q != p)

    for kind in KINDS:
        if kind is sent_kind:
            kind[p, each, each] = lambda q, i, kind=kind: kind(p, q, i) | is_new(q, i)
        else:
            kind[p, each, each] = lambda q, i, kind=kind: kind(p, q, i) & ~is_new(q, i)
    sent[p, each, each] = lambda q, i: choose(i == length(p, q), t, sent(p, q, i))
    length[p, each] = lambda q: choose(q != p, length(p, q) + 1, length(p, q))


def take_first(p: Process, q: Process) -> None:
    """Take the next message from p to q away: all others move up."""
    for kind in KINDS:
        kind[p, q, each] = lambda i, kind=kind: (i >= 0) & kind(p, q, i + 1)
    sent[p, q, each] = lambda i: sent(p, q, i + 1)
    length[p, q] = length(p, q) - 1
    place[p, q] = place(p, q) - 1


def hear(q: Process, p: Process, t: Time) -> None:
    clock[q] = later(clock(q), t)
    awaiting[q, p] = awaiting(q, p) & ~(asking(q) & (time(q) <= t))


@page.action
def acquire(p: Process, t: Time) -> None:
    when(~asking(p), clock(p) < t)
    asking[p] = True
    time[p] = clock[p] = t
    awaiting[p, each] = lambda q: q != p
    place[p, each] = lambda q: length(p, q)
    broadcast(request, p, t)


@page.action
def receive_request(q: Process, p: Process) -> None:
    """Queue the request, and answer with the clock."""
    when(request(p, q, 0), p != q)
    t = sent(p, q, 0)
    take_first(p, q)
    queued[q, p] = True
    since[q, p] = t
    hear(q, p, t)
    for kind in KINDS:
        kind[q, p, length(q, p)] = kind is answer
    sent[q, p, length(q, p)] = later(clock(q), t)
    length[q, p] = length(q, p) + 1


@page.action
def receive_answer(q: Process, p: Process) -> None:
    when(answer(p, q, 0))
    take_first(p, q)
    hear(q, p, sent(p, q, 0))


@page.action
def receive_release(q: Process, p: Process) -> None:
    when(released(p, q, 0))
    take_first(p, q)
    hear(q, p, sent(p, q, 0))
    queued[q, p] = False


@page.action
def release(p: Process) -> None:
    when(inside(p))
    asking[p] = False
    broadcast(released, p, clock(p))


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.invariant
def messages_have_places(p: Process, q: Process, i: Int) -> Formula:
    there = (i >= 0) & (i < length(p, q)) & (p != q)
    return (length(p, q) >= 0) & (under_way(p, q, i) >> there)


@page.invariant
def each_is_of_one_kind(p: Process, q: Process, i: Int) -> Formula:
    return (
        ~(request(p, q, i) & answer(p, q, i))
        & ~(request(p, q, i) & released(p, q, i))
        & ~(answer(p, q, i) & released(p, q, i))
    )


@page.invariant
def none_tells_a_time_to_come(p: Process, q: Process, i: Int) -> Formula:
    return under_way(p, q, i) >> (sent(p, q, i) <= clock(p))


@page.invariant
def a_request_is_later_than_what_is_before_it(p: Process, q: Process, i: Int, j: Int) -> Formula:
    before = under_way(p, q, i) & request(p, q, j) & (i < j)
    return before >> (sent(p, q, i) < sent(p, q, j))


@page.invariant
def a_request_is_in_the_queue_or_comes(p: Process, q: Process) -> Formula:
    """It has arrived and nothing about it is under way; or it comes, and no release after it."""
    about_it = none(Int, lambda i: request(p, q, i) | released(p, q, i))
    arrived = queued(q, p) & (since(q, p) == time(p)) & about_it
    there = place(p, q)
    last = none(Int, lambda i: (request(p, q, i) | released(p, q, i)) & (there < i))
    comes = request(p, q, there) & (sent(p, q, there) == time(p)) & last
    return (asking(p) & (p != q)) >> (arrived | comes)


@page.invariant
def an_answer_counts(p: Process, q: Process, i: Int) -> Formula:
    answered = asking(p) & (p != q) & ~awaiting(p, q)
    asks_later = request(q, p, i) >> (time(p) < sent(q, p, i))
    return answered >> ((time(p) <= clock(q)) & asks_later)


forgetful = page.flaw("queues-without-a-clock")


@forgetful.instead_of(receive_request)
def receive_request_and_keep_the_clock(q: Process, p: Process) -> None:
    when(request(p, q, 0), p != q)
    t = sent(p, q, 0)
    take_first(p, q)
    queued[q, p] = True
    since[q, p] = t
    for kind in KINDS:
        kind[q, p, length(q, p)] = kind is answer
    sent[q, p, length(q, p)] = later(clock(q), t)
    length[q, p] = length(q, p) + 1


def _messages(now: Snapshot) -> Iterator[tuple[int, int, int, Any]]:
    for (a, b), messages in now.links.items():
        for number, message in enumerate(messages):
            yield a, b, number, message


def _places(now: Snapshot, kind: str) -> set[Any]:
    return once((a, b, i) for a, b, i, m in _messages(now) if type(m).__name__ == kind)


def _time(message: Any) -> int:
    return int(message.stamp.time if type(message).__name__ == "Request" else message.time)


def _state(now: Snapshot) -> State:
    processes = now.processes
    asking_now = {p.me: p.stamp.time for p in processes if p.stamp is not None}
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), asking_now)
    requests = {
        (a, b): number
        for a, b, number, message in _messages(now)
        if type(message).__name__ == "Request" and asking_now.get(a) == message.stamp.time
    }
    return {
        "asking": once(asking_now),
        "time": {(me,): stamped for me, stamped in asking_now.items()},
        "clock": {(p.me,): p.highest for p in processes},
        "awaiting": once((p.me, q) for p in processes if p.stamp is not None for q in p.awaiting),
        "queued": once((p.me, stamp.process) for p in processes for stamp in p.queue),
        "since": {(p.me, stamp.process): stamp.time for p in processes for stamp in p.queue},
        "length": {
            (p.me, q.me): len(now.links.get((p.me, q.me), ())) for p in processes for q in processes
        },
        "place": requests,
        "request": _places(now, "Request"),
        "answer": _places(now, "Acknowledge"),
        "released": _places(now, "Release"),
        "sent": {(a, b, number): _time(message) for a, b, number, message in _messages(now)},
    }


LINK = Link(
    "lamport",
    _state,
    numbers=range(9),
    trials=(Trial(2, 2), Trial(3, 1, runs=20), Trial(4, 2, runs=2)),
)
