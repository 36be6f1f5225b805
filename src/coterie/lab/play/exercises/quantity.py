"""What questions of a lesson ask for, measured on the run of its page.

    messages             how many messages have been sent
    inside               which process is inside; 0: none
    field 2 holder       a field of a process
    first 2 queue        the first that stands in a field of it
    before 1 3           whether move 1 happened before move 3: yes or no
    shortest             the fewest moves from there to a violation
    no return            after how many moves the run was past saving

Each may end with `after a; b; c`: moves that follow those of the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError
from coterie.lab.play.exercises.causality import happened_before
from coterie.lab.play.exploration.attempt import NOT_JUDGED
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal
from coterie.trace import Sent

if TYPE_CHECKING:
    from coterie.lab.play.exploration.bound import Bound
    from coterie.lab.play.laboratory import Laboratory
    from coterie.lab.play.questions import Fates, Position, Way

WORDS = ("messages", "inside", "field", "first", "before", "shortest", "no return")


def check_quantity(text: str) -> str:
    """Return the text if it can be measured, else raise a `ConfigError` that lists what can be."""
    what = text.partition(" after ")[0]
    if not any(what == word or what.startswith(word + " ") for word in WORDS):
        raise ConfigError(f"expected one of the measures {', '.join(WORDS)}, got {text!r}")
    return text


def measure(laboratory: Laboratory, first: str, moves: list[str], bound: Bound, text: str) -> str:
    """Measure something on a run."""
    what, _, later = text.partition(" after ")
    extra = [move.strip() for move in later.split(";") if move.strip()]
    question = Question(first, [*moves, *extra], bound=bound)
    position = laboratory.play_whole(question)
    match what.split():
        case ["field", process, name]:
            return _show(position.states[int(process) - 1].fields[name])
        case ["first", process, name]:
            return _show((position.states[int(process) - 1].fields[name] or [None])[0])
        case ["before", one, other]:
            return "yes" if happened_before(position.steps, int(one), int(other)) else "no"
        case _:
            return _number(laboratory, question, position, what)


def _number(laboratory: Laboratory, question: Question, position: Position, what: str) -> str:
    if what == "messages":
        return str(_messages(position))
    if what == "inside":
        return str(next((x.process for x in position.states if x.phase == "inside"), 0))
    if what == "shortest":
        return _shortest(laboratory.way(question))
    return _no_return(laboratory.fates(question))


def _shortest(way: Way) -> str:
    # From the start a search ends at the first violation, which is the nearest; then it need not be complete.
    if not way.searched.complete and (way.moves is None or way.searched.from_here):
        raise Refusal(NOT_JUDGED)
    return "none" if way.moves is None else str(len(way.moves))


def _no_return(fates: Fates) -> str:
    if not fates.searched.complete or not fates.history:  # what was before is not known
        raise Refusal(NOT_JUDGED)
    return "never" if fates.no_return is None else str(fates.no_return)


def _messages(position: Position) -> int:
    return sum(isinstance(record, Sent) for step in position.steps for record in step.records)


def _show(value: Any) -> str:
    """Write a field as the page shows it."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(_show, value)) or "none"
    return str(value)
