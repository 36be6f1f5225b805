"""Mutual exclusion by a token that is asked for by broadcast (Suzuki and Kasami, 1985).

The queue on the token is a set here: which of its processes comes next is left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Int, Ordered, Page, choose, each, later, some, when
from coterie.lab.prove.link import Link, Snapshot, UnmappedError, once
from coterie.process import Phase

if TYPE_CHECKING:
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("suzuki-kasami")


class Process(Ordered):
    """One that may want the token."""


asking = page.relation("asking", Process)  # from acquire until release
has = page.relation("has", Process)  # the token
token = page.relation("token", Process)  # under way to p
served = page.function("served", Process, to=Int)  # on the token, wherever it is
queued = page.relation("queued", Process)  # on the token
requested = page.function("requested", Process, Process, to=Int)  # q knows of so many of p
request = page.relation("request", Process, Process, Int)  # the n-th of p, under way to q


def inside(p: Process) -> Formula:
    return asking(p) & has(p)


def asks(q: Process, p: Process) -> Formula:
    """As far as q knows."""
    return requested(q, p) == served(p) + 1


@page.start
def no_request_was_made(p: Process, q: Process, n: Int) -> Formula:
    idle = ~asking(p) & ~token(p) & ~queued(p) & ~request(p, q, n)
    return idle & (requested(q, p) == 0) & (served(p) == 0)


@page.start
def one_token(p: Process, q: Process) -> Formula:
    return some(Process, has) & ((has(p) & has(q)) >> (p == q))


@page.action
def acquire_with_token(p: Process) -> None:
    when(~asking(p), has(p))
    asking[p] = True
    requested[p, p] = requested(p, p) + 1


@page.action
def acquire(p: Process) -> None:
    when(~asking(p), ~has(p))
    asking[p] = True
    requested[p, p] = requested(p, p) + 1
    request[p, each, requested(p, p) + 1] = lambda q: q != p


@page.action
def receive_request(q: Process, p: Process, n: Int) -> None:
    when(request(p, q, n))
    request[p, q, n] = False
    requested[q, p] = later(requested(q, p), n)


@page.action
def pass_token(q: Process, p: Process) -> None:
    """The token goes to one that asks, and takes the others along in its queue."""
    when(has(q), ~asking(q), p != q, queued(p) | asks(q, p))
    has[q] = False
    token[p] = True
    queued[each] = lambda r: (queued(r) | asks(q, r)) & (r != p) & (r != q)


@page.action
def receive_token(p: Process) -> None:
    when(token(p))
    token[p] = False
    has[p] = True


@page.action
def release(p: Process) -> None:
    when(inside(p))
    asking[p] = False
    served[p] = requested(p, p)


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def it_comes_to_those_that_ask(p: Process) -> Formula:
    """So a user that does not wait never enters."""
    return token(p) >> asking(p)


@page.invariant
def one_has_it(p: Process, q: Process) -> Formula:
    return (has(p) & has(q)) >> (p == q)


@page.invariant
def it_is_under_way_to_one(p: Process, q: Process) -> Formula:
    return (token(p) & token(q)) >> (p == q)


@page.invariant
def it_is_here_or_under_way(p: Process, q: Process) -> Formula:
    return ~(has(p) & token(q))


@page.invariant
def it_is_not_lost() -> Formula:
    return some(Process, lambda p: has(p) | token(p))


@page.invariant
def the_token_counts(p: Process) -> Formula:
    return requested(p, p) == choose(asking(p), served(p) + 1, served(p))


@page.invariant
def others_know_no_more(p: Process, q: Process) -> Formula:
    return requested(q, p) <= requested(p, p)


@page.invariant
def a_request_under_way_was_made(p: Process, q: Process, n: Int) -> Formula:
    return request(p, q, n) >> (n <= requested(p, p))


@page.invariant
def the_queue_waits(p: Process) -> Formula:
    return queued(p) >> (asking(p) & ~has(p) & ~token(p))


@page.invariant
def a_request_is_not_lost(p: Process, q: Process) -> Formula:
    waits = asking(p) & ~has(p) & ~token(p) & (p != q)
    return waits >> (request(p, q, requested(p, p)) | (requested(q, p) == requested(p, p)))


page.no_deadlock(Process, asking, calls=["acquire", "acquire_with_token"])

survey = page.flaw("survey")  # the catalogue has it


@survey.instead_of(receive_request)
def receive_request_as_the_holder(q: Process, p: Process, n: Int) -> None:
    when(request(p, q, n))
    request[p, q, n] = False
    requested[q, p] = choose(has(q), later(requested(q, p), n), requested(q, p))


def _state(now: Snapshot) -> State:
    processes, flying = now.processes, now.sent("Token")
    tokens = [process.token for process in processes if process.token is not None]
    tokens += [sent.message for sent in flying]
    if len(tokens) != 1:
        raise UnmappedError(f"there are {len(tokens)} tokens")
    asking_now = now.users(Phase.WAITING, Phase.INSIDE)
    having = [process.me for process in processes if process.token is not None]
    now.agree("inside", now.users(Phase.INSIDE), asking_now & set(having))
    return {
        "asking": once(asking_now),
        "has": once(having),
        "token": once(sent.receiver for sent in flying),
        "served": {(me,): number for me, number in enumerate(tokens[0].served, 1)},
        "queued": once(tokens[0].queue),
        "requested": {
            (process.me, peer): number
            for process in processes
            for peer, number in enumerate(process.requested, 1)
        },
        "request": once((s.sender, s.receiver, s.message.number) for s in now.sent("Request")),
    }


LINK = Link("suzuki-kasami", _state, longest=2)
