"""Agreement on one value by majorities (Paxos: Lamport, 1998): neither a mutex nor an election.

So the class says what its user may call, and what it is judged by. Below it stands a proof for any
number of processes, with the link that holds the class against it.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from coterie.clocks import LogicalTime, Stamp
from coterie.lab.explore import Always, Exercised, Sometimes, Together, at_least
from coterie.lab.prove import Ordered, Page, Thing, every, none, some, when
from coterie.lab.prove.link import Link, Snapshot, Trial
from coterie.process import Event, Outbox, Payload, Process, ProcessId

if TYPE_CHECKING:
    from coterie.lab.prove import Formula


class Vote(NamedTuple):
    """A value, accepted in an attempt."""

    attempt: Stamp
    value: int

    def __str__(self) -> str:
        """Write it as `2 in 1.3`."""
        return f"{self.value} in {self.attempt}"


class Prepare(Payload, frozen=True):
    """Take no part in older attempts any more."""

    attempt: Stamp


class Promise(Payload, frozen=True):
    """I will not. This is my latest vote."""

    attempt: Stamp
    latest: Vote | None


class Accept(Payload, frozen=True):
    """Vote for this."""

    vote: Vote


class Accepted(Payload, frozen=True):
    """I have."""

    vote: Vote


class Chosen(Event, frozen=True):
    """A majority has voted for this value."""

    value: int


Message: TypeAlias = Prepare | Promise | Accept | Accepted


def knows_the_choice(seat: Any) -> bool:
    """Return whether this process knows what was chosen."""
    return seat.process.chosen is not None


def gave_way(seat: Any) -> bool:
    """Return whether it proposes the value of another."""
    return seat.process.proposal not in {None, seat.process.me}


def agree(seats: Any) -> bool:
    """Return whether all that know the choice know the same."""
    return len({seat.process.chosen for seat in seats if seat and knows_the_choice(seat)}) <= 1


class Paxos(Process[Message]):
    """A process that proposes its own number, and votes for what others propose."""

    inputs: ClassVar[tuple[str, ...]] = ("propose",)
    properties: ClassVar[tuple[Any, ...]] = (
        Always("agreement", (Together(agree),), "two values were chosen"),
        Exercised("a choice", (at_least(1, knows_the_choice),), "no value is ever chosen"),
        Sometimes("one gives way", (at_least(1, gave_way),)),
    )

    size: int
    highest: LogicalTime = 0  # of all attempts seen
    attempt: Stamp | None = None  # our own latest
    promises: set[tuple[ProcessId, Vote | None]] = set()  # for it
    proposal: int | None = None  # in it
    votes: set[ProcessId] = set()  # for the proposal
    chosen: int | None = None
    promised: Stamp | None = None  # we take no part in older attempts
    latest: Vote | None = None  # our own

    def propose(self, out: Outbox[Message]) -> None:
        """Begin an attempt, later than all that were seen."""
        self.highest += 1
        self.attempt, self.proposal = Stamp(self.highest, self.me), None
        self.promises, self.votes = set(), set()
        out.broadcast(range(1, self.size + 1), Prepare(self.attempt))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Propose or vote."""
        match message:
            case Prepare(attempt):
                if self.promised is None or self.promised < attempt:
                    self._take_part(attempt)
                    out.send(sender, Promise(attempt, self.latest))
            case Promise(attempt, latest):
                if attempt == self.attempt and self.proposal is None:
                    self.promises.add((sender, latest))
                    self._propose_if_promised(out)
            case Accept(vote):
                if self.promised is None or self.promised <= vote.attempt:
                    self._take_part(vote.attempt)
                    self.latest = vote
                    out.send(sender, Accepted(vote))
            case Accepted(vote):
                if vote.attempt == self.attempt and self.chosen is None:
                    self.votes.add(sender)
                    self._choose_if_accepted(out)

    def _take_part(self, attempt: Stamp) -> None:
        self.promised = attempt
        self.highest = max(self.highest, attempt.time)

    def _propose_if_promised(self, out: Outbox[Message]) -> None:
        """Propose what may have been chosen: the latest vote of a majority; without any, our own value."""
        if 2 * len(self.promises) > self.size:
            votes = [latest for _, latest in self.promises if latest is not None]
            self.proposal = max(votes).value if votes else self.me
            assert self.attempt is not None
            vote = Vote(self.attempt, self.proposal)
            out.broadcast(range(1, self.size + 1), Accept(vote))

    def _choose_if_accepted(self, out: Outbox[Message]) -> None:
        if 2 * len(self.votes) > self.size:
            assert self.proposal is not None
            self.chosen = self.proposal
            out.tell(Chosen(self.chosen))


# The proof: for any number of voters, and any quorums that meet.

PAGE = page = Page("paxos", "for every N and any quorums")


class Voter(Thing):
    """Any process."""


class Quorum(Thing):
    """A set of voters, such as a majority."""


class Attempt(Ordered):
    """To have a value chosen."""


class Value(Thing):
    """What may be chosen."""


member = page.relation("member", Voter, Quorum, fixed=True)
promised = page.function("promised", Voter, to=Attempt)  # it takes no part in older ones
joined = page.relation("joined", Voter, Attempt)  # by a promise, which told of …
nothing = page.relation("nothing", Voter, Attempt)  # … no vote, or of …
told = page.relation("told", Voter, Attempt, Attempt, Value)  # … this vote
proposed = page.relation("proposed", Attempt, Value)
voted = page.relation("voted", Voter, Attempt, Value)


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def nobody_has_voted(v: Voter, r: Attempt, s: Attempt, x: Value) -> Formula:
    promises = joined(v, r) | nothing(v, r) | told(v, r, s, x)
    return ~promises & ~proposed(r, x) & ~voted(v, r, x) & (promised(v) <= r)


