"""The leased quorum lock while its voters are changed: exclusion over any number of changes.

Time enters as the lease lemma of `leased`: a vote that is counted is on record, or its voter
abstains. A configuration is a number with its quorums; two that are in use meet, or the lower one is
finished. That each number is decided once is shown by the page of Paxos, and taken for granted here.
Numbers in brackets are those of the rules of docs/protocol.

In the link a changer replaces a voter by a spare, while participants lock, voters crash and leases lapse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.quorum.leased.bid import State as BidState
from coterie.algorithms.mutex.quorum.leased.configuration import Rule
from coterie.algorithms.mutex.quorum.leased.frames import Ack, Grant, Reply
from coterie.algorithms.mutex.quorum.leased.process import LOCK
from coterie.lab.prove import Ordered, Page, Thing, each, every, none, some, when
from coterie.lab.prove.link import ANYWHERE, Link, Snapshot, Trial, UnmappedError
from coterie.lab.prove.worlds.leased import changed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.prove.plain import State, Things
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("leased-change", "for any sequence of configurations")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time."""


class Number(Ordered):
    """Of a configuration."""


class Quorum(Thing):
    """A set of voters, of one configuration."""


member = page.relation("member", Voter, Quorum, fixed=True)
of = page.function("of", Quorum, to=Number, fixed=True)

decided = page.relation("decided", Number)
finished = page.relation("finished", Number)  # voters in each of its quorums have reported so
own = page.function("own", Voter, to=Number)  # on its disk
closed = page.relation("closed", Voter, Number)  # it serves this one no more
reported = page.relation("reported", Voter, Number)
abstains = page.relation("abstains", Voter)
alive = page.relation("alive", Voter, Participant)  # the voter has a session
stated = page.function("stated", Voter, Participant, to=Number)  # the highest in that session
owner = page.relation("owner", Voter, Participant)
number = page.function("number", Participant, to=Number)  # by which it counts
counts = page.relation("counts", Participant, Voter)  # it has that vote, and its lease lasts


def meet(i: Number, j: Number) -> Formula:
    def met(k: Quorum, m: Quorum) -> Formula:
        return some(Voter, lambda v: member(v, k) & member(v, m))

    return every(Quorum, lambda k, m: ((of(k) == i) & (of(m) == j)) >> met(k, m))


def serves(v: Voter, i: Number) -> Formula:
    """[19.3] Its own number, and those below that it has not closed."""
    return (i <= own(v)) & ~closed(v, i)


def valid(p: Participant, k: Quorum) -> Formula:
    return (of(k) == number(p)) & every(Voter, lambda v: member(v, k) >> counts(p, v))


@page.axiom
def quorums_of_one_number_meet(k: Quorum, m: Quorum) -> Formula:
    return (of(k) == of(m)) >> some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def there_is_one_number(i: Number, j: Number) -> Formula:
    return ((decided(i) & decided(j)) >> (i == j)) & ~finished(i)


@page.start
def all_have_it_and_no_vote_was_given(v: Voter, p: Participant, i: Number) -> Formula:
    voters = decided(own(v)) & ~closed(v, i) & ~reported(v, i) & ~abstains(v)
    return voters & decided(number(p)) & ~alive(v, p) & ~owner(v, p) & ~counts(p, v)


@page.action
def decide(j: Number) -> None:
    """[19.8] The next one meets all that are not finished."""
    when(every(Number, lambda i: decided(i) >> (i < j)))
    when(every(Number, lambda i: decided(i) >> (finished(i) | meet(i, j))))
    decided[j] = True


@page.action
def adopt(v: Voter, j: Number) -> None:
    when(decided(j), own(v) < j)
    own[v] = j


@page.action
def close(v: Voter, i: Number) -> None:
    """[19.6] Serve this number, and all below it, no more."""
    when(i < own(v))
    closed[v, each] = lambda n: closed(v, n) | (n <= i)


