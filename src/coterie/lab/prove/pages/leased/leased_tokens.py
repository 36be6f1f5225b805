"""The leased quorum lock: tokens tell who was overtaken, whatever clocks do (P2).

No time appears here: leases end, votes expire and voters crash at any moment. A tenure is a vote from its
grant on, with the interval of tokens that it allows. Numbers in brackets are those of the rules of
docs/protocol/leased-rules.md. One configuration, one lock, for one holder at a time.

In the link each process is a voter or a participant. Sessions expire, leases lapse and voters crash
whenever they like; which votes were given, and which holds were entered, is noted beside the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.algorithms.mutex.quorum.leased.frames import (
    Data,
    Grant,
    Release,
    Reply,
    SessionName,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.process import LOCK
from coterie.lab.prove import Int, Page, Thing, choose, each, every, later, none, some, when
from coterie.lab.prove.link import Link, Snapshot, Trial
from coterie.lab.prove.worlds.leased import is_of, things_of, watched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula
    from coterie.lab.prove.worlds.leased import Given
    from coterie.lab.prove.worlds.leased import Hold as Held

PAGE = page = Page("leased-tokens", "for any number of voters and participants, and every coterie")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time."""


class Quorum(Thing):
    """A set of voters."""


class Tenure(Thing):
    """Of a vote, from its grant on."""


class Hold(Thing):
    """Of the lock, from its entry on."""


member = page.relation("member", Voter, Quorum, fixed=True)
at = page.function("at", Tenure, to=Voter, fixed=True)
who = page.function("who", Tenure, to=Participant, fixed=True)
holder = page.function("holder", Hold, to=Participant, fixed=True)

up = page.relation("up", Voter)
floor = page.function("floor", Voter, to=Int)  # every token up to it may have been used
bound = page.function("bound", Voter, to=Int)  # on its disk: no token above it was handed out
given = page.relation("given", Tenure)  # ever
owner = page.relation("owner", Tenure)  # the voter has it on record
has = page.relation("has", Tenure)  # the participant has it, or its Grant is under way
low = page.function("low", Tenure, to=Int)
high = page.function("high", Tenure, to=Int)
repaired = page.relation("repaired", Tenure)  # for a hold that there is, with its token alone [8.4]
returning = page.relation("returning", Tenure)
used = page.function("used", Tenure, to=Int)  # as the message says that gives it back
before = page.relation("before", Tenure, Tenure)  # at the same voter
entered = page.relation("entered", Hold)
token = page.function("token", Hold, to=Int)
by = page.function("by", Hold, to=Quorum)
support = page.relation("support", Hold, Tenure)  # the votes that it entered with


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def no_vote_was_given(v: Voter, y: Tenure, z: Tenure, h: Hold) -> Formula:
    voters = up(v) & (floor(v) <= bound(v))
    votes = ~given(y) & ~owner(y) & ~has(y) & ~returning(y) & ~before(y, z) & ~repaired(y)
    return voters & votes & ~entered(h) & ~support(h, y)


@page.action
def save(v: Voter, b: Int) -> None:
    when(bound(v) <= b)
    bound[v] = b


def free(y: Tenure) -> Formula:
    """Its voter has no owner, and the vote is a new one."""
    others = none(Tenure, lambda z: owner(z) & (at(z) == at(y)))
    return up(at(y)) & ~given(y) & others


def hand_out(y: Tenure, lowest: Int, highest: Int) -> None:
    given[y] = owner[y] = has[y] = True
    low[y] = lowest
    high[y] = highest
    before[each, y] = lambda z: given(z) & (at(z) == at(y)) & (z != y)


@page.action
def grant(y: Tenure, lowest: Int, highest: Int) -> None:
    """[6.5] The interval begins above the floor; what is on disk covers it before it leaves [7]."""
    when(free(y), floor(at(y)) < lowest, lowest <= highest, highest <= bound(at(y)))
    hand_out(y, lowest, highest)


@page.action
def repair(y: Tenure, t: Int) -> None:
    """[8.4] The one token may lie below the floor; no entry uses such a vote [I4]."""
    when(free(y), t <= bound(at(y)))
    hand_out(y, t, t)
    repaired[y] = True


@page.action
def lift(y: Tenure, highest: Int) -> None:
    """[6.4] The lower end stays [5.5]."""
    when(owner(y), ~repaired(y), high(y) <= highest, highest <= bound(at(y)))
    high[y] = highest


