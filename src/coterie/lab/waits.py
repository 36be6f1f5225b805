"""Why a process waits, in sentences: what it needs, of which processes, and what keeps these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.explore.properties import waiting
from coterie.lab.questions import Why
from coterie.trace import label

if TYPE_CHECKING:
    from coterie.process import ProcessId
    from coterie.scenario.play import Play


def explain_waits(play: Play) -> list[Why]:
    """Explain the wait of every process that waits for its critical section."""
    world = play.world
    return [
        Why(me, _under_way(play, me))
        for me, seat in world.seats.items()
        if me not in world.crashed and waiting(seat)
    ]


def _under_way(play: Play, me: ProcessId) -> list[str]:
    """Say what is on its way from and to a process."""
    letters = [x for x in play.world.transit if me in (x.sender, x.receiver)]
    if not letters:
        return [f"process {me} waits, and no message is on its way from it or to it"]
    return [f"{label(x.message)} is on its way from {x.sender} to {x.receiver}" for x in letters]
