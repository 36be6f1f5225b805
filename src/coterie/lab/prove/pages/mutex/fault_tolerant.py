"""Fault-tolerant coteries with repaired rules: exclusion for any coterie, table and number of crashes.

`delta` is the longest time from the sending of a message to the end of its handling. Who is down, as
a process knows it, is a view; in a view another process stands in for each dead one. The two axioms on
stand-ins are lemma 3 of the paper of 1996. A lock of an arbiter is with one request, as Maekawa's rules
have it. No process returns.

In the link one time passes for all, and each message is handled within delta; what the dead have sent
may get lost.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.algorithms.mutex.quorum.fault_tolerant.messages import Allright
from coterie.catalogue import load
from coterie.lab.prove import Page, Real, Thing, become, choose, each, every, none, some, when
from coterie.lab.prove.link import ANYWHERE, Link, Snapshot, Trial
from coterie.lab.prove.timed_walk import TimedWalk, Timing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
    from coterie.clocks import Stamp
    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page(
    "fault-tolerant", "for every N, every coterie and table, and any number of crashes"
)


class Process(Thing):
    """One that asks, is asked, and may crash."""


class Quorum(Thing):
    """A set of processes."""


class View(Thing):
    """Which processes are dead, and who stands in for each."""


class Entry(Thing):
    """One request, from its first lock to its end."""


member = page.relation("member", Process, Quorum, fixed=True)
dead = page.relation("dead", View, Process, fixed=True)
instead = page.function("instead", View, Process, to=Process, fixed=True)
who = page.function("who", Entry, to=Process, fixed=True)
delta = page.variable("delta", Real, fixed=True)

now = page.variable("now", Real)
crashed = page.relation("crashed", Process)
view = page.function("view", Process, to=View)
learnt = page.function("learnt", Process, Process, to=Real)  # when p learnt that x is down
last = page.function("last", Process, to=Real)  # when p learnt the latest news
news = page.relation("news", Process, Process, Process)  # q tells of x: under way to p
lock = page.relation("lock", Process, Entry)
inside = page.relation("inside", Entry)
ended = page.relation("ended", Entry)
by = page.function("by", Entry, to=Quorum)  # it entered with this one …
seen = page.function("seen", Entry, to=View)  # … in this view …
uses = page.relation("uses", Entry, Process)  # … with the locks of these
holding = page.relation("holding", Entry)  # it lost a member inside, and said Hold
since = page.function("since", Entry, to=Real)  # when it said so
hold = page.relation("hold", Entry, Process)  # under way to p
held = page.relation("held", Process, Entry)  # p knows that e is inside


def knows(p: Process, x: Process) -> Formula:
    return dead(view(p), x)


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Process, lambda v: member(v, k) & member(v, m))


@page.axiom
def stand_ins_live(w: View, u: Process) -> Formula:
    return ~dead(w, instead(w, u))


@page.axiom
def stand_ins_stay(w: View, z: View, u: Process) -> Formula:
    """A stand-in is replaced only when it is dead itself."""
    more_are_dead = every(Process, lambda x: dead(w, x) >> dead(z, x))
    return (more_are_dead & ~dead(z, instead(w, u))) >> (instead(z, u) == instead(w, u))


@page.axiom
def messages_take_time() -> Formula:
    return delta > 0


@page.start
def all_live_and_know_it(p: Process, q: Process, x: Process) -> Formula:
    return ~crashed(p) & ~knows(p, x) & (last(p) <= now) & ~news(q, x, p)


@page.start
def no_request_was_made(p: Process, e: Entry) -> Formula:
    entries = ~inside(e) & ~ended(e) & ~uses(e, p) & ~holding(e)
    return entries & ~lock(p, e) & ~hold(e, p) & ~held(p, e)


@page.action
def time_passes(d: Real) -> None:
    """Among the living, no message takes longer than delta."""

    def in_time(q: Process, x: Process, p: Process) -> Formula:
        return (news(q, x, p) & ~crashed(p)) >> (now + d <= learnt(q, x) + delta)

    when(d > 0, every(Process, in_time))
    when(
        every(
            Entry,
            Process,
            lambda e, p: (hold(e, p) & ~crashed(p)) >> (now + d <= since(e) + delta),
        )
    )
    become(now, now + d)


@page.action
def crash(x: Process) -> None:
    when(~crashed(x))
    crashed[x] = True
    inside[each] = lambda e: inside(e) & (who(e) != x)


@page.action
def lose_news(q: Process, x: Process, p: Process) -> None:
    """A process may crash while it tells the others."""
    when(crashed(q), news(q, x, p))
    news[q, x, p] = False


@page.action
def lose_hold(e: Entry, p: Process) -> None:
    when(crashed(who(e)), hold(e, p))
    hold[e, p] = False


def learn(p: Process, x: Process, w: View) -> None:
    """Note it, tell all that live, and say Hold inside if a lock was of the dead one."""

    def says_hold(e: Entry) -> Formula:
        return inside(e) & (who(e) == p) & uses(e, x) & ~holding(e)

    when(~crashed(p), ~knows(p, x))
    when(every(Process, lambda y: dead(w, y) == (knows(p, y) | (y == x))))
    view[p] = w
    learnt[p, x] = now
    last[p] = now
    news[p, x, each] = lambda r: (r != p) & (r != x)
    holding[each] = lambda e: holding(e) | says_hold(e)
    since[each] = lambda e: choose(says_hold(e), now, since(e))
    hold[each, each] = lambda e, r: hold(e, r) | (says_hold(e) & (r != p))


@page.action
def detect(p: Process, x: Process, w: View) -> None:
    """The detector is accurate: one that lives would have answered within T_d."""
    when(crashed(x))
    learn(p, x, w)


@page.action
def receive_news(q: Process, x: Process, p: Process, w: View) -> None:
    when(news(q, x, p))
    learn(p, x, w)
    news[q, x, p] = False


@page.action
def receive_old_news(q: Process, x: Process, p: Process) -> None:
    when(news(q, x, p), knows(p, x))
    news[q, x, p] = False


@page.action
def receive_hold(e: Entry, p: Process) -> None:
    when(hold(e, p))
    hold[e, p] = False
    held[p, e] = True


@page.action
def receive_end_of_hold(e: Entry, p: Process) -> None:
    """It has left, or is down."""
    when(ended(e) | crashed(who(e)))
    held[p, e] = False


@page.action
def give(v: Process, e: Entry) -> None:
    when(~crashed(v), none(Entry, lambda f: lock(v, f)))
    lock[v, e] = True


@page.action
def take_back(v: Process, e: Entry) -> None:
    when(~inside(e))
    lock[v, e] = False


def has_locks(e: Entry, k: Quorum) -> Formula:
    now_in = view(who(e))
    return every(Process, lambda u: member(u, k) >> lock(instead(now_in, u), e))


def come_inside(e: Entry, k: Quorum) -> None:
    p = who(e)
    when(~crashed(p), ~ended(e), none(Entry, lambda f: inside(f) & (who(f) == p)))
    when(has_locks(e, k), none(Entry, lambda f: held(p, f)))
    inside[e] = True
    by[e] = k
    seen[e] = view(p)
    uses[e, each] = lambda v: some(Process, lambda u: member(u, k) & (instead(view(p), u) == v))
    holding[e] = False
    hold[e, each] = lambda r: False


@page.action
def enter(e: Entry, k: Quorum) -> None:
    """After the quarantine: all that one inside has to say about the dead has arrived."""
    quiet = last(who(e)) + delta + delta
    when(every(Process, lambda x: knows(who(e), x) >> (quiet < now)))
    come_inside(e, k)


@page.action
def leave(e: Entry) -> None:
    when(inside(e))
    inside[e] = False
    ended[e] = True


@page.safety
def mutual_exclusion(e: Entry, f: Entry) -> Formula:
    return (inside(e) & inside(f)) >> (e == f)


@page.invariant
def only_the_dead_are_taken_for_dead(p: Process, x: Process) -> Formula:
    return knows(p, x) >> crashed(x)


@page.invariant
def the_living_are_inside(e: Entry) -> Formula:
    return inside(e) >> (~crashed(who(e)) & ~ended(e))


@page.invariant
def news_was_learnt(p: Process, q: Process, x: Process) -> Formula:
    known = knows(p, x) >> ((learnt(p, x) <= last(p)) & (last(p) <= now))
    return known & (news(q, x, p) >> knows(q, x))


@page.invariant
def news_reaches_all(p: Process, q: Process, x: Process) -> Formula:
    comes = news(q, x, p) & (now <= learnt(q, x) + delta)
    return (knows(q, x) & ~crashed(q) & ~crashed(p)) >> (knows(p, x) | comes)


@page.invariant
def all_know_whom_one_entered_without(e: Entry, p: Process, x: Process) -> Formula:
    return (inside(e) & dead(seen(e), x) & ~crashed(p)) >> knows(p, x)


@page.invariant
def one_inside_has_its_locks(e: Entry, u: Process) -> Formula:
    locked = uses(e, u) >> (lock(u, e) & ~dead(seen(e), u))
    return inside(e) >> (locked & (member(u, by(e)) >> uses(e, instead(seen(e), u))))


@page.invariant
def a_lock_is_with_one(v: Process, e: Entry, f: Entry) -> Formula:
    return (lock(v, e) & lock(v, f)) >> (e == f)


@page.invariant
def one_that_lost_a_member_holds(e: Entry, x: Process) -> Formula:
    return (inside(e) & uses(e, x) & knows(who(e), x)) >> holding(e)


@page.invariant
def a_hold_reaches_all(e: Entry, p: Process) -> Formula:
    comes = hold(e, p) & (now <= since(e) + delta)
    return (inside(e) & holding(e) & ~crashed(p) & (p != who(e))) >> (held(p, e) | comes)


@page.invariant
def a_hold_is_said_in_time(e: Entry, p: Process, x: Process) -> Formula:
    concerned = inside(e) & holding(e) & uses(e, x) & knows(p, x) & ~crashed(p)
    return concerned >> (since(e) <= learnt(p, x) + delta)


@page.invariant
def a_hold_was_said(e: Entry) -> Formula:
    return (inside(e) & holding(e)) >> (since(e) <= now)


short = page.flaw("half-a-quarantine")


@short.instead_of(enter)
def enter_after_half_a_quarantine(e: Entry, k: Quorum) -> None:
    when(every(Process, lambda x: knows(who(e), x) >> (last(who(e)) + delta < now)))
    come_inside(e, k)


silent = page.flaw("no-relay")


@silent.instead_of(receive_news)
def receive_news_and_keep_it(q: Process, x: Process, p: Process, w: View) -> None:
    """The first to learn it tells the others, and they relay nothing."""
    when(news(q, x, p))
    learn(p, x, w)
    news[p, x, each] = lambda r: False
    news[q, x, p] = False


published = page.flaw("published")


@published.instead_of(detect)
def detect_and_go_on(p: Process, x: Process, w: View) -> None:
    """One inside says nothing: the arbiters alone remember its locks."""
    when(crashed(x), ~crashed(p), ~knows(p, x))
    when(every(Process, lambda y: dead(w, y) == (knows(p, y) | (y == x))))
    view[p] = w
    learnt[p, x] = now
    last[p] = now
    news[p, x, each] = lambda r: (r != p) & (r != x)


Request: TypeAlias = tuple[int, int]  # its time, and who has made it
Steps: TypeAlias = list[tuple[str, tuple[Any, ...]]]

SIGMA, LAMBDA = Fraction(1), Fraction(1, 4)
LONE = 3
T_MAX = Fraction(5, 2)  # short, so that the dead are noticed while one is inside
GRAIN = Fraction(1, 8)
PASSES = (GRAIN, *(8 * GRAIN,) * 3)


def _delay_max(message: Any) -> Fraction:
    """A message is handled within lambda after it has come, but an answer before the timer that waits for it."""
    return SIGMA - GRAIN if isinstance(message, Allright) else SIGMA + LAMBDA


def _build(trial: Trial, variant: str) -> Sequence[Any]:
    chosen = {
        # If the one arbiter of all dies, another process could enter with that which stands in for it.
        "coterie": "singleton" if trial.size == LONE else "majority",
        "sigma": str(float(SIGMA)),
        "lambda": str(float(LAMBDA)),
        "t-max": str(float(T_MAX)),
    }
    entry = load("fault-tolerant")
    return entry.build(entry.setup(trial.size, variant, chosen))


def _state(now: Snapshot) -> State:
    live = {each.me: each for each in now.processes if each.me not in now.crashed}
    state: State = {
        "now": {(): now.moment},
        "crashed": {(x,) for x in now.crashed},
        "view": {(p.me,): tuple(sorted(p.membership.down())) for p in now.processes},
        "lock": {(v, e) for v, e in now.past.get("lock", ()) if v not in live}
        | {(p.me, _request(p.owner)) for p in live.values() if p.owner is not None},
        "inside": {(_request(p.stamp),) for p in live.values() if p.inside},
    }
    left = {(e,) for (e,) in now.past.get("inside", set()) - state["inside"] if e[1] in live}
    state["ended"] = now.past.get("ended", set()) | left
    return state | _knowledge(now, state) | _entries(now, live, state) | _holds(now, live, state)


def _request(stamp: Stamp) -> Request:
    return stamp.time, stamp.process


def _knowledge(now: Snapshot, state: State) -> State:
    """Say who has learnt when that another is down, and which news of it is under way."""
    past = now.past.get("view", {})
    fresh = {
        (p, x) for (p,), down in state["view"].items() for x in down if x not in past.get((p,), ())
    }
    told = {(q, m.process, p) for q, p, m in now.sent("Down")}
    # What is on its way to a dead process stays there.
    told |= {each for each in now.past.get("news", ()) if each[2] in now.crashed}
    told |= {(p, x, r) for p, x in fresh for r in now.crashed if r not in (p, x)}
    everyone = [process.me for process in now.processes]
    return {
        "learnt": now.past.get("learnt", {}) | dict.fromkeys(fresh, now.moment),
        "last": now.past.get("last", {(p,): Fraction(0) for p in everyone})
        | {(p,): now.moment for p, _ in fresh},
        "news": told,
    }


def _entries(now: Snapshot, live: dict[int, FaultTolerant], state: State) -> State:
    """Remember by which quorum, in which view and with whose locks a process has entered."""
    found = {name: dict(now.past.get(name, {})) for name in ("by", "seen")}
    uses = set(now.past.get("uses", ()))
    for (e,) in state["inside"] - now.past.get("inside", set()):
        p = live[e[1]]
        view = state["view"][p.me,]
        found["seen"][e,] = view
        fits = (k for k in p.settings.quorums if _image(p, k, view) == set(p.quorum))
        found["by"][e,] = next(fits)
        uses |= {(e, v) for v in p.quorum}
    return {**found, "uses": uses}


def _image(p: FaultTolerant, quorum: Sequence[int], view: Sequence[int]) -> set[int]:
    return {_stand_in(p, view, u) for u in quorum}


def _stand_in(p: FaultTolerant, view: Sequence[int], u: int) -> int:
    while u in view:
        u = p.settings.stand_ins[u - 1]
    return u


def _holds(now: Snapshot, live: dict[int, FaultTolerant], state: State) -> State:
    """Say which entries have said Hold, to whom it is under way, and who minds it."""
    inside = {(e,) for (e,) in state["inside"] if live[e[1]].holding}
    holding = {(e,) for (e,) in now.past.get("holding", ()) if (e,) not in state["inside"]} | inside
    fresh = inside - now.past.get("holding", set())
    since = now.past.get("since", {}) | dict.fromkeys(fresh, now.moment)
    before = now.past.get("hold", set())
    new = {(e, p.me) for (e,) in fresh for p in now.processes if p.me != e[1]}
    hold = {(e, p) for e, p in before | new if p not in live}
    for p in live:
        for q in {e[1] for e, r in before | new if r == p}:
            under_way = sum(type(m).__name__ == "Hold" for m in now.links.get((q, p), ()))
            said = sorted(e for e, r in before | new if r == p and e[1] == q)
            hold |= {(e, p) for e in said[len(said) - under_way :]}  # the oldest arrive first
    arrived = {(p, e) for e, p in before - hold}
    minded = now.past.get("held", set()) | arrived
    held = {(p, e) for p, e in minded if p not in live or e[1] in live[p].holders}
    return {"holding": holding, "since": since, "hold": hold, "held": held}


def _ways(before: State, after: State) -> Iterator[Steps]:
    """Name what may have happened between two states."""

    def come(name: str) -> list[tuple[Any, ...]]:
        return sorted(after[name] - before[name])

    def gone(name: str) -> list[tuple[Any, ...]]:
        return sorted(before[name] - after[name])

    if after["now"] != before["now"]:
        yield [("time_passes", (after["now"][()] - before["now"][()],))]
        return
    if come("crashed"):
        yield [("crash", key) for key in come("crashed")]
        return
    steps: Steps = []
    heard = {(x, p): q for q, x, p in gone("news")}
    for p, x in sorted(after["learnt"].keys() - before["learnt"].keys()):
        q = heard.pop((x, p), None)
        view = after["view"][p,]
        steps += [("detect", (p, x, view)) if q is None else ("receive_news", (q, x, p, view))]
    old = [(q, x, p) for (x, p), q in heard.items()]
    minded = {(e, p) for p, e in after["held"]}
    ends = [("receive_end_of_hold", (e, p)) for p, e in gone("held")]
    ends += [("receive_hold", key) for key in gone("hold") if key in minded]
    lost = [("lose_hold", key) for key in gone("hold") if key not in minded]
    rest = [("leave", key) for key in gone("inside")]
    rest += [("take_back", key) for key in gone("lock")]
    rest += [("give", key) for key in come("lock")]
    rest += [("enter", (*key, after["by"][key])) for key in come("inside")]
    yield [*steps, *(("receive_old_news", key) for key in old), *ends, *lost, *rest]
    yield [*steps, *(("lose_news", key) for key in old), *ends, *lost, *rest]


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    match action:
        case "time_passes" | "lose_news" | "lose_hold":
            return ANYWHERE
        case "receive_news" | "receive_old_news":
            return int(args[2])
        case "receive_hold" | "receive_end_of_hold":
            return int(args[1])
        case "enter" | "leave":
            return int(args[0][1])
        case _:
            return int(args[0])


LINK = Link(
    "fault-tolerant",
    _state,
    sorts=("Process",),
    things=lambda processes: {"Quorum": processes[0].settings.quorums},
    fixed=lambda processes: {
        "member": lambda process, quorum: process in quorum,
        "dead": lambda view, process: process in view,
        "instead": lambda view, process: _stand_in(processes[0], view, process),
        "who": lambda request: request[1],
        "delta": lambda: SIGMA + LAMBDA,
    },
    place=_place,
    lasting=("ended",),
    build=_build,
    ways=_ways,
    walk=partial(TimedWalk, Timing(PASSES, delay_max=_delay_max, haste=8)),
    variants=("repaired",),
    trials=(Trial(3, 3, runs=6, crashes=1), Trial(5, 3, runs=24, crashes=3)),
)
