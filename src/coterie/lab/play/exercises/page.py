"""Pages of lessons and challenges: words, something to begin with, and a goal that is judged.

A page is the part of a Markdown file below a heading: words, then a block. A block `run` has the first
line of a scenario, moves, and directives:

    @goal GOAL             what is to be brought about, as `coterie.lab.play.exploration.goal` lists it
    @level 2               how hard a challenge is: 1, 2 or 3
    @limit 6               in at most so many moves, those that are given included
    @allow crashes 1       what could happen beside one entry of each process; several by commas
    @solution a; b; c      moves that reach the goal from where the page begins
    @ask WORDS = MEASURE   a question; `coterie.lab.play.exercises.quantity` lists what can be asked for

A block `graph`, `history`, `coterie` or `prove` has the text of that editor instead, a `@goal` that
`coterie.lab.play.exercises.editors` lists, a `@require` of `coterie.lab.play.exercises.requirement` for what of the text has to
stay, and below `@solution` a text that reaches the goal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import msgspec

from coterie.errors import ConfigError
from coterie.lab.play.exercises.editors import GOALS
from coterie.lab.play.exercises.quantity import check_quantity
from coterie.lab.play.exercises.requirement import REQUIREMENTS
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.goal import parse_goal

if TYPE_CHECKING:
    from collections.abc import Iterable

Editor = Literal["graph", "history", "coterie", "prove"]
PARAGRAPH = re.compile(r"\n\s*\n")
BLOCK = re.compile(r"^```(run|graph|history|coterie|prove)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Ask(msgspec.Struct, frozen=True):
    """A question, and what is measured to judge an answer."""

    text: str
    measure: str


class Page(msgspec.Struct, frozen=True):
    """One idea, and something to do. A page has a run, or an editor with a text."""

    title: str
    words: list[str]  # paragraphs
    goal: str  # as it is written; empty if there are questions only
    task: str  # the goal as a sentence
    name: str = ""  # of a challenge
    level: int | None = None  # of a challenge: how hard it is, 1 to 3
    asks: list[Ask] = []
    first: str = ""
    moves: list[str] = []
    limit: int | None = None
    bound: Bound = Bound()
    solution: list[str] = []
    editor: Editor | None = None
    text: str = ""
    requirement: str = ""  # what of the text has to stay; empty if anything may change
    solved: str = ""  # a text that reaches the goal


def parse_pages(source: str, text: str) -> list[Page]:
    """Read the pages of a file; raise a `ConfigError` that names the page where it is wrong."""
    pages = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        try:
            pages.append(_page(title.strip(), body))
        except (ConfigError, ValueError, TypeError) as error:
            raise ConfigError(f"{source}, page {title.strip()!r}: {error}") from None
    return pages


class _Block(NamedTuple):
    lines: list[str]
    directives: dict[str, str]
    asks: list[Ask]
    rest: list[str]  # behind @solution


def _page(title: str, body: str) -> Page:
    found = BLOCK.search(body)
    if found is None:
        raise ValueError("it has no block to run")
    words = [" ".join(each.split()) for each in PARAGRAPH.split(body[: found.start()])]
    words = [each for each in words if each]
    block = _block(found[2].splitlines())
    if found[1] == "run":
        return _run_page(title, words, block)
    return _editor_page(title, words, cast("Editor", found[1]), block)


def _editor_page(title: str, words: list[str], editor: Editor, block: _Block) -> Page:
    goal = block.directives.get("goal", "")
    if goal not in GOALS[editor]:
        raise ValueError(f"expected one of the goals {', '.join(GOALS[editor])}, got {goal!r}")
    known = REQUIREMENTS[editor]
    requirement = block.directives.get("require", "")
    if requirement and requirement not in known:
        raise ValueError(
            f"expected one of the requirements {', '.join(known)}, got {requirement!r}"
        )
    task = GOALS[editor][goal]
    return Page(
        title,
        words,
        goal,
        f"{task}, {known[requirement]}" if requirement else task,
        editor=editor,
        text="\n".join(block.lines),
        requirement=requirement,
        solved="\n".join(block.rest),
    )


def _run_page(title: str, words: list[str], block: _Block) -> Page:
    if not block.lines:
        raise ValueError("its block has no first line")
    goal = block.directives.get("goal", "")
    if not goal and not block.asks:
        raise ValueError("it has neither a goal nor a question")
    limit = block.directives.get("limit")
    solution = block.directives.get("solution", "")
    return Page(
        title,
        words,
        goal,
        str(parse_goal(goal)) if goal else "",
        name=block.directives.get("name", ""),
        level=int(block.directives["level"]) if "level" in block.directives else None,
        asks=block.asks,
        first=block.lines[0],
        moves=block.lines[1:],
        limit=None if limit is None else int(limit),
        bound=_bound(block.directives.get("allow", "")),
        solution=[move.strip() for move in solution.split(";") if move.strip()],
    )


def _bound(allowed: str) -> Bound:
    pairs = [each.split() for each in allowed.split(",") if each.strip()]
    return Bound(**{kind: int(count) for kind, count in pairs})


def _block(lines: Iterable[str]) -> _Block:
    block = _Block([], {}, [], [])
    for line in lines:
        if line.startswith("@ask "):
            text, _, measure = line.removeprefix("@ask ").rpartition(" = ")
            block.asks.append(Ask(text.strip(), check_quantity(measure.strip())))
        elif line.startswith("@"):
            name, _, value = line[1:].partition(" ")
            block.directives[name] = value.strip()
        elif "solution" in block.directives:
            block.rest.append(line)
        elif line.strip():
            block.lines.append(line.strip() if not block.lines else line.rstrip())
    return block
