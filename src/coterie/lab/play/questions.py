"""What a page asks of the laboratory, and what it is answered, all of it JSON."""

from __future__ import annotations

import msgspec

from coterie.lab.play.exploration.atlas import Searched
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.fate import Fate
from coterie.lab.play.exploration.judgement import Judgement
from coterie.lab.play.exploration.review import Blunder
from coterie.lab.play.runs.run import ProcessState, RefusedMove, Step


class Question(msgspec.Struct, frozen=True):
    """A run, where the reader stands in it, and what could happen."""

    first: str
    moves: list[str] = []  # commands of scenarios; `run` stands for many
    cursor: int | None = None  # how many moves the reader has gone through; None: all
    bound: Bound = Bound()
    known: int = 0  # so many steps need not be sent
    budget_ms: int = 1_000  # for a search, about


class Message(msgspec.Struct, frozen=True):
    """A message under way."""

    number: int
    sender: int
    receiver: int
    label: str


class Enabled(msgspec.Struct, frozen=True):
    """A move that is possible where the reader stands."""

    text: str
    code: str
    kind: str
    process: int
    peer: int
    name: str
    fault: bool


class Why(msgspec.Struct, frozen=True):
    """Why a process waits, in sentences; if it waits in vain, the processes that keep it waiting."""

    process: int
    sentences: list[str]
    deadlock: str | None = None  # cycle, knot or b-knot
    core: list[int] = []


class Position(msgspec.Struct, frozen=True):
    """Everything about a run and the place where the reader stands, except what it leads to."""

    first: str
    algorithm: str
    size: int
    variant: str
    channel: str
    moves: list[str]  # as they were understood
    codes: list[str]
    cursor: int
    address: str
    known: int  # the number of the first step below
    steps: list[Step]
    states: list[ProcessState]
    transit: list[Message]
    enabled: list[Enabled]
    properties: list[Judgement]
    why: list[Why]
    notes: list[str]
    refusal: RefusedMove | None = None  # of the move after the last step


class Fates(msgspec.Struct, frozen=True):
    """What the place where the reader stands, and each possible move, lead to."""

    cursor: int
    here: Fate | None  # None: not searched
    moves: dict[str, Fate]  # by command
    searched: Searched
    properties: list[Judgement]
    why: list[Why] = []
    history: list[Fate | None] = []  # after 0, 1, 2 and more moves of the whole run
    no_return: int | None = None  # after so many moves the run was past saving
    blunder: Blunder | None = None


class Way(msgspec.Struct, frozen=True):
    """The fewest moves from the reader's place to a violation; None: there is none."""

    moves: list[str] | None
    codes: list[str] | None
    searched: Searched
    address: str | None = None  # of the run that goes this way