@page.action
def report(v: Voter, i: Number) -> None:
    when(closed(v, i), ~abstains(v), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True


@page.action
def finish(i: Number) -> None:
    when(
        every(
            Quorum, lambda k: (of(k) == i) >> some(Voter, lambda v: member(v, k) & reported(v, i))
        )
    )
    finished[i] = True


@page.action
def begin_session(v: Voter, p: Participant, n: Number) -> None:
    """A frame states the number by which its participant counted when it sent it."""
    when(~alive(v, p), n <= number(p), serves(v, n))
    alive[v, p] = True
    stated[v, p] = n


@page.action
def handle_frame(v: Voter, p: Participant, n: Number) -> None:
    when(alive(v, p), stated(v, p) < n, n <= number(p), serves(v, n))
    stated[v, p] = n


@page.action
def vote(v: Voter, p: Participant) -> None:
    when(
        alive(v, p), ~abstains(v), serves(v, stated(v, p)), none(Participant, lambda q: owner(v, q))
    )
    owner[v, p] = True
    counts[p, v] = True


@page.action
def move(p: Participant, j: Number) -> None:
    """[19.4] Up; its votes count by the new number from then on."""
    when(decided(j), number(p) < j)
    number[p] = j


@page.action
def lapse(p: Participant, v: Voter) -> None:
    """The lease is over, or the vote is given back."""
    when(counts(p, v))
    counts[p, v] = False


@page.action
def take_back(v: Voter, p: Participant) -> None:
    when(owner(v, p), ~counts(p, v))
    owner[v, p] = False


@page.action
def drop(v: Voter, p: Participant) -> None:
    """The session expires: by the lease lemma nothing in it is counted any more."""
    when(alive(v, p), ~counts(p, v))
    alive[v, p] = False
    owner[v, p] = False


@page.action
def crash(v: Voter) -> None:
    """It comes back without sessions, serves its own number only, and abstains [9, 19.2]."""
    alive[v, each] = lambda p: False
    owner[v, each] = lambda p: False
    abstains[v] = True
    closed[v, each] = lambda i: i < own(v)


@page.action
def end_abstention(v: Voter) -> None:
    """By the lease lemma."""
    when(abstains(v), none(Participant, lambda p: counts(p, v)))
    abstains[v] = False


@page.theorem
def mutual_exclusion(p: Participant, q: Participant, k: Quorum, m: Quorum) -> Formula:
    return (valid(p, k) & valid(q, m)) >> (p == q)


@page.invariant
def lease_lemma(p: Participant, v: Voter) -> Formula:
    return counts(p, v) >> ((alive(v, p) & owner(v, p)) | abstains(v))


@page.invariant
def one_is_counted(p: Participant, q: Participant, v: Voter) -> Formula:
    return (counts(p, v) & counts(q, v)) >> (p == q)


@page.invariant
def numbers_were_decided(v: Voter, p: Participant) -> Formula:
    return decided(own(v)) & decided(number(p)) & (alive(v, p) >> (stated(v, p) <= number(p)))


@page.invariant
def what_is_closed_stays_closed(v: Voter, i: Number, j: Number) -> Formula:
    below = (closed(v, i) & (j <= i)) >> closed(v, j)
    return below & (reported(v, i) >> closed(v, i)) & (closed(v, i) >> (i < own(v)))


@page.invariant
def what_is_reported_is_counted_no_more(v: Voter, p: Participant, i: Number) -> Formula:
    sessions = alive(v, p) >> (i < stated(v, p))
    return reported(v, i) >> (sessions & (counts(p, v) >> (i < number(p))))


@page.invariant
def finished_by_reports(i: Number, k: Quorum) -> Formula:
    reports = some(Voter, lambda v: member(v, k) & reported(v, i))
    return (finished(i) & (of(k) == i)) >> reports


@page.invariant
def numbers_in_use_meet(i: Number, j: Number) -> Formula:
    """[J4]."""
    return (decided(i) & decided(j) & (i < j)) >> (finished(i) | meet(i, j))


at_once = page.flaw("no-joint-step")


@at_once.instead_of(decide)
def decide_by_the_last_alone(j: Number) -> None:
    """The next one meets the one before it; others may still be in use."""

    def last(i: Number) -> Formula:
        return decided(i) & every(Number, lambda n: decided(n) >> (n <= i))

    when(every(Number, lambda i: decided(i) >> (i < j)))
    when(every(Number, lambda i: last(i) >> meet(i, j)))
    decided[j] = True


serving = page.flaw("reports-while-it-serves")


@serving.instead_of(report)
def report_what_is_served(v: Voter, i: Number) -> None:
    when(i < own(v), ~abstains(v), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True


abstaining = page.flaw("reports-while-it-abstains")


@abstaining.instead_of(report)
def report_without_waiting(v: Voter, i: Number) -> None:
    when(closed(v, i), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True


def _state(now: Snapshot) -> State:
    voters = {process.me: process for process in now.processes if process.voter is not None}
    asking = {process.me: process for process in now.processes if process.voters}
    (changer,) = (process.changer for process in now.processes if process.changer is not None)
    sessions = {
        (v, int(name.partition(".")[0])): link.number
        for v, process in voters.items()
        for name, link in process.voter.sessions.items()
    }
    known = [process.voter.configuration for process in voters.values()]
    known += [
        each for p in asking.values() for each in (p.participant.configuration, p.participant.next)
    ]
    known = [each for each in (*known, changer.configuration) if each is not None]
    for configuration in known:
        if configuration.rule not in _rules(now.processes):
            raise UnmappedError(f"a rule that no step leads to: {configuration}")
    decided = {(each.number,) for each in known} | now.past.get("decided", set())
    finished = {
        (i,) for (i,) in decided for each in known if i < each.number and each.rule_of(i) is None
    }
    return {
        "decided": decided,
        "finished": finished,
        # A spare has adopted nothing, and does less than it might.
        "own": {(v,): max(1, process.voter.number) for v, process in voters.items()},
        "closed": {
            (v, i) for v, process in voters.items() for i in NUMBERS if i <= process.voter.closed
        },
        "reported": {(v, i) for v, process in voters.items() for i in process.reported},
        "abstains": {(v,) for v, process in voters.items() if process.voter.abstains()},
        "alive": set(sessions),
        "stated": sessions,
        "owner": {
            (v, int(owner.claim.participant.partition(".")[0]))
            for v, process in voters.items()
            if LOCK in process.voter.ballots
            for owner in process.voter.ballots[LOCK].owners
        },
        "number": {(p,): process.participant.configuration.number for p, process in asking.items()},
        "counts": {
            (p, v)
            for p, process in asking.items()
            for v in voters
            if _counts(now, process, voters[v])
        },
    }


def _counts(now: Snapshot, process: Any, voter: Any) -> bool:
    """Return whether a participant counts a vote, or will when what is under way has come."""
    sessions, bid = process.participant.sessions, process.participant.bids.get(LOCK)
    if bid is None or voter.me not in sessions.voters:
        return False
    uplink, share = sessions.uplink(voter.me), bid.share(voter.me)
    if bid.state is BidState.HELD and share.frozen > process.time:
        return True
    coming = [
        frame
        for frame in now.links.get((voter.me, process.me), ())
        if isinstance(frame, Reply | Ack) and frame.session.number == uplink.number
    ]
    granted = any(
        isinstance(body, Grant) and body.number == bid.number
        for frame in coming
        if isinstance(frame, Reply) and frame.seq > uplink.delivered and LOCK in uplink.locks
        for body in frame.bodies
    )
    if not uplink.is_open or not (granted or share.vote is not None):
        return False
    link = voter.voter.sessions.get(sessions.name)
    if link is not None and link.session.nonce in (
        uplink.nonce,
        *(f.session.nonce for f in coming),
    ):
        return True  # the next answer renews the lease
    lease = sessions.settings.lease
    return bool(max([uplink.lease, *(frame.echo + lease for frame in coming)]) > process.time)


NUMBERS = (
    1,
    2,
    3,
)  # the old voters, the old and the new ones, the new ones; or the new ones at once


def _rules(processes: Sequence[Any]) -> list[Rule]:
    """List the rules that the changer goes through."""
    (changer,) = (process.changer for process in processes if process.changer is not None)
    old, part = processes[0].origin.rule, changer.goal.part
    following = Rule(2, (part,))
    if following.meets(old):
        return [old, following]
    return [old, Rule(2, (*old.parts, part)), Rule(3, (part,))]


def _things(processes: Sequence[Any]) -> Things:
    return {
        "Voter": [process.me for process in processes if process.voter is not None],
        "Participant": [process.me for process in processes if process.voters],
        "Number": NUMBERS,
        "Quorum": [
            (rule.number, tuple(sorted(quorum)))
            for rule in _rules(processes)
            for quorum in rule.quorums.quorums
        ],
    }


def _ways(before: State, after: State) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Name what may have happened between two states; a crash of a voter is tried last."""

    def come(name: str) -> list[tuple[Any, ...]]:
        return sorted(after[name] - before[name])

    def gone(name: str) -> list[tuple[Any, ...]]:
        return sorted(before[name] - after[name])

    def risen(name: str) -> list[tuple[Any, ...]]:
        return [(*key, n) for key, n in after[name].items() if before[name].get(key, n) != n]

    news = [("finish", key) for key in come("finished")]
    news += [("decide", key) for key in come("decided")]
    news += [("adopt", key) for key in risen("own")]
    news += [("lapse", key) for key in gone("counts")]
    heard = [("begin_session", (*key, after["stated"][key])) for key in come("alive")]
    heard += [("handle_frame", key) for key in risen("stated")]
    again = [(v, p) for p, v in come("counts") if (v, p) in before["owner"] & after["owner"]]
    votes = [("vote", key) for key in (*come("owner"), *again)] + [
        ("move", key) for key in risen("number")
    ]
    # A Grant that its participant won't count: its session there, or its request, is over.
    votes += [("lapse", (p, v)) for v, p in come("owner") if (p, v) not in after["counts"]]
    closed = [
        ("close", (v, max(i for w, i in come("closed") if w == v))) for v, _ in come("closed")
    ]
    reports = [("report", key) for key in come("reported")]
    over = [("take_back", key) for key in (*gone("owner"), *again) if key in after["alive"]]
    over += [("drop", key) for key in gone("alive")]
    rest = [("end_abstention", key) for key in gone("abstains")]
    for order in ([*over, *heard], [*heard, *over]):
        yield [*news, *order, *rest, *votes, *dict.fromkeys(closed), *reports]
    for key in sorted(after["own"]):
        yield [*news, ("crash", key)]


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    return ANYWHERE if action in ("decide", "finish", "lapse") else int(args[0])


LINK = Link(
    "leased",
    _state,
    sorts=(),
    things=_things,
    fixed=lambda processes: {
        "member": lambda voter, quorum: voter in quorum[1],
        "of": lambda quorum: quorum[0],
    },
    place=_place,
    lasting=("finished",),
    build=lambda trial, _: changed(trial.size, 2, trial.restarts),
    asks=lambda process: bool(process.voters),
    ways=_ways,
    variants=("all",),
    trials=(
        Trial(2, 1, runs=10),
        Trial(3, 1, runs=16, restarts=2),
    ),
)
