"""The leased quorum lock: never are two holds valid at one moment, over any coterie (P1).

Times are real numbers. `span` is the longest real time for which a participant counts a frame that
it sent, L / (1 - r), and `patience` the shortest after which a voter forgets a silent session, and
for which it abstains after a start, E / (1 + r). Numbers in brackets are those of the rules of
docs/protocol/leased-rules.md. Frames may come late, twice or never; voters crash and start again.
Sessions are taken as ordered and exactly-once [4]; one lock, for one holder alone or for several that share.

In the link one time passes for all, and each process has a clock that runs at a rate of its own: frames
are lost and come twice, voters crash and come back. Whenever a participant says that its hold is valid,
the page has to say so.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.algorithms.mutex.quorum.leased.frames import Beat, Data
from coterie.algorithms.mutex.quorum.leased.process import LOCK
from coterie.lab.prove import Page, Real, Thing, become, each, every, later, none, some, when
from coterie.lab.prove.link import ANYWHERE, Link, Snapshot, Trial, UnmappedError
from coterie.lab.prove.worlds.clocked_leased import LEASE, RATE_ERROR, clocked, clocked_walk
from coterie.lab.prove.worlds.leased import things_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula
    from coterie.lab.prove.worlds.leased import Watched

PAGE = page = Page("leased", "for any number of voters and participants, and every coterie")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time, or to several that share."""


class Quorum(Thing):
    """A set of voters."""


class Session(Thing):
    """Of one participant with one start of a voter."""


class Tenure(Thing):
    """Of a vote, from its grant on."""


class Frame(Thing):
    """A sign of life that a participant sends."""


member = page.relation("member", Voter, Quorum, fixed=True)
who = page.function("who", Session, to=Participant, fixed=True)
at = page.function("at", Session, to=Voter, fixed=True)
by = page.function("by", Tenure, to=Session, fixed=True)
shared = page.relation("shared", Tenure, fixed=True)  # given for a request that shares [17]
sender = page.function("sender", Frame, to=Participant, fixed=True)
span = page.variable("span", Real, fixed=True)
patience = page.variable("patience", Real, fixed=True)

now = page.variable("now", Real)
up = page.relation("up", Voter)
abstains = page.function("abstains", Voter, to=Real)  # until then it gives no vote
begun = page.relation("begun", Session)
alive = page.relation("alive", Session)  # the voter has it
heard = page.function("heard", Session, to=Real)  # when the voter handled its latest frame
lease = page.function("lease", Session, to=Real)  # until then the participant counts its votes
closed = page.relation("closed", Session)  # the participant has given it up [4.5, 4.8]
sent = page.relation("sent", Frame)
sent_at = page.function("sent_at", Frame, to=Real)
answered = page.relation("answered", Frame, Session)
given = page.relation("given", Tenure)  # ever
owner = page.relation("owner", Tenure)  # the voter has it on record
granting = page.relation("granting", Tenure)  # the Grant is under way
has = page.relation("has", Tenure)  # the participant counts it while its lease lasts [8.3]
returning = page.relation("returning", Tenure)  # Yield or Release is under way


def voter(y: Tenure) -> Voter:
    return at(by(y))


def counts(p: Participant, y: Tenure, v: Voter) -> Formula:
    return has(y) & (who(by(y)) == p) & (voter(y) == v) & (now < lease(by(y)))


def valid(p: Participant, k: Quorum) -> Formula:
    """A hold, alone or shared: all its votes were given for one request."""
    return every(Voter, lambda v: member(v, k) >> some(Tenure, lambda y: counts(p, y, v)))


def valid_alone(p: Participant, k: Quorum) -> Formula:
    def counts_alone(y: Tenure, v: Voter) -> Formula:
        return counts(p, y, v) & ~shared(y)

    return every(Voter, lambda v: member(v, k) >> some(Tenure, lambda y: counts_alone(y, v)))


def exclude(y: Tenure, z: Tenure) -> Formula:
    """Both are votes of one voter, and not both are shared."""
    return (voter(y) == voter(z)) & ~(shared(y) & shared(z))


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.axiom
def voters_are_as_patient_as_leases_last() -> Formula:
    return (span > 0) & (span <= patience)


