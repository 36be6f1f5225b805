"""A run as an attempt at a task: whether it does it, in how many moves, and in how few it could be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.lab.play.exploration.goal import Goal

if TYPE_CHECKING:
    from coterie.lab.play.exploration.atlas import Atlas
    from coterie.lab.play.runs.run import Run
    from coterie.lab.scenario.play import Play

NOT_JUDGED = "this was not judged: too much can happen within the bound"


class Task(msgspec.Struct, frozen=True):
    """A goal, and how many moves are given: those made later count."""

    goal: Goal
    given: int = 0


class Attempt(msgspec.Struct, frozen=True):
    """How a run does a task."""

    moves: (
        int | None
    )  # made until the goal is first reached, not counting those given; None: it is not
    shortest: (
        int | None
    )  # the fewest that can be; None: the goal cannot be reached within the bound
    faults: int = 0  # among the moves
    forbidden: str = ""  # a move that the bound does not allow, which ends the attempt


def judge_attempt(run: Run, cursor: int, atlas: Atlas, task: Task) -> Attempt:
    """Follow a run up to the reader's place, and stop where the goal is reached or a rule broken."""
    play = run.play_at(task.given)
    way = atlas.way_to(play, task.goal)
    shortest, faults = None if way is None else len(way), 0
    for number in range(task.given, cursor + 1):
        if task.goal.reached(play, atlas.look(play)):
            return Attempt(number - task.given, shortest, faults)
        if number == cursor:
            break
        move = play.meant(run.steps[number + 1].move)
        if not atlas.scope.allows(play, move):
            return Attempt(None, shortest, faults, _forbidden(play, move.text, atlas))
        faults += move.is_fault
        play.move(move.text)
    return Attempt(None, shortest, faults)


def _forbidden(play: Play, move: str, atlas: Atlas) -> str:
    return f"move {int(play.time) + 1}, {move}, is outside the bound: {atlas.scope.bound}"
