"""The numbers of the leased lock's ballots and voters are those of the page `leased-tokens`, for all integers.

`Ballot.elect` gives out the interval of the steps *grant* and *repair*, `Ballot.take_back` leaves the floor
of the step *take back*, and with all of an interval used that of *expire*. What a voter hands out or lifts is
covered by the bound that it saves in the same step, as the steps *save* and *lift* have it. Sessions, how a
bound is written to the disk, and queues of more than one request are not looked at.
"""

from __future__ import annotations

from functools import partial
from types import new_class
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.algorithms.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.prove.solver import z3
from coterie.lab.prove.symbolic import AnyInteger, Followed, Paths, term_of
from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FLOOR, STAMP, LENGTH, LOW, HIGH, USED = z3.Ints("floor stamp length low high used")
BOUND, CLOCK, TOKEN, RESERVE = z3.Ints("bound clock token reserve")


class Question(NamedTuple):
    """What a method does, in any state of which something is given, and what has to hold then."""

    name: str
    given: Sequence[Any]
    run: Callable[[Paths, type[Any]], tuple[Any, ...]]  # the ballot or the voter, and the tenure
    claim: Callable[..., Any]


def _elect(hold: int) -> Callable[[Paths, type[Any]], tuple[Any, Any]]:
    def run(paths: Paths, kind: type[Any]) -> tuple[Any, Any]:
        stamp: Any = AnyInteger(paths, STAMP)
        ballot = kind(AnyInteger(paths, FLOOR), [], [Claim("p", 1, 1, stamp, hold)])
        return ballot, ballot.elect(AnyInteger(paths, LENGTH))

    return run


def _take_back(paths: Paths, kind: type[Any]) -> tuple[Any, Any]:
    low, high, used = (AnyInteger(paths, term) for term in (LOW, HIGH, USED))
    tenure: Any = Tenure(Claim("p", 1, 1, 1, 0), low, high)  # type: ignore[arg-type]
    ballot = kind(AnyInteger(paths, FLOOR), [tenure])
    ballot.take_back(tenure, used)
    return ballot, tenure


def _is_granted(ballot: Any, tenure: Any) -> Any:
    """Say what *grant* demands, and that nothing but the interval has changed."""
    low, high = term_of(tenure.low), term_of(tenure.high)
    interval = z3.And(low > FLOOR, low <= high, low >= STAMP, high == low + LENGTH - 1)
    return z3.And(interval, term_of(ballot.floor) == FLOOR, ballot.owners == [tenure])


def _is_repaired(ballot: Any, tenure: Any) -> Any:
    alone = z3.And(term_of(tenure.low) == STAMP, term_of(tenure.high) == STAMP)
    return z3.And(alone, term_of(ballot.floor) == FLOOR, ballot.owners == [tenure])


def _is_taken_back(ballot: Any, _: Any) -> Any:
    used = z3.If(USED < HIGH, USED, HIGH)
    floor = z3.If(used > FLOOR, used, FLOOR)
    return z3.And(term_of(ballot.floor) == floor, ballot.owners == [])


def _note_bounds(names: dict[str, Any]) -> None:
    """Let a class of voters save the bound alone, as it is: it may be any number."""

    def save(voter: Any, out: Outbox[Any]) -> None:
        out.to_save = voter.bound

    names["_save"] = save


def _voter(paths: Paths, kind: type[Any]) -> tuple[Any, Any, Outbox[Any]]:
    """Make a voter that notes which bound it saves, and a tenure of its."""
    low, high, length, reserve = (AnyInteger(paths, t) for t in (LOW, HIGH, LENGTH, RESERVE))
    settings = Settings(3, interval=length, reserve=reserve)  # type: ignore[arg-type]
    noting: type[Any] = new_class("Noting", (kind,), exec_body=_note_bounds)
    voter = noting(founding(settings), AnyInteger(paths, CLOCK), AnyInteger(paths, BOUND))
    tenure: Any = Tenure(Claim("p", 1, 1, 1, 0), low, high)  # type: ignore[arg-type]
    return voter, tenure, Outbox(1)


def _cover(paths: Paths, kind: type[Any]) -> tuple[Any, ...]:
    voter, tenure, out = _voter(paths, kind)
    voter._cover(tenure, out)  # noqa: SLF001 - the rule itself
    return voter, tenure, out


def _raise(paths: Paths, kind: type[Any]) -> tuple[Any, ...]:
    voter, tenure, out = _voter(paths, kind)
    voter._raise(tenure, AnyInteger(paths, TOKEN), out)  # noqa: SLF001 - the rule itself
    return voter, tenure, out


def _is_covered(voter: Any, tenure: Any, out: Outbox[Any]) -> Any:
    """Say that the bound only rises, and that the new one is saved in this step."""
    bound = term_of(voter.bound)
    saved = bound == BOUND if out.to_save is None else bound == term_of(out.to_save)
    return z3.And(bound >= BOUND, bound >= term_of(tenure.high), saved)


def _hands_out_the_same(voter: Any, tenure: Any, out: Outbox[Any]) -> Any:
    same = z3.And(term_of(tenure.low) == LOW, term_of(tenure.high) == HIGH)
    return z3.And(same, _is_covered(voter, tenure, out))


def _is_lifted(voter: Any, tenure: Any, out: Outbox[Any]) -> Any:
    """Say what *lift* demands; the lower end that the voter notes only rises."""
    low, high = term_of(tenure.low), term_of(tenure.high)
    lifted = z3.And(low >= LOW, high >= HIGH, low <= high, low >= TOKEN)
    return z3.And(lifted, _is_covered(voter, tenure, out))


OF_A_BALLOT = (
    Question("grant", [LENGTH >= 1], _elect(0), _is_granted),
    Question("grant, for a hold that may be unsafe", [LENGTH >= 1], _elect(1), _is_granted),
    Question("repair", [], _elect(2), _is_repaired),
    Question("take back", [LOW <= HIGH], _take_back, _is_taken_back),
)
GIVEN = [LOW <= HIGH, LENGTH >= 1, RESERVE >= 0]
OF_A_VOTER = (
    Question("cover", GIVEN, _cover, _hands_out_the_same),
    Question("lift", GIVEN, _raise, _is_lifted),
)


def follow(ballot: type[Any] = Ballot, voter: type[Any] = Voter) -> Followed:
    """Compare the methods of both classes with the steps of the page."""
    found = Followed(1)
    asked = [(each, ballot) for each in OF_A_BALLOT] + [(each, voter) for each in OF_A_VOTER]
    for (name, given, run, claim), kind in asked:
        paths = Paths(given)
        for way in paths.each(partial(run, paths, kind)):
            found.ways += 1
            solver = z3.Solver()
            solver.add(*given, *way.conditions)
            if solver.check(z3.Not(claim(*way.result))) != z3.unsat:
                found.troubles.append(f"{name}: not as the page says, such as {solver.model()}")
    return found