@page.start
def no_vote_was_given(v: Voter, x: Session, y: Tenure, f: Frame) -> Formula:
    voters = up(v) & (abstains(v) <= now)
    votes = ~given(y) & ~owner(y) & ~granting(y) & ~has(y) & ~returning(y)
    return voters & ~begun(x) & ~alive(x) & ~closed(x) & votes & ~sent(f) & ~answered(f, x)


@page.action
def time_passes(d: Real) -> None:
    when(d > 0)
    become(now, now + d)


@page.action
def begin_session(x: Session, t: Real) -> None:
    """The voter takes the opening frame [4.1]; no lease runs yet."""
    when(up(at(x)), ~begun(x), t <= now)
    begun[x] = True
    alive[x] = True
    heard[x] = now
    lease[x] = t


@page.action
def send_frame(f: Frame) -> None:
    when(~sent(f))
    sent[f] = True
    sent_at[f] = now


@page.action
def handle_frame(f: Frame, x: Session) -> None:
    """The session is renewed, and the answer tells when the frame was sent [4.2, 4.3]."""
    when(sent(f), alive(x), sender(f) == who(x))
    heard[x] = now
    answered[f, x] = True


@page.action
def count_answer(f: Frame, x: Session, t: Real) -> None:
    """By a clock that is as slow as any, the lease lasts for all of the span."""
    when(answered(f, x), t <= sent_at(f) + span)
    lease[x] = later(lease(x), t)


@page.action
def grant(y: Tenure) -> None:
    when(~given(y), up(voter(y)), alive(by(y)), abstains(voter(y)) <= now)
    when(none(Tenure, lambda z: owner(z) & exclude(y, z)))
    given[y] = True
    owner[y] = True
    granting[y] = True


@page.action
def receive_grant(y: Tenure) -> None:
    when(granting(y), ~closed(by(y)))
    granting[y] = False
    has[y] = True


@page.action
def give_back(y: Tenure) -> None:
    """Yield or Release; a Grant that it crosses is ignored, by its number [5.6, 5.7]."""
    when(has(y) | granting(y))
    has[y] = False
    granting[y] = False
    returning[y] = True


@page.action
def take_back(y: Tenure) -> None:
    when(returning(y), alive(by(y)))
    returning[y] = False
    owner[y] = False


@page.action
def close_session(x: Session) -> None:
    """All was given back: Bye, or the session is forgotten and a newer one follows [4.8, 4.5]."""
    when(begun(x), ~closed(x), none(Tenure, lambda y: (by(y) == x) & has(y)))
    closed[x] = True


def drop(x: Session) -> None:
    alive[x] = False
    owner[each] = lambda y: owner(y) & (by(y) != x)


@page.action
def receive_end(x: Session) -> None:
    when(closed(x), alive(x))
    drop(x)


@page.action
def expire(x: Session) -> None:
    """[4.4]."""
    when(alive(x), heard(x) + patience <= now)
    drop(x)


@page.action
def crash(v: Voter) -> None:
    when(up(v))
    up[v] = False
    alive[each] = lambda x: alive(x) & (at(x) != v)
    owner[each] = lambda y: owner(y) & (voter(y) != v)


@page.action
def restart(v: Voter, t: Real) -> None:
    """[9]."""
    when(~up(v), now + patience <= t)
    up[v] = True
    abstains[v] = t


@page.action
def start_anew(v: Voter) -> None:
    """One with an empty disk has never given a vote, as it saves a bound before the first [9]."""
    when(~up(v), none(Tenure, lambda y: given(y) & (voter(y) == v)))
    up[v] = True


def comes_or_is_there(y: Tenure) -> Formula:
    return has(y) | (granting(y) & ~closed(by(y)))


def may_be_counted(y: Tenure) -> Formula:
    """By what the voter knows."""
    return comes_or_is_there(y) & (now < heard(by(y)) + span)


@page.safety
def mutual_exclusion(p: Participant, q: Participant, k: Quorum, m: Quorum) -> Formula:
    """17: one that is inside alone excludes all others; any number may share."""
    return (valid_alone(p, k) & valid(q, m)) >> (p == q)


@page.invariant
def answers_tell_of_the_past(f: Frame, x: Session) -> Formula:
    told = sent(f) & begun(x) & (sent_at(f) <= heard(x))
    return (sent(f) >> (sent_at(f) <= now)) & (answered(f, x) >> told)


@page.invariant
def a_lease_follows_what_was_heard(x: Session) -> Formula:
    return begun(x) >> ((heard(x) <= now) & (lease(x) <= heard(x) + span))


