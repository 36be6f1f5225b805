"""Goals of lessons and challenges: what a reader is to bring about, as a set of states.

    two inside           mutual exclusion is violated
    deadlock             nothing is pending any more, and some process waits
    starve 3             process 3 waits, and can never enter any more, even if others ask
    disagree             an election is at rest, and not all follow one live leader
    error                a process raises an error
    broken               one of these shows: two inside, a deadlock, disagreement, an error
    stuck                a property is violated, or bound to be, and only a fault can help any more
    inside 2             process 2 is inside
    inside 2 before 1    process 2 is inside, while process 1 waits
    served               every process has been inside and has left

A crashed process neither waits nor is inside. A goal is judged by the atlas, which also knows the fewest moves to it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
import numpy as np

from coterie.errors import ConfigError
from coterie.lab.explore.findings import DEADLOCK
from coterie.lab.explore.properties import AGREEMENT, ENTRY, MUTUAL_EXCLUSION, inside, waiting
from coterie.process import MutexUser, Phase

if TYPE_CHECKING:
    from coterie.lab.explore.graph import StateGraph
    from coterie.lab.explore.properties import SeatPredicate
    from coterie.lab.explore.tables.arrays import Flags
    from coterie.lab.play.exploration.atlas import Searched
    from coterie.lab.play.exploration.fate import Fate
    from coterie.lab.scenario.play import Play
    from coterie.process import ProcessId, Seat

Kind = Literal[
    "two inside", "deadlock", "starve", "disagree", "error", "broken", "stuck", "inside", "served"
]
WORDS: dict[Kind, str] = {
    "two inside": "let two processes be inside at the same time",
    "deadlock": "reach a deadlock: nothing is pending any more, and some process waits",
    "starve": "let process {process} wait for an entry that it can never get",
    "disagree": "let the election come to rest without one live leader that all follow",
    "error": "make a process raise an error",
    "broken": "break a property",
    "stuck": "reach a state that nothing can put right any more",
    "inside": "let process {process} be inside",
    "served": "let every process enter and leave",
}

VIOLATED = {"two inside": MUTUAL_EXCLUSION.name, "deadlock": DEADLOCK, "disagree": AGREEMENT.name}


class Goal(msgspec.Struct, frozen=True):
    """What is to be brought about; `process` and `other` are 0 where the kind names none."""

    kind: Kind
    process: int = 0
    other: int = 0

    def __str__(self) -> str:
        """Say it as a task."""
        if self.other:
            return f"let process {self.process} be inside while process {self.other} waits"
        return WORDS[self.kind].format(process=self.process)

    @property
    def is_seen(self) -> bool:
        """Whether a play shows by itself that it is reached, without its fate."""
        return self.kind in ("two inside", "error", "inside", "served")

    def reached(self, play: Play, here: Fate | None) -> bool:
        """Return whether a play has reached it; `here` is its fate, None if that is not known."""
        match self.kind:
            case "inside":
                awaited = self.other == 0 or _fulfils(play, self.other, waiting)
                return _fulfils(play, self.process, inside) and awaited
            case "served":
                return all(play.asked[me] and _fulfils(play, me, idle) for me in play.world.seats)
            case "starve":
                return here is not None and self.process in here.processes
            case "error":
                return play.over and not _shows(here, MUTUAL_EXCLUSION.name)
            case _:
                return here is not None and self._is_shown(here)

    def _is_shown(self, here: Fate) -> bool:
        """Return whether the fate of a state says that it is reached."""
        if self.kind == "stuck":
            return here.is_final and here.word != "doomed"
        if self.kind == "broken":
            return here.word == "broken"
        return _shows(here, VIOLATED[self.kind])

    def is_decided(self, here: Fate | None, searched: Searched) -> bool:
        """Return whether a search knows enough of a state to say that this is not reached there.

        What never happens any more is known from all that can follow. What shows in a state is known
        as soon as its moves were tried, and a search by safety alone does not ask for it.
        """
        if here is None or searched.safety_only:
            return False
        if self.kind in ("starve", "stuck"):
            return searched.complete
        return here.word != "open" or here.moves != 0

    def marks(self, graph: StateGraph, entries: int) -> Flags:
        """Return for each state of a graph in which users enter so often whether it is reached."""
        nowhere: Flags = np.zeros(graph.size + 1, np.bool_)
        simple = {
            "two inside": graph.crowded.get(MUTUAL_EXCLUSION.name, nowhere),
            "deadlock": graph.stuck,
            "disagree": graph.unsettled.get(AGREEMENT.name, nowhere),
            "broken": graph.broken,
        }
        match self.kind:
            case "stuck":
                flags = graph.wrong & graph.doomed
            case "error":
                flags = nowhere
                flags[graph.size] = True
            case "starve":
                places = graph.lost.get(ENTRY.name)
                crowded = graph.crowded.get(MUTUAL_EXCLUSION.name, nowhere)
                flags = nowhere if places is None else places[self.process - 1] & ~crowded
            case "inside":
                flags = graph.fulfil(inside)[self.process - 1]
                if self.other:
                    flags = flags & graph.fulfil(waiting)[self.other - 1]
            case "served":
                flags = np.logical_and.reduce(graph.fulfil(_has_left(entries)))
            case kind:
                flags = simple[kind]
        return flags


def _fulfils(play: Play, process: ProcessId, predicate: SeatPredicate) -> bool:
    world = play.world
    return process not in world.crashed and predicate(world.seats[process])


def _shows(here: Fate | None, violated: str) -> bool:
    return here is not None and here.word == "broken" and here.violated == violated


def parse_goal(text: str) -> Goal:
    """Read a goal; raise a `ConfigError` that lists the goals if it is none."""
    match text.split():
        case ["inside", process, "before", other] if process.isdecimal() and other.isdecimal():
            return Goal("inside", int(process), int(other))
        case ["starve" | "inside" as kind, process] if process.isdecimal():
            return Goal("starve" if kind == "starve" else "inside", int(process))
        case _:
            pass
    for kind in get_args(Kind):
        if text == kind and kind not in ("starve", "inside"):
            return Goal(kind)
    raise ConfigError(f"expected one of the goals {', '.join(get_args(Kind))}, got {text!r}")


def idle(seat: Seat) -> bool:
    """Return whether the user of a mutex neither waits nor is inside."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.IDLE


@cache
def _has_left(entries: int) -> SeatPredicate:
    """Return the same predicate for the same number, since graphs remember what they have marked."""

    def has_left(seat: Seat) -> bool:
        return idle(seat) and isinstance(seat.user, MutexUser) and seat.user.entries != entries

    return has_left