def fits(y: Tenure, h: Hold, t: Int) -> Formula:
    return has(y) & ~repaired(y) & (who(y) == holder(h)) & (low(y) <= t) & (t <= high(y))


@page.action
def enter(h: Hold, k: Quorum, t: Int) -> None:
    """[5.3] A token in the intervals of a quorum, above all that this participant has used."""

    def votes(v: Voter) -> Formula:
        return some(Tenure, lambda y: fits(y, h, t) & (at(y) == v))

    when(~entered(h), every(Voter, lambda v: member(v, k) >> votes(v)))
    when(every(Hold, lambda g: (entered(g) & (holder(g) == holder(h))) >> (token(g) < t)))
    entered[h] = True
    token[h] = t
    by[h] = k
    support[h, each] = lambda y: fits(y, h, t)


@page.action
def give_back(y: Tenure, u: Int) -> None:
    when(has(y), every(Hold, lambda h: support(h, y) >> (token(h) <= u)))
    has[y] = False
    returning[y] = True
    used[y] = u


@page.action
def cross(y: Tenure, u: Int) -> None:
    """The Grant meets a Release: the participant won't count the vote, and the voter will hear of it."""
    when(has(y), none(Hold, lambda h: support(h, y)))
    has[y] = False
    returning[y] = True
    used[y] = u


@page.action
def lose(y: Tenure) -> None:
    """The session is over, so the participant counts the vote for no new hold [5.8]."""
    when(has(y))
    has[y] = False


@page.action
def take_back(y: Tenure) -> None:
    """[6.2, 6.3] The floor rises to what was used, but not above the interval."""
    when(returning(y), owner(y), up(at(y)))
    owner[y] = False
    returning[y] = False
    floor[at(y)] = later(floor(at(y)), choose(used(y) < high(y), used(y), high(y)))


@page.action
def expire(y: Tenure) -> None:
    """[6.6] The participant cannot be asked, so all of the interval counts as used."""
    when(owner(y), up(at(y)))
    owner[y] = False
    returning[y] = False
    floor[at(y)] = later(floor(at(y)), high(y))


@page.action
def crash(v: Voter) -> None:
    when(up(v))
    up[v] = False
    owner[each] = lambda y: owner(y) & (at(y) != v)
    returning[each] = lambda y: returning(y) & (at(y) != v)


@page.action
def restart(v: Voter) -> None:
    """[9]."""
    when(~up(v))
    up[v] = True
    floor[v] = bound(v)


@page.safety
def the_order_of_tokens_is_the_order_of_votes(h: Hold, g: Hold, y: Tenure, z: Tenure) -> Formula:
    overtaken = support(h, y) & support(g, z) & before(y, z) & (h != g)
    return overtaken >> (token(h) < token(g))


@page.safety
def tokens_are_unique(h: Hold, g: Hold) -> Formula:
    return (entered(h) & entered(g) & (token(h) == token(g))) >> (h == g)


@page.invariant
def votes_fit_their_hold(h: Hold, y: Tenure) -> Formula:
    mine = given(y) & ~repaired(y) & (who(y) == holder(h))
    return support(h, y) >> (entered(h) & mine & (low(y) <= token(h)) & (token(h) <= high(y)))


@page.invariant
def a_hold_has_a_quorum(h: Hold, v: Voter) -> Formula:
    votes = some(Tenure, lambda y: support(h, y) & (at(y) == v))
    return (entered(h) & member(v, by(h))) >> votes


@page.invariant
def the_disk_covers_what_was_handed_out(v: Voter, y: Tenure) -> Formula:
    return (floor(v) <= bound(v)) & (given(y) >> (high(y) <= bound(at(y))))


@page.invariant
def votes_were_given(y: Tenure) -> Formula:
    return (owner(y) >> (given(y) & up(at(y)))) & ((has(y) | repaired(y)) >> given(y))


@page.invariant
def what_is_over_is_below_the_floor(y: Tenure, h: Hold) -> Formula:
    """[I3]."""
    over = given(y) & ~owner(y) & up(at(y))
    may_be_used = has(y) >> (high(y) <= floor(at(y)))
    was_used = support(h, y) >> (token(h) <= floor(at(y)))
    return over >> (may_be_used & was_used)


@page.invariant
def what_is_given_back_says_what_was_used(y: Tenure, h: Hold) -> Formula:
    return returning(y) >> (~has(y) & given(y) & (support(h, y) >> (token(h) <= used(y))))


