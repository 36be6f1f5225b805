"""The source of the handlers that a step of a run has called, and the lines of it that were executed."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from coterie.lab.play.runs.run import Run

LINES_MAX = 400  # of all handlers of a step


class Line(msgspec.Struct, frozen=True):
    """A line of source, and whether the step has executed it."""

    number: int
    text: str
    ran: bool


class Handler(msgspec.Struct, frozen=True):
    """A function that the step has called, as it is written."""

    name: str
    lines: list[Line]


def handlers_of(run: Run, number: int) -> list[Handler]:
    """Make a step of the run once more, and return what it calls, in the order of the calls.

    A step is deterministic, so what is executed here is what was executed in the run. Nothing is known of the start,
    and of code without a source.
    """
    if number == 0:
        return []
    step = run.steps[number]
    play = run.play_at(number - 1)
    seen = _Calls(_files(type(play.world.seats[step.process].process)))
    before = sys.gettrace()
    sys.settrace(seen.call)
    try:
        play.move(step.move)
    finally:
        sys.settrace(before)
    return list(seen.handlers())


def _files(kind: type) -> frozenset[str]:
    """Return the files in which a process is written, without those of the contract."""
    own = [
        each
        for each in kind.__mro__
        if issubclass(each, Process) and each.__module__ != Process.__module__
    ]
    return frozenset(filter(None, (_file(each) for each in own)))


def _file(kind: type) -> str | None:
    try:
        return inspect.getsourcefile(kind)
    except TypeError:  # made by hand, or built in
        return None


class _Calls:
    """Notes which functions of some files are called, and which lines of them are executed."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files
        self._codes: dict[CodeType, None] = {}
        self._lines: set[tuple[str, int]] = set()

    def call(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Follow a call into these files, and no other; lambdas and comprehensions belong to what they stand in."""
        if event != "call" or frame.f_code.co_filename not in self._files:
            return None
        if not frame.f_code.co_name.startswith("<"):
            self._codes[frame.f_code] = None
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line":
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def handlers(self) -> Iterator[Handler]:
        """Return the source of what was called, up to a number of lines."""
        left = LINES_MAX
        for code in self._codes:
            try:
                texts, first = inspect.getsourcelines(code)
            except OSError:  # the file is gone, or has changed
                continue
            left -= len(texts)
            if left < 0:
                return
            plain = textwrap.dedent("".join(texts)).splitlines()
            yield Handler(
                code.co_qualname,
                [
                    Line(place, text, (code.co_filename, place) in self._lines)
                    for place, text in enumerate(plain, first)
                ],
            )
