"""All commit, or all abort (two-phase commit: Gray, 1978), of one transaction that changes data at all sites.

Process 1 coordinates, and its patience may end at any moment; a site may abort by itself until it has
voted. No site crashes: what has to be on a disk is said by the page of the package, `coterie prove
two-phase-commit`. Below the class stands a proof for any number of sites, with the link that holds the
class against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from coterie.lab.explore import Always, Eventually, Exercised, Sometimes, Together, at_least
from coterie.lab.prove import Formula, Page, Thing, become, every, when
from coterie.lab.prove.link import Link, Snapshot, Trial
from coterie.process import Event, Outbox, Payload, Process, ProcessId

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = "patience"
COORDINATOR = 1


class Prepare(Payload, frozen=True):
    """Can you commit?"""


class Vote(Payload, frozen=True):
    """I can, and I won't abort it by myself any more; or I have aborted."""

    yes: bool


class Decision(Payload, frozen=True):
    """All commit, or all abort."""

    commit: bool


class Ended(Event, frozen=True):
    """The transaction is over here."""

    committed: bool


Message: TypeAlias = Prepare | Vote | Decision


def committed(seat: Any) -> bool:
    """Return whether this site has committed."""
    return seat.process.outcome is True


def aborted(seat: Any) -> bool:
    """Return whether this site has aborted."""
    return seat.process.outcome is False


def agree(seats: Any) -> bool:
    """Return whether no site has committed where another one has aborted."""
    return len({seat.process.outcome for seat in seats if seat} - {None}) <= 1


def has_an_outcome_if_it_voted(seat: Any) -> bool:
    """Return whether this site is not in doubt."""
    return not seat.process.voted or seat.process.outcome is not None


class TwoPhaseCommit(Process[Message]):
    """A site; the first one coordinates as well."""

    inputs: ClassVar[tuple[str, ...]] = ("commit", "refuse")
    properties: ClassVar[tuple[Any, ...]] = (
        Always("atomicity", (Together(agree),), "one site commits, and another one aborts"),
        Eventually("an outcome", has_an_outcome_if_it_voted, "a site stays in doubt"),
        Exercised("a commit", (at_least(1, committed),), "no transaction is ever committed"),
        Sometimes("an abort", (at_least(1, aborted),)),
    )

    size: int
    voted: bool = False  # that it can commit
    outcome: bool | None = None  # here: True is committed
    asked: bool = False  # the coordinator alone, as are the next two
    yes: set[ProcessId] = set()
    decision: bool | None = None

    def commit(self, out: Outbox[Message]) -> None:
        """Ask all sites for their votes, if this is the coordinator."""
        if self.me == COORDINATOR and not self.asked:
            self.asked = True
            out.set_timer(PATIENCE, 10)
            out.broadcast(range(1, self.size + 1), Prepare())

    def refuse(self, out: Outbox[Message]) -> None:
        """Abort by itself, which a site may do until it has voted."""
        if not self.voted:
            self._end(False, out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Vote, decide, or obey."""
        match message:
            case Prepare():
                self.voted = self.outcome is None
                out.send(sender, Vote(self.voted))
            case Vote(True):
                self.yes.add(sender)
                if len(self.yes) == self.size:
                    self._decide(True, out)
            case Vote():
                self._decide(False, out)
            case Decision(commit):
                self._end(commit, out)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Abort if votes are missing."""
        self._decide(False, out)

    def _decide(self, commit: bool, out: Outbox[Message]) -> None:
        if self.decision is None:
            self.decision = commit
            out.cancel_timer(PATIENCE)
            out.broadcast(range(1, self.size + 1), Decision(commit))

    def _end(self, commit: bool, out: Outbox[Message]) -> None:
        if self.outcome is None:
            self.outcome = commit
            out.tell(Ended(commit))


# The proof: for any number of sites.

PAGE = page = Page("two-phase-commit, one transaction", "for every N")


class Site(Thing):
    """One that holds data."""


voted = page.relation("voted", Site)
heard = page.relation("heard", Site)  # its vote, by the coordinator
decided = page.variable("decided", Formula)  # to commit
given_up = page.variable("given_up", Formula)  # decided to abort
has_committed = page.relation("has_committed", Site)
has_aborted = page.relation("has_aborted", Site)


@page.start
def nothing_has_happened(s: Site) -> Formula:
    at_sites = voted(s) | heard(s) | has_committed(s) | has_aborted(s)
    return ~at_sites & ~decided & ~given_up


@page.action
def vote(s: Site) -> None:
    when(~has_aborted(s))
    voted[s] = True


@page.action
def abort_alone(s: Site) -> None:
    when(~voted(s))
    has_aborted[s] = True


@page.action
def hear(s: Site) -> None:
    when(voted(s))
    heard[s] = True


@page.action
def decide() -> None:
    when(~given_up, every(Site, heard))
    become(decided, True)


@page.action
def give_up() -> None:
    when(~decided)
    become(given_up, True)


@page.action
def commit(s: Site) -> None:
    when(decided)
    has_committed[s] = True


@page.action
def abort(s: Site) -> None:
    when(given_up)
    has_aborted[s] = True


@page.safety
def atomicity(s: Site, u: Site) -> Formula:
    return ~(has_committed(s) & has_aborted(u))


@page.invariant
def one_decision() -> Formula:
    return ~(decided & given_up)


@page.invariant
def only_votes_are_heard(s: Site) -> Formula:
    return heard(s) >> voted(s)


@page.invariant
def decided_by_all(s: Site) -> Formula:
    return decided >> voted(s)


@page.invariant
def committed_by_decision(s: Site) -> Formula:
    return has_committed(s) >> decided


@page.invariant
def a_vote_binds(s: Site) -> Formula:
    return (voted(s) & has_aborted(s)) >> given_up


hasty = page.flaw("decides-by-one-vote")


@hasty.instead_of(decide)
def decide_by_one_vote(s: Site) -> None:
    when(~given_up, heard(s))
    become(decided, True)


impatient = page.flaw("aborts-in-doubt")


@impatient.instead_of(abort_alone)
def abort_after_the_vote(s: Site) -> None:
    when(~has_committed(s))
    has_aborted[s] = True


# The link: what is under way needs no place on the page, as a vote is where its site remembers it.


def _state(now: Snapshot) -> dict[str, Any]:
    processes = now.processes
    coordinator = processes[COORDINATOR - 1]
    return {
        "voted": {(p.me,) for p in processes if p.voted},
        "heard": {(s,) for s in coordinator.yes},
        "decided": {()} if coordinator.decision is True else set(),
        "given_up": {()} if coordinator.decision is False else set(),
        "has_committed": {(p.me,) for p in processes if p.outcome is True},
        "has_aborted": {(p.me,) for p in processes if p.outcome is False},
    }


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> ProcessId:
    return COORDINATOR if action in {"hear", "decide", "give_up"} else int(args[0])


LINK = Link(
    "two-phase-commit",
    _state,
    sorts=("Site",),
    place=_place,
    longest=4,
    trials=(Trial(2, 2), Trial(3, 1), Trial(5, 1, runs=10)),
)