@page.action
def promise_and_tell_of_nothing(v: Voter, r: Attempt) -> None:
    when(promised(v) < r, none(Attempt, Value, lambda s, x: voted(v, s, x)))
    promised[v] = r
    joined[v, r] = True
    nothing[v, r] = True


@page.action
def promise_and_tell(v: Voter, r: Attempt, s: Attempt, x: Value) -> None:
    when(promised(v) < r, voted(v, s, x))
    when(every(Attempt, Value, lambda t, y: voted(v, t, y) >> (t <= s)))
    promised[v] = r
    joined[v, r] = True
    told[v, r, s, x] = True


def promised_by(r: Attempt, k: Quorum) -> Formula:
    unproposed = none(Value, lambda y: proposed(r, y))
    return unproposed & every(Voter, lambda v: member(v, k) >> joined(v, r))


@page.action
def propose_anything(r: Attempt, k: Quorum, x: Value) -> None:
    when(promised_by(r, k), every(Voter, lambda v: member(v, k) >> nothing(v, r)))
    proposed[r, x] = True


@page.action
def propose_the_latest(r: Attempt, k: Quorum, u: Voter, s: Attempt, x: Value) -> None:
    when(promised_by(r, k), member(u, k), told(u, r, s, x))
    when(
        every(Voter, Attempt, Value, lambda v, t, y: (member(v, k) & told(v, r, t, y)) >> (t <= s))
    )
    proposed[r, x] = True


@page.action
def vote(v: Voter, r: Attempt, x: Value) -> None:
    when(proposed(r, x), promised(v) <= r)
    voted[v, r, x] = True
    promised[v] = r


def chosen(r: Attempt, x: Value) -> Formula:
    return some(Quorum, lambda k: every(Voter, lambda v: member(v, k) >> voted(v, r, x)))


@page.invariant
def one_proposal(r: Attempt, x: Value, y: Value) -> Formula:
    return (proposed(r, x) & proposed(r, y)) >> (x == y)


@page.invariant
def votes_are_for_proposals(v: Voter, r: Attempt, x: Value) -> Formula:
    return voted(v, r, x) >> (proposed(r, x) & (r <= promised(v)))


@page.invariant
def promises_bind(v: Voter, r: Attempt, s: Attempt, x: Value) -> Formula:
    return (joined(v, r) >> (r <= promised(v))) & (told(v, r, s, x) >> joined(v, r))


@page.invariant
def a_promise_tells(v: Voter, r: Attempt) -> Formula:
    return joined(v, r) >> (nothing(v, r) | some(Attempt, Value, lambda s, x: told(v, r, s, x)))


@page.invariant
def nothing_is_true(v: Voter, r: Attempt, s: Attempt, x: Value) -> Formula:
    return nothing(v, r) >> (joined(v, r) & ((s < r) >> ~voted(v, s, x)))


@page.invariant
def the_latest_is_told(v: Voter, r: Attempt, s: Attempt, x: Value) -> Formula:
    later = some(Attempt, Value, lambda t, y: (s < t) & (t < r) & voted(v, t, y))
    return told(v, r, s, x) >> ((s < r) & voted(v, s, x) & ~later)


@page.invariant
def older_attempts_choose_nothing_else(
    r: Attempt, s: Attempt, x: Value, y: Value, k: Quorum
) -> Formula:
    """Some member of each quorum has left the older attempt without a vote for another value."""
    left = some(Voter, lambda v: member(v, k) & (r < promised(v)) & ~voted(v, r, x))
    return (proposed(s, y) & (r < s) & (x != y)) >> left


@page.theorem
def agreement(r: Attempt, s: Attempt, x: Value, y: Value) -> Formula:
    return (chosen(r, x) & chosen(s, y)) >> (x == y)


eager = page.flaw("proposes-its-own-value")


@eager.instead_of(propose_anything)
def propose_one_s_own(r: Attempt, k: Quorum, x: Value) -> None:
    when(promised_by(r, k))
    proposed[r, x] = True


# The link: fields and messages of the class, as the page has them. Messages that have arrived, and
# fields of older attempts, are remembered, as promises and votes last.

NEVER = Stamp(0, 0)  # older than any attempt


def _state(now: Snapshot) -> dict[str, Any]:
    processes = now.processes
    promises = {(v, p.attempt, latest) for p in processes for v, latest in p.promises}
    promises |= {(m.sender, m.message.attempt, m.message.latest) for m in now.sent("Promise")}
    votes = {(p.me, *p.latest) for p in processes if p.latest is not None}
    return {
        "promised": {(p.me,): p.promised or NEVER for p in processes},
        "joined": {(v, r) for v, r, _ in promises},
        "nothing": {(v, r) for v, r, latest in promises if latest is None},
        "told": {(v, r, *latest) for v, r, latest in promises if latest is not None},
        "proposed": {(p.attempt, p.proposal) for p in processes if p.proposal is not None},
        "voted": votes,
    }


def _majorities(processes: Any) -> list[frozenset[int]]:
    ids = [process.me for process in processes]
    return [frozenset(chosen) for chosen in combinations(ids, len(ids) // 2 + 1)]


def _place(_: str, args: tuple[Any, ...], __: Any) -> ProcessId:
    first = args[0]  # a voter; or an attempt, of the process that made it
    return first.process if isinstance(first, Stamp) else first


LINK = Link(
    "paxos",
    _state,
    sorts=("Voter",),
    things=lambda processes: {"Quorum": _majorities(processes)},
    fixed=lambda processes: {"member": lambda v, k: v in k},
    place=_place,
    lasting=("joined", "nothing", "told", "proposed", "voted"),
    longest=4,
    trials=(Trial(2, 1), Trial(3, 2, runs=8), Trial(5, 1, runs=2)),
)