@page.invariant
def earlier_votes_are_over(y: Tenure, z: Tenure, h: Hold) -> Formula:
    may_be_used = has(y) >> (high(y) < low(z))
    was_used = support(h, y) >> (token(h) < low(z))
    over = given(y) & given(z) & (y != z) & (at(y) == at(z)) & ~owner(y)
    return before(y, z) >> (over & (repaired(z) | (may_be_used & was_used)))


@page.invariant
def one_of_two_is_earlier(y: Tenure, z: Tenure) -> Formula:
    return (given(y) & given(z) & (at(y) == at(z)) & (y != z)) >> (before(y, z) | before(z, y))


unsaved = page.flaw("sends-before-it-saves")


@unsaved.instead_of(grant)
def grant_unsaved(y: Tenure, lowest: Int, highest: Int) -> None:
    when(free(y), floor(at(y)) < lowest, lowest <= highest)
    hand_out(y, lowest, highest)


low_floor = page.flaw("leaves-the-floor")


@low_floor.instead_of(take_back)
def take_back_and_leave_the_floor(y: Tenure) -> None:
    when(returning(y), owner(y), up(at(y)))
    owner[y] = False
    returning[y] = False


forgetful = page.flaw("forgets-the-floor")


@forgetful.instead_of(restart)
def restart_at_nought(v: Voter) -> None:
    when(~up(v))
    up[v] = True
    floor[v] = 0


by_repair = page.flaw("enters-by-a-repair")


@by_repair.instead_of(repair)
def repair_as_any_vote(y: Tenure, t: Int) -> None:
    when(free(y), t <= bound(at(y)))
    hand_out(y, t, t)


Vote: TypeAlias = tuple[int, int, int]  # its voter, its number there, and its participant


def _votes(now: Snapshot) -> dict[Vote, Given]:
    return {
        (process.me, number, given.participant): given
        for process in now.processes
        for number, given in enumerate(process.given, 1)
    }


def _state(now: Snapshot) -> State:
    voters = {process.me: process for process in now.processes if process.voter is not None}
    votes = _votes(now)
    owners = {y for y in votes if y[1] in voters[y[0]].owners}
    counted = {
        _latest(votes, v, p.me, session) for p in now.processes for v, session in _in_hand(now, p)
    }
    used = {(y,): number for y in owners for number in _given_back(now, votes[y], y)[:1]}
    has = {(y,) for y in counted if y is not None}
    holds = {(p.me, k): hold for p in now.processes for k, hold in enumerate(p.holds_made, 1)}
    state: State = {
        "up": {(v,) for v in voters},
        "floor": {(v,): _floor(process.voter) for v, process in voters.items()},
        "bound": {(v,): process.voter.bound for v, process in voters.items()},
        "given": {(y,) for y in votes},
        "owner": {(y,) for y in owners},
        "has": has,
        "low": {(y,): given.low for y, given in votes.items()},
        "high": {(y,): given.high for y, given in votes.items()},
        "repaired": {(y,) for y, given in votes.items() if given.is_repair},
        "returning": set(used),
        "used": used,
        "before": {(y, z) for y in votes for z in votes if y[0] == z[0] and y[1] < z[1]},
        "entered": {(h,) for h in holds},
        "token": {(h,): hold.token for h, hold in holds.items()},
    }
    return state | _support(now, holds, votes, has)


def _floor(voter: Any) -> int:
    ballot = voter.ballots.get(LOCK)
    return int(voter.floor if ballot is None else ballot.floor)


def _latest(
    votes: dict[Vote, Given], voter: int, participant: int, of: tuple[Any, int]
) -> Vote | None:
    """Find the vote that a participant speaks of: the last one of a request in a session."""
    session, request = of
    found = [
        y
        for y, given in votes.items()
        if (y[0], y[2], given.request) == (voter, participant, request) and is_of(session, given)
    ]
    return max(found, default=None)


def _in_hand(now: Snapshot, process: Any) -> Iterator[tuple[int, tuple[Any, int]]]:
    """Name the votes that a participant counts, or will when their Grants arrive, in order."""
    bid = process.participant.bids.get(LOCK)
    if bid is None:
        return
    for uplink, share in zip(process.participant.sessions.uplinks, bid.shares, strict=True):
        session = SessionName(process.participant.sessions.name, uplink.number, uplink.nonce)
        if share.vote is not None:
            yield uplink.voter, (session, bid.number)
        if not uplink.is_open or LOCK not in uplink.locks:
            continue
        for frame in now.links.get((uplink.voter, process.me), ()):
            if isinstance(frame, Reply) and frame.seq > uplink.delivered:
                granted = any(type(b) is Grant and b.number == bid.number for b in frame.bodies)
                if granted and _is_ours(uplink, frame.session):
                    yield uplink.voter, (frame.session, bid.number)


