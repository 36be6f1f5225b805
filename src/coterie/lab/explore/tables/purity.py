"""Which steps are made twice, so that a handler that is not a function of its process and input is noticed.

A handler that draws numbers, or keeps state outside its process, mostly shows it whenever it runs. So the
first steps of each kind are all made twice, and a sample of those that follow: an algorithm with many
local states has few kinds of steps and very many steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from coterie.errors import ConfigError
from coterie.lab.explore.tables.inputs import Call, Notice, Receive, Restart, Ring

if TYPE_CHECKING:
    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.explore.tables.step import Outcome

Kind: TypeAlias = tuple[type, type | str]

ALL_OF_FIRST = 1000  # steps of a kind
ONE_IN = 16  # of those that follow


class PuritySample:
    """Chooses the steps that are made twice."""

    def __init__(self) -> None:
        """Start with no steps made."""
        self._made: dict[Kind, int] = {}

    def includes(self, process: object, given: Input) -> bool:
        """Count a step of this process, and return whether to make it twice."""
        kind = type(process), _name(given)
        made = self._made[kind] = self._made.get(kind, 0) + 1
        return made <= ALL_OF_FIRST or not made % ONE_IN


def _name(given: Input) -> type | str:
    """Tell kinds of inputs of one process apart: by the type of a message, and by the name of a call or timer."""
    match given:
        case Receive(_, message):
            return type(message)
        case Call(name) | Ring(name):
            return name
        case Notice() | Restart():
            return type(given)


def require_purity(first: Outcome, again: Outcome, given: Input) -> None:
    """Raise if one step from one state came out in two ways: then no search proves anything."""
    if (first.error is None) == (again.error is None) and (
        first.error is not None or first[:3] == again[:3]
    ):
        return
    name = type(first.seat.process).__name__
    raise ConfigError(
        f"{name} is not deterministic: {given} did two different things in the same state. Keep all"
        " state in the fields of the process; draw no random numbers, and read no clock but out.now"
    )
