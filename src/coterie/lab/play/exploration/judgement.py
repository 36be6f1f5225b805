"""Whether the properties hold in one state of a play, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.lab.explore.findings import DEADLOCK, NO_ERROR
from coterie.lab.explore.properties import (
    Always,
    Eventually,
    Exercised,
    Sometimes,
    declared,
    holds,
)
from coterie.lab.play.exploration.scope import limits, properties_of
from coterie.trace import Violated

if TYPE_CHECKING:
    from coterie.lab.explore.properties import Property
    from coterie.lab.play.exploration.atlas import Searched
    from coterie.lab.play.exploration.fate import Fate
    from coterie.lab.scenario.play import Play
    from coterie.process import Seat


DECIDES = "Check decides it"
SAYS = "Check says whether in any"


class Judgement(msgspec.Struct, frozen=True):
    """Whether a property holds where the reader stands; None: not known."""

    name: str
    holds: bool | None
    text: str
    by_check: bool = False  # whether it is about all runs together, at which `coterie check` looks


def judge(play: Play, here: Fate | None, searched: Searched) -> list[Judgement]:
    """Judge each property; what can still come is taken from the fate of the state."""
    last = play.world.records[-1] if play.world.records else None
    violated = last if play.over and isinstance(last, Violated) else None
    own = declared([seat.process for seat in play.world.seats.values()])
    judged = []
    for item in properties_of(play):
        if isinstance(item, Always):
            fine = holds(item.conditions, _seats(play))
            judged.append(Judgement(item.name, fine, "" if fine else item.text))
        elif isinstance(item, Eventually):
            judged.append(Judgement(item.name, None, DECIDES, by_check=True))
        elif not isinstance(item, Sometimes | Exercised):
            judged.append(_judge_future(play, item, here, searched))
        elif item in own:  # the usual ones say that a search was no empty one
            judged.append(_judge_sight(play, item))
    raised = violated is not None and all(violated.name != item.name for item in judged)
    text = violated.text if violated is not None and raised else ""
    return [*judged, Judgement(NO_ERROR, not raised, text)]


def _judge_sight(play: Play, item: Sometimes | Exercised) -> Judgement:
    if holds(item.conditions, _seats(play)):
        return Judgement(item.name, True, "seen here", by_check=True)
    return Judgement(item.name, None, f"not in this state; {SAYS}", by_check=True)


def _judge_future(play: Play, item: Property, here: Fate | None, searched: Searched) -> Judgement:
    if here is not None and here.violated in (item.name, DEADLOCK):
        return Judgement(item.name, False, here.text)
    if searched.safety_only:
        return Judgement(item.name, None, limits(play) or "")
    if here is None or not searched.complete or play.over:
        return Judgement(item.name, None, "not known: it was not searched, or not to the end")
    return Judgement(item.name, True, "")


def _seats(play: Play) -> list[Seat | None]:
    world = play.world
    return [None if me in world.crashed else seat for me, seat in world.seats.items()]