def _is_ours(uplink: Any, session: SessionName) -> bool:
    return session.number == uplink.number and uplink.nonce in (None, session.nonce)


def _given_back(now: Snapshot, given: Given, y: Vote) -> list[int]:
    """List the tokens that messages under way, which give a vote back, say were used: the next first."""
    voter, _, me = y
    process = next(each for each in now.processes if each.me == me)
    link = next(each for each in now.processes if each.me == voter).voter.sessions.get(
        process.participant.sessions.name
    )
    if link is None:
        return []
    sessions = process.participant.sessions
    uplink = sessions.uplink(voter)
    bodies = {
        frame.seq: frame.bodies
        for frame in now.links.get((me, voter), ())
        if isinstance(frame, Data) and is_of(frame.session, given)
    }
    if is_of(SessionName(sessions.name, uplink.number, uplink.nonce), given):
        bodies |= {parcel.seq: parcel.bodies for parcel in uplink.unacked}
    return [
        body.used
        for seq in sorted(bodies)
        if seq > link.delivered
        for body in bodies[seq]
        if isinstance(body, Yield | Release) and body.number == given.request
    ]


def _support(
    now: Snapshot, holds: dict[Any, Held], votes: dict[Vote, Given], has: set[Any]
) -> State:
    """Say of each hold which votes it was entered with: of a new one by the votes in hand now."""
    by, support = dict(now.past.get("by", {})), set(now.past.get("support", ()))
    for h, hold in holds.items():
        if (h,) in by:
            continue
        process = next(each for each in now.processes if each.me == h[0])
        quorums = process.participant.quorums.quorums
        by[h,] = next(tuple(sorted(q)) for q in quorums if q <= set(hold.supporters))
        support |= {
            (h, y)
            for y, given in votes.items()
            if (y,) in has
            and not given.is_repair
            and y[2] == h[0]
            and given.low <= hold.token <= given.high
        }
    return {"by": by, "support": support}


def _ways(before: State, after: State) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Name what a voter may have done, or a participant, between two states."""
    saved = [("save", (*key, b)) for key, b in after["bound"].items() if before["bound"][key] != b]
    high = before["high"]
    lifted = [
        ("lift", (*key, h)) for key, h in after["high"].items() if key in high and high[key] != h
    ]
    gone = sorted(before["owner"] - after["owner"])
    new = [step for key in sorted(after["given"] - before["given"]) for step in _given(after, key)]
    ends: list[list[tuple[str, tuple[Any, ...]]]] = [
        [("take_back", key) for key in gone],
        [("expire", key) for key in gone],
    ]
    ends += [[("crash", key), ("restart", key)] for key in sorted(after["up"])]
    for end in ends:
        yield [*saved, *lifted, *end, *new]
    back = [
        ("give_back", (*key, after["used"][key])) if key in after["returning"] else ("lose", key)
        for key in sorted(before["has"] - after["has"])
    ]
    entered = [
        ("enter", (*key, after["by"][key], after["token"][key]))
        for key in sorted(after["entered"] - before["entered"])
    ]
    yield [*back, *entered]
    yield [*entered, *back]


def _given(after: State, key: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    low, high = after["low"][key], after["high"][key]
    yield ("repair", (*key, low)) if key in after["repaired"] else ("grant", (*key, low, high))
    if key in after["returning"]:
        yield "cross", (*key, after["used"][key])


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    match action:
        case "save" | "crash" | "restart":
            return int(args[0])
        case "give_back" | "lose":
            return int(args[0][2])
        case _:
            return int(args[0][0])


LINK = Link(
    "leased",
    _state,
    sorts=(),
    things=things_of,
    fixed=lambda processes: {
        "member": lambda voter, quorum: voter in quorum,
        "at": lambda vote: vote[0],
        "who": lambda vote: vote[2],
        "holder": lambda hold: hold[0],
    },
    place=_place,
    lasting=("given",),
    build=lambda trial, _: watched(trial.size, 2, trial.restarts),
    asks=lambda process: process.voter is None,
    ways=_ways,
    variants=("all",),
    trials=(Trial(2, 1), Trial(3, 2, runs=10, restarts=2), Trial(5, 2, runs=4, restarts=2)),
)
