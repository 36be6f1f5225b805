"""One coordinator that lets in one process at a time.

The order of its queue is left open: exclusion holds for any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, none, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("centralized")


class Process(Ordered):
    """A client; one of them is the coordinator as well."""


waiting = page.relation("waiting", Process)
inside = page.relation("inside", Process)
request = page.relation("request", Process)  # under way to the coordinator
grant = page.relation("grant", Process)  # under way to p
leaving = page.relation("leaving", Process)  # its Release is under way
queued = page.relation("queued", Process)
holder = page.relation("holder", Process)  # the one that was let in


@page.start
def all_are_idle(p: Process) -> Formula:
    under_way = request(p) | grant(p) | leaving(p)
    return ~waiting(p) & ~inside(p) & ~under_way & ~queued(p) & ~holder(p)


@page.action
def acquire(p: Process) -> None:
    when(~waiting(p), ~inside(p))
    waiting[p] = True
    request[p] = True


@page.action
def receive_request(p: Process) -> None:
    when(request(p))
    request[p] = False
    queued[p] = True


@page.action
def let_in(p: Process) -> None:
    when(queued(p), none(Process, holder))
    queued[p] = False
    holder[p] = True
    grant[p] = True


@page.action
def receive_grant(p: Process) -> None:
    when(grant(p))
    grant[p] = False
    waiting[p] = False
    inside[p] = True


@page.action
def release(p: Process) -> None:
    when(inside(p))
    inside[p] = False
    leaving[p] = True


@page.action
def receive_release(p: Process) -> None:
    when(leaving(p))
    leaving[p] = False
    holder[p] = False


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.invariant
def one_holder(p: Process, q: Process) -> Formula:
    return (holder(p) & holder(q)) >> (p == q)


@page.invariant
def one_that_was_let_in_is_the_holder(p: Process) -> Formula:
    return (grant(p) | inside(p) | leaving(p)) >> holder(p)


@page.invariant
def it_comes_or_is_there_or_goes(p: Process) -> Formula:
    return ~(grant(p) & inside(p)) & ~(grant(p) & leaving(p)) & ~(inside(p) & leaving(p))


@page.invariant
def a_holder_is_somewhere(p: Process) -> Formula:
    return holder(p) >> (grant(p) | inside(p) | leaving(p))


@page.invariant
def a_request_is_not_lost(p: Process) -> Formula:
    return waiting(p) >> (request(p) | queued(p) | grant(p))


page.no_deadlock(Process, waiting, calls=["acquire"])

eager = page.flaw("serves-while-one-is-inside")


@eager.instead_of(let_in)
def let_in_at_once(p: Process) -> None:
    when(queued(p))
    queued[p] = False
    holder[p] = True
    grant[p] = True


def _state(now: Snapshot) -> State:
    coordinator: Any = now.processes[now.processes[0].coordinator - 1]
    return {
        "waiting": once(now.users(Phase.WAITING)),
        "inside": once(now.users(Phase.INSIDE)),
        "request": once(sent.sender for sent in now.sent("Request")),
        "grant": once(sent.receiver for sent in now.sent("Grant")),
        "leaving": once(sent.sender for sent in now.sent("Release")),
        "queued": once(coordinator.queue),
        "holder": once([coordinator.holder] if coordinator.holder else []),
    }


def _place(action: str, args: tuple[Any, ...], processes: Sequence[Any]) -> int:
    served = ("receive_request", "let_in", "receive_release")
    return int(processes[0].coordinator if action in served else args[0])


LINK = Link("centralized", _state, place=_place, longest=4, variants=("silent", "denied"))
