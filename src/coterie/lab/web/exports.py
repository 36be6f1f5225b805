"""A run as a file to take away: its moves as text, its picture, its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from coterie.diagram import space_time
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.runs.address import MOVES_MAX
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.run import begin_run
from coterie.lab.scenario import from_trace
from coterie.lab.web.file import map_page, run_page
from coterie.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable


class ExportQuestion(msgspec.Struct, frozen=True):
    """A run, and the form in which it is wanted."""

    first: str
    form: Literal["html", "map", "scenario", "svg", "jsonl"]
    moves: list[str] = []
    bound: Bound = Bound()  # of what the page says each move leads to


class File(NamedTuple):
    """What to save."""

    name: str
    kind: str
    content: str


FORMS: dict[str, tuple[str, str, Callable[[Trace], str]]] = {
    "scenario": ("txt", "text/plain", from_trace),
    "svg": ("svg", "image/svg+xml", space_time),
    "jsonl": ("jsonl", "application/jsonl", Trace.to_lines),
}


def export(question: ExportQuestion, cancelled: Callable[[], bool]) -> File:
    """Play the run again and write it down."""
    if len(question.moves) > MOVES_MAX:
        raise Refusal(f"a run has at most {MOVES_MAX:,} moves, not {len(question.moves):,}")
    run = begin_run(question.first).extended(question.moves)
    if run.refusal is not None:
        raise run.refusal.as_refusal()
    play = run.play
    if question.form in ("html", "map"):
        write_page = run_page if question.form == "html" else map_page
        page = write_page(question.first, run.moves, question.bound, cancelled)
        kind = "" if question.form == "html" else "-map"
        return File(f"{play.header.algorithm}-{play.header.size}{kind}.html", "text/html", page)
    ending, kind, write = FORMS[question.form]
    name = f"{play.header.algorithm}-{play.header.size}.{ending}"
    return File(name, kind, write(Trace(play.header, play.world.records)))