@page.invariant
def a_session_has_a_voter(x: Session) -> Formula:
    return alive(x) >> (up(at(x)) & begun(x))


@page.invariant
def votes_belong_to_sessions(y: Tenure) -> Formula:
    known = owner(y) | has(y) | granting(y) | returning(y)
    return (owner(y) >> alive(by(y))) & (known >> (given(y) & begun(by(y))))


@page.invariant
def an_owner_came_after_abstention(y: Tenure) -> Formula:
    return owner(y) >> (abstains(voter(y)) <= now)


@page.invariant
def one_owner(y: Tenure, z: Tenure) -> Formula:
    return (owner(y) & owner(z) & exclude(y, z)) >> (y == z)


@page.invariant
def a_vote_is_on_record_while_its_session_lives(y: Tenure) -> Formula:
    return (alive(by(y)) & comes_or_is_there(y)) >> owner(y)


@page.invariant
def a_vote_given_back_is_not_counted(y: Tenure) -> Formula:
    return (returning(y) >> (~has(y) & ~granting(y))) & (closed(by(y)) >> ~has(y))


@page.invariant
def lease_lemma(y: Tenure) -> Formula:
    """[11.2] A vote that may be counted is on record, or its voter is down or abstains for longer."""
    outlived = heard(by(y)) + span <= abstains(voter(y))
    return may_be_counted(y) >> (owner(y) | ~up(voter(y)) | outlived)


@page.invariant
def one_is_counted(y: Tenure, z: Tenure) -> Formula:
    both = may_be_counted(y) & may_be_counted(z)
    return (both & exclude(y, z)) >> (y == z)


from_arrival = page.flaw("lease-from-arrival")


@from_arrival.instead_of(count_answer)
def count_answer_from_its_arrival(f: Frame, x: Session, t: Real) -> None:
    when(answered(f, x), t <= now + span)
    lease[x] = later(lease(x), t)


at_once = page.flaw("votes-at-once-after-a-start")


@at_once.instead_of(grant)
def grant_without_abstaining(y: Tenure) -> None:
    when(~given(y), up(voter(y)), alive(by(y)))
    when(none(Tenure, lambda z: owner(z) & exclude(y, z)))
    given[y] = True
    owner[y] = True
    granting[y] = True


joining = page.flaw("shares-with-one-that-is-alone")


@joining.instead_of(grant)
def grant_to_any_that_shares(y: Tenure) -> None:
    when(~given(y), up(voter(y)), alive(by(y)), abstains(voter(y)) <= now)
    when(none(Tenure, lambda z: owner(z) & (voter(z) == voter(y)) & ~shared(y)))
    given[y] = True
    owner[y] = True
    granting[y] = True


kept = page.flaw("keeps-what-it-gives-back")


@kept.instead_of(give_back)
def give_back_and_keep(y: Tenure) -> None:
    when(has(y) | granting(y))
    has[y] = True
    granting[y] = False
    returning[y] = True


Named: TypeAlias = tuple[int, int, int, str]  # a session: participant, voter, number, nonce
Vote: TypeAlias = tuple[int, int, Named]  # a tenure: its voter, its number there, its session

LONG_AGO = Fraction(-1000)
TWO = 2  # voters: then no participant shares
SPAN = LEASE / (1 - RATE_ERROR)


def _state(now: Snapshot) -> State:
    past = {name: now.past.get(name, ()) for name in ("begun", "sent", "answered", "closed")}
    voters = [each for each in now.processes if each.voter is not None]
    asking = {each.me: each for each in now.processes if each.voter is None}
    links = {
        (_id(name), v.me, link.session.number, link.session.nonce): (v, link)
        for v in voters
        if v.me not in now.crashed
        for name, link in v.voter.sessions.items()
    }
    begun = {*past["begun"], *((x,) for x in links)}
    sent = {*past["sent"], *((f,) for f in _frames(now, asking))}
    echoes = {
        ((x[0], asking[x[0]].moment(link.echo)), x)
        for x, (_, link) in links.items()
        if link.echo > LONG_AGO
    }
    heard = {(x,): v.moment(link.heard) for x, (v, link) in links.items()}
    state: State = {
        "now": {(): now.moment},
        "up": {(v.me,) for v in voters if v.me not in now.crashed},
        "abstains": {(v.me,): _abstains(now, v) for v in voters},
        "begun": begun,
        "alive": {(x,) for x in links},
        "heard": {**now.past.get("heard", {}), **heard},
        "lease": {(x,): _lease(now, asking[x[0]], x) for (x,) in begun},
        "sent": sent,
        "sent_at": {(f,): f[1] for (f,) in sent},
        "answered": {*past["answered"], *echoes},
    }
    state |= _votes(now, voters, asking, state)
    with_votes = {y[2] for (y,) in state["has"]}
    over = {(x,) for (x,) in begun if x not in with_votes and _is_over(asking[x[0]], x)}
    state["closed"] = {*past["closed"], *over}
    for process in asking.values():
        _require_given(process, state)
        _require_valid(now, process, state)
    return state


