"""The numbers of the leased lock's ballots are those of the page `leased-tokens`, for all integers.

`Ballot.elect` gives out the interval of the steps *grant* and *repair*, `Ballot.take_back` leaves the floor
of the step *take back*, and with all of an interval used that of *expire*. Sessions, disks and queues of
more than one request are not looked at.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.algorithms.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.lab.prove.solver import z3
from coterie.lab.prove.symbolic import AnyInteger, Followed, Paths, term_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FLOOR, STAMP, LENGTH, LOW, HIGH, USED = z3.Ints("floor stamp length low high used")


class Question(NamedTuple):
    """What a method does, in any state of which something is given, and what has to hold then."""

    name: str
    given: Sequence[Any]
    run: Callable[[Paths, type[Any]], tuple[Any, Any]]  # the ballot, and the tenure
    claim: Callable[[Any, Any], Any]


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


QUESTIONS = (
    Question("grant", [LENGTH >= 1], _elect(0), _is_granted),
    Question("grant, for a hold that may be unsafe", [LENGTH >= 1], _elect(1), _is_granted),
    Question("repair", [], _elect(2), _is_repaired),
    Question("take back", [LOW <= HIGH], _take_back, _is_taken_back),
)


def follow(kind: type[Any] = Ballot) -> Followed:
    """Compare the methods of a class with the steps of the page."""
    found = Followed(1)
    for name, given, run, claim in QUESTIONS:
        paths = Paths(given)
        for way in paths.each(partial(run, paths, kind)):
            found.ways += 1
            solver = z3.Solver()
            solver.add(*given, *way.conditions)
            if solver.check(z3.Not(claim(*way.result))) != z3.unsat:
                found.troubles.append(f"{name}: not as the page says, such as {solver.model()}")
    return found
