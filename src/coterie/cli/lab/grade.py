"""`coterie lab --grade`: answers to challenges, played again and scored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from coterie.cli.common.output import print_json, print_table
from coterie.errors import CoterieError, UsageError
from coterie.lab.play.exercises.challenge import (
    BUDGET_MILLISECONDS,
    ChallengeQuestion,
    fitting,
    read_answer,
    score,
)
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.scenario import read_scenario
from coterie.trace import parse_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ADDRESSES = ("#/break/", "#/run/", "#/z/")
REMARK = " # "
SHOWN_MAX = 40  # characters of an answer in the table


class Grade(msgspec.Struct, frozen=True):
    """An answer and its score."""

    answer: str  # the file, with the line where it has several; or the address
    challenge: str
    reached: bool
    moves: int | None
    shortest: int | None
    score: float | None  # moves over the shortest: 1.0 is the best
    faults: int
    text: str


class _Answer(NamedTuple):
    name: str
    runs: list[ChallengeQuestion]
    fault: str = ""  # why it cannot be read


def grade(answers: Sequence[str], output: str) -> int:
    """Print the scores of answers; return 1 unless each of them reaches its goal."""
    if not answers:
        raise UsageError("nothing to grade: name files or addresses such as '#/break/deadlock/a1'")
    laboratory = Laboratory(BUDGET_MILLISECONDS)
    found = [answer for each in answers for answer in _read(each)]
    grades = [row for answer in found for row in _grades(laboratory, answer)]
    if output == "json":
        print_json(grades)
    else:
        _print(grades)
    return 0 if all(each.reached for each in grades) else 1


def _read(argument: str) -> Iterator[_Answer]:
    """Read an address, or a file: addresses on lines of their own, a scenario or a trace.

    Behind an address a line may have a remark, such as how many hints were taken.
    """
    path = Path(argument)
    if any(mark in argument for mark in ADDRESSES):
        yield _parse(argument, read_answer, argument)
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"neither an address nor a file that can be read: {error}") from None
    lines = text.splitlines()
    addresses = [(number, line) for number, line in enumerate(lines, 1) if _is_address(line)]
    for number, line in addresses:
        yield _parse(f"{path.name}:{number}", read_answer, line.partition(REMARK)[0].strip())
    if not addresses:
        yield _parse(path.name, _read_run, text)


def _is_address(line: str) -> bool:
    return any(mark in line for mark in ADDRESSES)


def _parse(name: str, read: Callable[[str], list[ChallengeQuestion]], text: str) -> _Answer:
    try:
        return _Answer(name, read(text))
    except CoterieError as error:
        return _Answer(name, [], str(error))


def _read_run(text: str) -> list[ChallengeQuestion]:
    is_trace = text.lstrip().startswith("{")
    return fitting(address_of(parse_trace(text)) if is_trace else read_scenario(text))


def _grades(laboratory: Laboratory, answer: _Answer) -> list[Grade]:
    """Score an answer; of several challenges that it fits, those that it reaches, or the first."""
    if answer.fault:
        return [_refused(answer.name, "", answer.fault)]
    grades = [_grade(laboratory, answer.name, run) for run in answer.runs]
    return [each for each in grades if each.reached] or grades[:1]


def _grade(laboratory: Laboratory, name: str, run: ChallengeQuestion) -> Grade:
    asked = msgspec.structs.replace(run, budget_ms=BUDGET_MILLISECONDS)
    try:
        judged = score(laboratory, asked)
    except UsageError as error:
        return _refused(name, run.name, str(error))
    return Grade(
        name,
        run.name,
        judged.reached,
        judged.moves,
        judged.shortest,
        judged.ratio,
        judged.faults,
        judged.text,
    )


def _refused(name: str, challenge: str, reason: str) -> Grade:
    return Grade(name, challenge, False, None, None, None, 0, reason)


def _print(grades: Sequence[Grade]) -> None:
    rows = [
        [
            _short(each.answer),
            each.challenge,
            "reached" if each.reached else "not reached",
            "" if each.score is None else f"{each.score:.2f}",
            "" if each.score is None else each.faults,
            each.text,
        ]
        for each in grades
    ]
    print_table(["answer", "challenge", "goal", "score", "faults", ""], rows)
    reached = sum(each.reached for each in grades)
    click.echo(f"\n{reached} of {len(grades)} reached; a score of 1.00 is the shortest way")


def _short(answer: str) -> str:
    return answer if len(answer) <= SHOWN_MAX else answer[: SHOWN_MAX - 1] + "…"