def _id(name: str) -> int:
    return int(name.partition(".")[0])


def _frames(now: Snapshot, asking: dict[int, Watched]) -> Iterator[tuple[int, Fraction]]:
    """Name the signs of life on all links, by sender and moment."""
    for (p, _), messages in now.links.items():
        for frame in messages:
            if isinstance(frame, Data | Beat):
                yield p, asking[p].moment(frame.time)


def _abstains(now: Snapshot, v: Watched) -> Fraction:
    assert v.voter is not None
    if v.me not in now.crashed and v.voter.abstains():
        return v.moment(v.voter.abstains_until)
    earlier: Fraction = now.past.get("abstains", {}).get((v.me,), Fraction(0))
    return earlier


def _is_present(p: Watched, x: Named, *, or_opening: bool = False) -> bool:
    """Return whether the session is the one that its participant has with the voter."""
    uplink = p.participant.sessions.uplink(x[1])
    known = (uplink.nonce == x[3]) or (or_opening and uplink.nonce is None)
    return uplink.is_open and uplink.number == x[2] and known


def _is_over(p: Watched, x: Named) -> bool:
    """Return whether the participant takes nothing of this session any more."""
    return not _is_present(p, x, or_opening=True)


def _lease(now: Snapshot, p: Watched, x: Named) -> Fraction:
    lease = p.participant.sessions.lease(x[1])
    if _is_present(p, x) and lease > LONG_AGO:
        return p.moment(lease)
    earlier: Fraction = now.past.get("lease", {}).get((x,), LONG_AGO)
    return earlier


def _votes(
    now: Snapshot, voters: Sequence[Watched], asking: dict[int, Watched], state: State
) -> State:
    """Say of each vote where it is, by where it was in the state before."""
    past = {name: now.past.get(name, set()) for name in ("given", "owner", "has", "granting")}
    notes = {
        (v.me, k, (given.participant, v.me, given.opened_as, given.session)): given
        for v in voters
        for k, given in enumerate(v.given, 1)
    }
    up = {v.me: v for v in voters if v.me not in now.crashed}
    given = {(y,) for y in notes}
    owner = {(y,) for y in notes if y[0] in up and y[1] in up[y[0]].owners}
    may_count = past["has"] | past["granting"] | (given - past["given"])
    has: set[tuple[Vote]] = set()
    granting: set[tuple[Vote]] = set()
    for (y,) in sorted(may_count, reverse=True):  # of two votes, the later one is counted
        p = asking[y[2][0]]
        bid = p.participant.bids.get(LOCK)
        if bid is None or bid.number != notes[y].request:
            continue
        share = bid.share(y[0])
        is_open = LOCK in p.participant.sessions.uplink(y[0]).locks
        if _is_present(p, y[2]) and share.vote is not None:
            if not any(y[2] == z[2] for (z,) in has):
                has.add((y,))
        elif (y,) in past["has"] and share.frozen > LONG_AGO and not _is_present(p, y[2]):
            has.add((y,))
        elif (y,) not in past["has"] and is_open and not _is_over(p, y[2]):
            granting.add((y,))
    taken_back = {(y,) for (y,) in past["owner"] - owner if (y[2],) in state["alive"]}
    gone = may_count - has - granting
    returning = (now.past.get("returning", set()) | gone) - taken_back
    return {
        "given": given,
        "owner": owner,
        "granting": granting,
        "has": has,
        "returning": returning,
    }


