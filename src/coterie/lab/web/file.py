"""Pages as files that open from disk with the network off: whatever a page would ask a server is in it.

A page of one run has every answer along it; a move that leaves the run needs the laboratory, and the page
says so. A page of a whole map has every state within a bound, and plays all runs within it.
"""

from __future__ import annotations

import contextlib
import html
import posixpath
import re
from pathlib import Path
from string import punctuation
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from coterie.catalogue import find
from coterie.dashboard import ASSETS
from coterie.errors import UsageError
from coterie.lab.play.entries import Entry, entry_of
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.map import Map
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Fates, Position, Question
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.run import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OWN_ASSETS = Path(__file__).parent / "assets"
MOVES_MAX = 2_000  # of a run in a file: an answer for each place is in it
JUDGED_MAX = 200  # moves of a run whose places are looked at; a longer one is shown without what they lead to
MILLISECONDS = 2_000  # that a look at one place may take
MAP_MILLISECONDS = 20_000  # that drawing a whole map may take
IMPORT = re.compile(r"""(from\s*|import\s*)"(\.{1,2}/[^"]+)\"""")
COMMENT = re.compile(
    r"^\s*(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*$", re.MULTILINE | re.DOTALL
)  # alone on its lines
PLAIN = " " + "".join(sorted(set(punctuation) - set("%#")))  # in an address that holds text
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline';"
    " img-src data:; base-uri 'none'; form-action 'none'"
)


class Place(msgspec.Struct, frozen=True):
    """What the server would answer of one place in the run; the steps are kept once."""

    position: Position
    fates: Fates | None


class Content(msgspec.Struct, frozen=True):
    """All answers that the page of one run asks for."""

    entry: Entry
    bound: Bound
    steps: list[Step]
    places: list[Place]


class MapContent(msgspec.Struct, frozen=True):
    """All that the page of a whole map asks for, and the run that it begins with."""

    entry: Entry
    bound: Bound
    map: Map
    moves: list[str]


def map_page(
    first: str,
    moves: Sequence[str] = (),
    bound: Bound | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str:
    """Return the page on which every run within a bound can be played; it begins with these moves."""
    laboratory = Laboratory(MAP_MILLISECONDS)
    allowed = bound or Bound()
    question = Question(first, list(moves), bound=allowed, budget_ms=MAP_MILLISECONDS)
    played = laboratory.play_whole(question)
    drawn = laboratory.map(question, cancelled)
    entry = entry_of(find(played.algorithm))
    return _page(MapContent(entry, allowed, drawn, played.moves), first, ["lab/map.js"])


def run_page(
    first: str,
    moves: Sequence[str],
    bound: Bound | None = None,
    cancelled: Callable[[], bool] | None = None,
    milliseconds: int = MILLISECONDS,
) -> str:
    """Return the page of a run, from the start to its last move; each place is looked at so long."""
    laboratory = Laboratory(milliseconds)
    content = _content(laboratory, first, list(moves), bound or Bound(), cancelled)
    return _page(content, first)


def _content(
    laboratory: Laboratory,
    first: str,
    moves: list[str],
    bound: Bound,
    cancelled: Callable[[], bool] | None,
) -> Content:
    whole = laboratory.play_whole(Question(first, moves))
    if len(whole.moves) > MOVES_MAX:
        raise Refusal(f"a run in a file has at most {MOVES_MAX:,} moves, not {len(whole.moves):,}")
    places = []
    for cursor in range(len(whole.moves) + 1):
        question = Question(first, whole.moves, cursor, bound, known=len(whole.steps))
        position = laboratory.play(question)
        fates = None
        if len(whole.moves) <= JUDGED_MAX:
            with contextlib.suppress(UsageError):  # the page shows the run without them
                fates = laboratory.fates(question, cancelled)
        places.append(_place(position, fates, is_last=cursor == len(whole.moves)))
    return Content(entry_of(find(whole.algorithm)), bound, whole.steps, places)


def _place(position: Position, fates: Fates | None, *, is_last: bool) -> Place:
    """Leave out what stands elsewhere in the file already, or is not shown.

    The moves of the whole run stand at its last place, and so does what the places that it went through led to.
    """
    if not is_last:
        position = msgspec.structs.replace(position, moves=[], codes=[], address="")
    if fates is None:
        return Place(position, None)
    short = msgspec.structs.replace(position, properties=[], why=[])
    return Place(short, fates if is_last else msgspec.structs.replace(fates, history=[]))


def _page(content: Content | MapContent, title: str, more: Sequence[str] = ()) -> str:
    style = "".join(_short(_asset(name)) for name in ("tokens.css", "style.css", "lab.css"))
    modules = {path: _module(path) for path in [*_reachable("lab.js"), *more]}
    named = {f"coterie/{path}": module for path, module in modules.items()}
    names, answers = _json({"imports": named}), _json(content)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style>",
            f'<script type="importmap">{names}</script>',
            f'<script type="application/json" id="answers">{answers}</script>',
            '</head><body><div id="page"></div>',
            '<script type="module">import "coterie/lab.js";</script>',
            "</body></html>\n",
        ]
    )


def _json(value: object) -> str:
    """Write JSON into an element, which nothing in it may end."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def _asset(path: str) -> str:
    own = OWN_ASSETS / path
    return (own if own.exists() else ASSETS / path).read_text(encoding="utf-8")


def _module(path: str) -> str:
    """Return a module as an address that holds it; what it imports is named for the import map."""

    def named(match: re.Match[str]) -> str:
        return f'{match[1]}"coterie/{_resolve(path, match[2])}"'

    text = IMPORT.sub(named, _short(_asset(path)))
    return "data:text/javascript;charset=utf-8," + quote(text, PLAIN)


def _short(text: str) -> str:
    """Leave out indentation and lines that are comments: no template or text of ours needs them."""
    lines = (line.strip() for line in COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def _resolve(importer: str, imported: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), imported))


def _reachable(entry: str) -> list[str]:
    """List a module and all that it imports, directly or not."""
    found: dict[str, Any] = {entry: None}
    for path in (queue := [entry]):
        for match in IMPORT.finditer(_asset(path)):
            imported = _resolve(path, match[2])
            if imported not in found:
                found[imported] = None
                queue.append(imported)
    return list(found)
