"""Election of the highest process that lives (Garcia-Molina, 1982), with any number of crashes.

A process leads once all higher ones are reported as down; the detector is perfect. What a process was told
may come late or twice. That an election ends is not proved, and no process returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, each, every, none, when
from coterie.lab.prove.link import Link, Snapshot, Trial

if TYPE_CHECKING:
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("bully", "for every N and any number of crashes")


class Process(Ordered):
    """The highest that lives should lead."""


crashed = page.relation("crashed", Process)
follows = page.relation("follows", Process, Process)
asks = page.relation("asks", Process)  # an election of its own, that no higher one has answered
awaits = page.relation("awaits", Process, Process)  # in it: an answer, or a report of a crash
told = page.relation("told", Process, Process)  # q has told p that it leads


@page.start
def all_follow_the_highest(p: Process, q: Process, r: Process) -> Formula:
    idle = ~crashed(p) & ~asks(p) & ~awaits(p, q) & ~told(p, q)
    return idle & (follows(p, q) >> (r <= q))


@page.action
def begin(p: Process) -> None:
    """Miss the leader, and ask all that are higher."""
    when(~crashed(p))
    follows[p, each] = lambda q: False
    asks[p] = True
    awaits[p, each] = lambda q: p < q


@page.action
def receive_answer(p: Process) -> None:
    """A higher one is there: leave it to that one."""
    when(asks(p))
    asks[p] = False
    awaits[p, each] = lambda q: False


@page.action
def receive_report(p: Process, q: Process) -> None:
    when(awaits(p, q), crashed(q))
    awaits[p, q] = False


@page.action
def win(p: Process) -> None:
    when(asks(p), none(Process, lambda q: awaits(p, q)))
    asks[p] = False
    follows[p, p] = True
    told[p, each] = lambda q: told(p, q) | ((q != p) & ~crashed(q))


@page.action
def follow(p: Process, q: Process) -> None:
    when(~crashed(p), told(q, p), p < q)
    asks[p] = False
    awaits[p, each] = lambda r: False
    follows[p, each] = lambda r: r == q


@page.action
def crash(p: Process) -> None:
    when(~crashed(p))
    crashed[p] = True
    asks[p] = False
    awaits[p, each] = lambda q: False
    follows[p, each] = lambda q: False


@page.safety
def no_process_that_lives_is_higher_than_a_leader(p: Process, q: Process, r: Process) -> Formula:
    return (follows(p, q) & (q < r)) >> crashed(r)


@page.theorem
def one_leads(p: Process, q: Process) -> Formula:
    return (follows(p, p) & follows(q, q) & ~crashed(p) & ~crashed(q)) >> (p == q)


@page.invariant
def news_of_a_leader_is_true(p: Process, q: Process, r: Process) -> Formula:
    return (told(q, p) & (q < r)) >> crashed(r)


@page.invariant
def one_that_is_not_awaited_is_down(p: Process, q: Process) -> Formula:
    return (asks(p) & (p < q) & ~awaits(p, q)) >> crashed(q)


hasty = page.flaw("wins-without-waiting")


@hasty.instead_of(win)
def win_with_some_reports(p: Process) -> None:
    """One higher process that is down is enough."""
    when(asks(p), ~every(Process, lambda q: (p < q) >> awaits(p, q)))
    asks[p] = False
    awaits[p, each] = lambda q: False
    follows[p, p] = True
    told[p, each] = lambda q: told(p, q) | ((q != p) & ~crashed(q))


def _state(now: Snapshot) -> State:
    asking = [p for p in now.processes if p.leader is None and not p.answered]
    return {
        "crashed": {(process,) for process in now.crashed},
        "follows": {(p.me, p.leader) for p in now.processes if p.leader is not None},
        "asks": {(p.me,) for p in asking},
        "awaits": {(p.me, peer) for p in asking for peer in p.watched},
        "told": {(sent.sender, sent.receiver) for sent in now.sent("Coordinator")},
    }


LINK = Link(
    "bully",
    _state,
    lasting=("told",),
    longest=3,
    variants=("watching",),
    trials=(
        Trial(2, 1, crashes=1),
        Trial(3, 1, crashes=2),
        Trial(5, 1, runs=8, crashes=3),
        Trial(7, 1, runs=3, crashes=5),
    ),
)
