"""A token that goes round a ring, in any order of the processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, some, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.plain import Fixed, State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("token-ring", "for every N and every ring")


class Process(Ordered):
    """One of the ring."""


after = page.function("after", Process, to=Process, fixed=True)
has = page.relation("has", Process)  # the token
token = page.relation("token", Process)  # under way to p
asking = page.relation("asking", Process)
inside = page.relation("inside", Process)


@page.start
def one_token(p: Process, q: Process) -> Formula:
    return some(Process, has) & ((has(p) & has(q)) >> (p == q))


@page.start
def all_are_idle(p: Process) -> Formula:
    return ~token(p) & ~asking(p) & ~inside(p)


@page.action
def acquire(p: Process) -> None:
    when(~asking(p), ~inside(p))
    asking[p] = True


@page.action
def enter(p: Process) -> None:
    when(asking(p), has(p))
    asking[p] = False
    inside[p] = True


@page.action
def pass_on(p: Process) -> None:
    when(has(p), ~inside(p))
    has[p] = False
    token[after(p)] = True


@page.action
def receive_token(p: Process) -> None:
    when(token(p))
    token[p] = False
    has[p] = True


@page.action
def release(p: Process) -> None:
    when(inside(p))
    inside[p] = False


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Process) -> Formula:
    """No second token comes."""
    return ~(token(p) & has(p))


@page.safety
def the_token_is_not_lost() -> Formula:
    return some(Process, lambda p: has(p) | token(p))


@page.invariant
def inside_with_the_token(p: Process) -> Formula:
    return inside(p) >> has(p)


@page.invariant
def one_has_it(p: Process, q: Process) -> Formula:
    return (has(p) & has(q)) >> (p == q)


@page.invariant
def it_is_under_way_to_one(p: Process, q: Process) -> Formula:
    return (token(p) & token(q)) >> (p == q)


@page.invariant
def it_is_here_or_under_way(p: Process, q: Process) -> Formula:
    return ~(has(p) & token(q))


page.no_deadlock(Process, asking, calls=["acquire"])

hasty = page.flaw("passes-on-inside")


@hasty.instead_of(pass_on)
def pass_on_inside(p: Process) -> None:
    when(has(p))
    has[p] = False
    token[after(p)] = True


def _state(now: Snapshot) -> State:
    return {
        "has": once(process.me for process in now.processes if process.token),
        "token": once(sent.receiver for sent in now.sent("Token")),
        "asking": once(now.users(Phase.WAITING)),
        "inside": once(now.users(Phase.INSIDE)),
    }


def _fixed(processes: Sequence[Any]) -> Fixed:
    return {"after": lambda me: processes[me - 1].successor}


LINK = Link("token-ring", _state, fixed=_fixed, longest=2, variants=("rotating",))
