"""Stand-ins for the integers and sets of a process, so that its real handlers run on all values at once.

A handler runs once for each way through it: where it asks something that the state does not decide,
one run goes on with yes and another with no. What it did on a way is then a formula over the state
before, with integers that have no bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from coterie.lab.prove.solver import z3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Way(NamedTuple):
    """One way through a handler: under which conditions it is taken, and what came of it."""

    conditions: list[Any]
    result: Any


@dataclass
class Followed:
    """How far handlers were compared with the steps of their page, and what was wrong."""

    size: int
    ways: int = 0
    troubles: list[str] = field(default_factory=list)


class Paths:
    """Runs a function once for each feasible sequence of answers to what it asks."""

    def __init__(self, given: Iterable[Any]) -> None:
        """Take what is known of the state."""
        self._solver = z3.Solver()
        self._solver.add(*given)
        self._answers: list[bool] = []  # that this run has to give, the first ones
        self._made: list[bool] = []
        self._conditions: list[Any] = []
        self._left: list[list[bool]] = [[]]

    def each(self, run: Callable[[], Any]) -> Iterator[Way]:
        """Go every way."""
        self._left = [[]]
        while self._left:
            self._answers, self._made, self._conditions = self._left.pop(), [], []
            result = run()
            yield Way(list(self._conditions), result)

    def decide(self, claim: Any) -> bool:
        """Answer what the state decides; else go one way now and leave the other for later."""
        claim = z3.simplify(claim)
        if z3.is_true(claim) or z3.is_false(claim):
            return bool(z3.is_true(claim))
        place = len(self._made)
        if place < len(self._answers):
            answer = self._answers[place]
        else:
            answer = self._is_possible(claim)
            if answer and self._is_possible(z3.Not(claim)):
                self._left.append([*self._made, False])
        self._made.append(answer)
        self._conditions.append(claim if answer else z3.Not(claim))
        return answer

    def _is_possible(self, claim: Any) -> bool:
        return bool(self._solver.check(*self._conditions, claim) != z3.unsat)


class Truth:
    """What a comparison returns: asked for its truth, it takes a way."""

    def __init__(self, paths: Paths, claim: Any) -> None:
        """Hold a claim about the state."""
        self._paths = paths
        self._claim = claim

    def __bool__(self) -> bool:
        """Decide."""
        return self._paths.decide(self._claim)


class AnyInteger:
    """Any integer."""

    def __init__(self, paths: Paths, term: Any) -> None:
        """Hold a term of the solver."""
        self._paths = paths
        self.term = term

    def __hash__(self) -> NoReturn:
        """Refuse: a set would have to know which numbers are the same."""
        raise TypeError("a number that may be any has no hash")

    def __add__(self, other: AnyInteger | int) -> AnyInteger:
        """Return the sum."""
        return AnyInteger(self._paths, self.term + term_of(other))

    def __sub__(self, other: AnyInteger | int) -> AnyInteger:
        """Return the difference."""
        return AnyInteger(self._paths, self.term - term_of(other))

    def __lt__(self, other: AnyInteger | int) -> Truth:
        """Compare."""
        return Truth(self._paths, self.term < term_of(other))

    def __le__(self, other: AnyInteger | int) -> Truth:
        """Compare."""
        return Truth(self._paths, self.term <= term_of(other))

    def __gt__(self, other: AnyInteger | int) -> Truth:
        """Compare."""
        return Truth(self._paths, self.term > term_of(other))

    def __ge__(self, other: AnyInteger | int) -> Truth:
        """Compare."""
        return Truth(self._paths, self.term >= term_of(other))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        """Compare."""
        return Truth(self._paths, self.term == term_of(other))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        """Compare."""
        return Truth(self._paths, self.term != term_of(other))


class AnySet:
    """Any set of some ids."""

    def __init__(self, paths: Paths, claims: dict[int, Any]) -> None:
        """Hold for each id the claim that it is a member."""
        self._paths = paths
        self.claims = claims

    def add(self, member: int) -> None:
        """Add an id."""
        self.claims[member] = z3.BoolVal(True)

    def discard(self, member: int) -> None:
        """Remove an id, if it is there."""
        self.claims[member] = z3.BoolVal(False)

    def remove(self, member: int) -> None:
        """Remove an id that is there."""
        if member not in self:
            raise KeyError(member)
        self.discard(member)

    def clear(self) -> None:
        """Remove all."""
        self.claims = dict.fromkeys(self.claims, z3.BoolVal(False))

    def __contains__(self, member: int) -> bool:
        """Decide whether an id is there."""
        return self._paths.decide(self.claims[member])

    def __iter__(self) -> Iterator[int]:
        """Decide of each id whether it is there."""
        return iter([member for member in self.claims if member in self])

    def __len__(self) -> int:
        """Count, which decides it of each."""
        return len(list(iter(self)))

    def __bool__(self) -> bool:
        """Decide whether there is any, and no more than that."""
        return self._paths.decide(z3.Or(list(self.claims.values())))


def term_of(value: object) -> Any:
    """Return a number, or one that may be any, as a term."""
    return value.term if isinstance(value, AnyInteger) else z3.IntVal(value)


def claims_of(value: Any, ids: Iterable[int]) -> dict[int, Any]:
    """Return a set of ids, or one that may be any, as a claim for each id."""
    if isinstance(value, AnySet):
        return value.claims
    return {each: z3.BoolVal(each in value) for each in ids}