def _require_given(p: Watched, state: State) -> None:
    """Raise if a participant has a vote that no voter has given it, or that it has given back."""
    bid = p.participant.bids.get(LOCK)
    counted = {y[0] for (y,) in state["has"] if y[2][0] == p.me}
    for share in bid.shares if bid is not None else ():
        if share.vote is not None and share.voter not in counted:
            raise UnmappedError(f"{p.me} has a vote of {share.voter} that is not its own")


def _require_valid(now: Snapshot, p: Watched, state: State) -> None:
    """Raise if a participant says that its hold is valid, and by the page it is not."""
    if not p.participant.valid(LOCK, p.reads(now.moment)):
        return
    counted = {
        y[0] for (y,) in state["has"] if y[2][0] == p.me and now.moment < state["lease"][y[2],]
    }
    if not p.participant.quorums.contains_quorum(counted):
        raise UnmappedError(f"{p.me} says that its hold is valid, with votes of {sorted(counted)}")


def _ways(before: State, after: State) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Name what may have happened between two states, at a participant or at a voter."""

    def come(name: str) -> list[tuple[Any, ...]]:
        return sorted(after[name] - before[name])

    def gone(name: str) -> list[tuple[Any, ...]]:
        return sorted(before[name] - after[name])

    def risen(name: str) -> list[tuple[Any, ...]]:
        return [key for key, t in after[name].items() if before[name].get(key) != t]

    if after["now"] != before["now"]:
        yield [("time_passes", (after["now"][()] - before["now"][()],))]
        return
    latest = {x: max(f for f, y in after["answered"] if y == x) for _, x in after["answered"]}
    new = set(come("given"))
    steps: list[tuple[str, tuple[Any, ...]]] = [("crash", key) for key in gone("up")]
    for key in come("up"):
        until = after["abstains"][key]
        abstains = until > after["now"][()]
        steps += [("restart", (*key, until)) if abstains else ("start_anew", key)]
    steps += [
        ("count_answer", (latest[x], x, after["lease"][x,]))
        for (x,) in risen("lease")
        if (x,) in before["begun"]
    ]
    steps += [("receive_grant", key) for key in come("has")]
    back = [key for key in come("returning") if key not in new]
    steps += [("give_back", key) for key in back]
    steps += [("close_session", key) for key in come("closed") if key in before["begun"]]
    steps += [("send_frame", key) for key in come("sent")]
    if not gone("up"):
        ends = ("receive_end" if key in before["closed"] else "expire" for key in gone("alive"))
        steps += [(end, key) for end, key in zip(ends, gone("alive"), strict=True)]
    steps += [("begin_session", (*key, after["lease"][key])) for key in come("begun")]
    handled = {x for (x,) in risen("heard")} | {x for _, x in come("answered")}
    steps += [("handle_frame", (latest[x], x)) for x in sorted(handled)]
    steps += [("take_back", key) for key in gone("owner") if (key[0][2],) in after["alive"]]
    steps += [("grant", key) for key in sorted(new)]
    # A vote for what its participant does not ask for any more, or in a session that it has given up.
    steps += [("give_back", key) for key in come("returning") if key in new]
    steps += [("close_session", key) for key in come("closed") if key not in before["begun"]]
    yield steps


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    match action:
        case "time_passes" | "give_back" | "close_session":
            return ANYWHERE
        case "crash" | "restart" | "start_anew" | "grant" | "take_back" | "send_frame":
            return int(args[0][0] if isinstance(args[0], tuple) else args[0])
        case "receive_grant":
            return int(args[0][2][0])
        case "count_answer":
            return int(args[1][0])
        case "handle_frame":
            return int(args[1][1])
        case _:
            return int(args[0][1])


LINK = Link(
    "leased",
    _state,
    sorts=(),
    things=things_of,
    fixed=lambda processes: {
        "member": lambda voter, quorum: voter in quorum,
        "who": lambda session: session[0],
        "at": lambda session: session[1],
        "by": lambda vote: vote[2],
        "shared": lambda vote: processes[vote[2][0] - 1].shares,
        "sender": lambda frame: frame[0],
        "span": lambda: SPAN,
        "patience": lambda: SPAN,
    },
    place=_place,
    lasting=("sent",),
    build=lambda trial, _: clocked(trial.size, *((2, 0) if trial.size == TWO else (1, 2))),
    asks=lambda process: process.voter is None,
    ways=_ways,
    walk=clocked_walk,
    variants=("all",),
    trials=(Trial(2, 3, runs=4, restarts=2), Trial(3, 3, runs=6, restarts=2)),
)
