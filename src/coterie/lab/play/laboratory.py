"""The laboratory: answers about runs, each a function of its question, all of them bounded.

`play` is quick, and several threads may ask at once. `fates` and `way` search; let one thread ask
these, one question at a time, and cancel a question when a newer one comes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.catalogue import every_algorithm, find
from coterie.lab.explore.budget import Budget
from coterie.lab.play.entries import Entry, entry_of
from coterie.lab.play.exploration.atlas import STATES_MAX, Searched, build, ended, horizon
from coterie.lab.play.exploration.attempt import NOT_JUDGED, judge_attempt
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.judgement import judge
from coterie.lab.play.exploration.map import STATES_MAX as MAP_STATES_MAX
from coterie.lab.play.exploration.map import draw_map
from coterie.lab.play.exploration.review import find_blunder, point_of_no_return
from coterie.lab.play.exploration.scope import is_timed, limits, unexplored
from coterie.lab.play.exploration.time_bounds import time_fates
from coterie.lab.play.exploration.violation import first_violation
from coterie.lab.play.proofs.solver_process import SolverProcess
from coterie.lab.play.questions import (
    Enabled,
    Fates,
    Message,
    Position,
    Question,
    Way,
)
from coterie.lab.play.recent import Recent
from coterie.lab.play.runs.address import (
    MOVES_MAX,
    TEXT_MAX,
    RunAddress,
    code_of,
    read_address,
    write_address,
)
from coterie.lab.play.runs.code import Handler, handlers_of
from coterie.lab.play.runs.refusal import Refusal, Superseded
from coterie.lab.play.runs.run import Run, begin_run
from coterie.lab.play.waits import explain_waits
from coterie.trace import label

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.play.exploration.atlas import Atlas
    from coterie.lab.play.exploration.attempt import Attempt, Task
    from coterie.lab.play.exploration.fate import Fate
    from coterie.lab.play.exploration.goal import Goal
    from coterie.lab.play.exploration.map import Map
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move

RUNS_MAX = 512  # short ones; a long one counts for several
MILLISECONDS_MAX = 2_000
ATLASES_STATES_MAX = 2 * STATES_MAX
HISTORIES_MAX = 64
TRIES_MAX = 3  # at a whole atlas, while the machine is busy
HORIZON_SHARE = 4  # of the budget, this part is for looking on from the present state


class Laboratory:
    """Answers questions, or raises a `Refusal`. What it remembers only makes it faster.

    A search that its asker cancels raises `Superseded`.
    """

    def __init__(self, milliseconds_max: int = MILLISECONDS_MAX) -> None:
        """Start with nothing remembered; no search takes much longer than this, whatever is asked."""
        self._milliseconds_max = milliseconds_max
        self.solver = SolverProcess()
        self._runs: Recent[Run] = Recent(RUNS_MAX)
        self._atlases: Recent[Atlas] = Recent(ATLASES_STATES_MAX)
        self._too_large: Recent[_Attempt] = Recent(RUNS_MAX)
        self._histories: Recent[list[Fate | None]] = Recent(HISTORIES_MAX)

    def catalogue(self) -> list[Entry]:
        """List the algorithms, with all that can be chosen about them."""
        return [entry_of(each) for each in every_algorithm(loaded=True).values()]

    def open(self, text: str) -> RunAddress:
        """Read the fragment of an address; raise a `Refusal` if it is none, or bounds are out of range."""
        address = read_address(text)
        Bound(**address.bounds).check()
        return address

    def play(self, question: Question) -> Position:
        """Play a run, and show where the reader stands."""
        run = self._run(question)
        cursor = _cursor(run, question)
        play = run.play_at(cursor)
        header, moves = play.header, run.moves
        known = min(max(question.known, 0), len(run.steps))
        return Position(
            first=run.first,
            algorithm=header.algorithm,
            size=header.size,
            variant=header.variant or find(header.algorithm).variants[0].name,
            channel=play.channel.value,
            moves=moves,
            codes=[step.code for step in run.steps[1:]],
            cursor=cursor,
            address=write_address(RunAddress(run.first, moves, cursor)),
            known=known,
            steps=run.steps[known:],
            states=run.states_at(cursor),
            transit=[
                Message(x.number, x.sender, x.receiver, label(x.message))
                for x in play.world.transit
            ],
            enabled=[_enabled(move) for move in play.enabled()],
            properties=judge(play, None, Searched()),
            why=explain_waits(play),
            notes=[note for note in [unexplored(play) or limits(play)] if note],
            refusal=run.refusal,
        )

    def code(self, question: Question) -> list[Handler]:
        """Return what the reader's last move has called, and the lines that it has executed."""
        run = self._run(question)
        return handlers_of(run, _cursor(run, question))

    def play_whole(self, question: Question) -> Position:
        """Play a run; refuse it if one of its moves cannot be made."""
        position = self.play(question)
        if position.refusal is not None:
            raise position.refusal.as_refusal()
        return position

    def fates(self, question: Question, cancelled: Callable[[], bool] | None = None) -> Fates:
        """Say what the reader's place, and each possible move, lead to."""
        sought = self._search(question, cancelled)
        run, cursor, play, atlas, whole = sought
        if atlas is None:
            return _unsearched(run, cursor, play)
        here = atlas.look(play)
        moves = play.enabled()
        ahead = atlas.look_ahead(play, moves)
        history = [] if whole is None else [*self._history(run, question.bound, whole)]
        if history:
            history[cursor] = here  # maybe from the horizon
        point = point_of_no_return(history)
        blunder = None
        if point and whole is not None:
            before = run.play_at(point - 1)
            blunder = find_blunder(before, whole, point, run.steps[point].move)
        return Fates(
            cursor=cursor,
            here=here,
            moves={move.text: fate for move, fate in zip(moves, ahead, strict=True)},
            searched=atlas.searched,
            properties=judge(play, here, atlas.searched),
            why=explain_waits(play, here.processes if here is not None else ()),
            history=history,
            no_return=point,
            blunder=blunder,
        )

    def way(self, question: Question, cancelled: Callable[[], bool] | None = None) -> Way:
        """Find the fewest moves from the reader's place to a violation."""
        question.bound.check()
        known = self._atlases.get((question.first, question.bound))
        if known is None and not question.moves:
            # From the start a search that stops at the first violation sees far less than an atlas.
            return self._way_from_start(question, cancelled or (lambda: False))
        sought = self._search(question, cancelled)
        run, cursor, play, atlas, _ = sought
        moves = None if atlas is None else atlas.way(play)
        searched = Searched() if atlas is None else atlas.searched
        return _way(run, cursor, moves, searched)

    def _way_from_start(self, question: Question, cancelled: Callable[[], bool]) -> Way:
        run = self._run(question)
        if unexplored(run.play) is not None or run.steps[0].violation is not None:
            return _way(run, 0, None, Searched())
        seconds = self._milliseconds(question) / 1000
        found = first_violation(run.play, question.bound, seconds, cancelled)
        return _way(run, 0, found.moves, found.searched)

    def reaches(self, question: Question, goal: Goal) -> bool:
        """Return whether the reader's place is one that a goal asks for; refuse if that is undecided."""
        if goal.is_seen:
            run = self._run(question)
            seen = run.play_at(_cursor(run, question))
            return goal.reached(seen, ended(seen) if seen.over else None)
        sought = self._search(question, None)
        play, atlas = sought.play, sought.atlas
        here = ended(play) if play.over else None if atlas is None else atlas.look(play)
        reached = goal.reached(play, here)
        if reached or play.over:
            return reached
        searched = Searched() if atlas is None else atlas.searched
        if not goal.is_decided(here, searched):
            raise Refusal(f"undecided: not reached as far as was searched ({searched.text})")
        return False

    def attempt(
        self, question: Question, task: Task, cancelled: Callable[[], bool] | None = None
    ) -> Attempt:
        """Say whether a run does a task, after how many moves, and in how few it could be done."""
        sought = self._search(question, cancelled)
        if sought.whole is None:
            raise Refusal(NOT_JUDGED)
        return judge_attempt(sought.run, sought.cursor, sought.whole, task)

    def hint(
        self, question: Question, task: Task, cancelled: Callable[[], bool] | None = None
    ) -> Way:
        """Find the fewest moves from the reader's place that do a task."""
        sought = self._search(question, cancelled)
        if sought.whole is None:
            raise Refusal(NOT_JUDGED)
        moves = sought.whole.way_to(sought.play, task.goal)
        codes = None if moves is None else [code_of(move) for move in moves]
        return Way(moves, codes, sought.whole.searched)

    def map(self, question: Question, cancelled: Callable[[], bool] | None = None) -> Map:
        """Write all that can be reached from the start as data, if it is not too much."""
        question.bound.check()
        run = self._run(question)
        play = run.play_at(0)
        if unexplored(play) is not None or run.steps[0].violation is not None:
            raise Refusal(unexplored(play) or "a process raised an error as it began")
        atlas = self._atlases.get((run.first, question.bound))
        if atlas is None:
            seconds = self._milliseconds(question) / 1000
            budget = Budget(MAP_STATES_MAX + 1, seconds, cancelled=cancelled)
            atlas = build(play, question.bound, budget)
        if cancelled is not None and cancelled():
            raise Superseded
        return draw_map(run.first, play, atlas)

    def _search(self, question: Question, cancelled: Callable[[], bool] | None) -> _Sought:
        """Find an atlas that the reader's place lies on."""
        question.bound.check()
        run = self._run(question)
        cursor = _cursor(run, question)
        play = run.play_at(cursor)
        if unexplored(play) is not None or run.steps[0].violation is not None:
            return _Sought(run, cursor, play, None, None)
        atlas = whole = self._whole(run.first, play, question, cancelled)
        if atlas is None or not (play.over or atlas.find(play) is not None):
            atlas = None if play.over else self._horizon(play, question, cancelled)
        if cancelled is not None and cancelled():
            raise Superseded
        return _Sought(run, cursor, play, atlas, whole)

    def _run(self, question: Question) -> Run:
        """Play a run, going on from what was played before."""
        moves = tuple(question.moves)
        if len(moves) > MOVES_MAX:
            raise Refusal(f"a run has at most {MOVES_MAX:,} moves, not {len(moves):,}")
        characters = len(question.first) + sum(map(len, moves))
        if characters > TEXT_MAX:
            raise Refusal(f"a run has at most {TEXT_MAX:,} characters, not {characters:,}")
        known = self._runs.get((question.first, moves))
        if known is not None:
            return known
        shorter = self._runs.get((question.first, moves[:-1])) if moves else None
        if shorter is not None and shorter.refusal is None:
            run = shorter.extended(moves[-1:])
        else:
            run = begin_run(question.first).extended(moves)
        weight = 1 + characters // 1_000 + len(run.steps) // 50
        self._runs.put((question.first, moves), run, weight)
        return run

    def _whole(
        self, first: str, play: Play, question: Question, cancelled: Callable[[], bool] | None
    ) -> Atlas | None:
        """Return the atlas of all that can be reached from the start, unless it is too large."""
        key = (first, question.bound)
        known = self._atlases.get(key)
        milliseconds = self._milliseconds(question)
        before = self._too_large.get(key)
        if known is not None or (before is not None and not before.is_worth_another(milliseconds)):
            return known
        seconds = milliseconds * (HORIZON_SHARE - 1) / HORIZON_SHARE / 1000
        began = time.process_time()
        atlas = build(play, question.bound, Budget(STATES_MAX, seconds, cancelled=cancelled))
        if atlas.searched.complete:
            self._atlases.put(key, atlas, atlas.searched.states)
            return atlas
        if cancelled is None or not cancelled():
            busy = time.process_time() - began < seconds / 2
            tries = 1 if before is None else before.tries + 1
            self._too_large.put(key, _Attempt(milliseconds, tries, busy=busy))
        return None

    def _horizon(
        self, play: Play, question: Question, cancelled: Callable[[], bool] | None
    ) -> Atlas:
        seconds = self._milliseconds(question) / HORIZON_SHARE / 1000
        return horizon(play, question.bound, Budget(STATES_MAX, seconds, cancelled=cancelled))

    def _milliseconds(self, question: Question) -> int:
        return min(max(question.budget_ms, 0), self._milliseconds_max)

    def _history(self, run: Run, bound: Bound, atlas: Atlas) -> list[Fate | None]:
        """Return the fate after each number of moves, going on from what was looked up before."""
        moves = tuple(run.moves)
        known = self._histories.get((run.first, moves, bound))
        if known is not None:
            return known
        fates = self._histories.get((run.first, moves[:-1], bound)) if moves else None
        if fates is not None:
            fates = [*fates, atlas.look(run.play)]
        else:
            play = run.play_at(0)
            fates = [atlas.look(play)]
            for move in moves:
                play.move(move)
                fates.append(atlas.look(play))
        self._histories.put((run.first, moves, bound), fates)
        return fates


def _unsearched(run: Run, cursor: int, play: Play) -> Fates:
    """Say what can be said without a search: what shows, and whether bounds of time are kept."""
    timed = time_fates(run, cursor) if is_timed(play) else None
    here, moves = (None, {}) if timed is None else timed
    if play.over:
        shown = ended(play)
        text = shown.text if here is None else f"{shown.text}, {here.text.partition(';')[0]}"
        here, moves = msgspec.structs.replace(shown, text=text), {}
    return Fates(
        cursor, here, moves, Searched(), judge(play, here, Searched()), explain_waits(play)
    )


class _Attempt(NamedTuple):
    """A search for a whole atlas that was cut."""

    milliseconds: int
    tries: int
    busy: bool  # other programs had most of the time

    def is_worth_another(self, milliseconds: int) -> bool:
        """Return whether a further search may come to its end."""
        return milliseconds > self.milliseconds or (self.busy and self.tries < TRIES_MAX)


class _Sought(NamedTuple):
    """A run, the reader's place in it, and an atlas with that place on it; None: there is none."""

    run: Run
    cursor: int
    play: Play
    atlas: Atlas | None
    whole: Atlas | None  # of all that can be reached from the start, if that is not too large


def _way(run: Run, cursor: int, moves: list[str] | None, searched: Searched) -> Way:
    if moves is None:
        return Way(None, None, searched)
    whole = [*run.moves[:cursor], *moves]
    address = write_address(RunAddress(run.first, whole, len(whole)))
    return Way(moves, [code_of(move) for move in moves], searched, address)


def _cursor(run: Run, question: Question) -> int:
    end = len(run.steps) - 1
    return end if question.cursor is None else min(max(question.cursor, 0), end)


def _enabled(move: Move) -> Enabled:
    code = code_of(move.text)
    return Enabled(
        move.text, code, move.kind, move.process, move.peer, move.name, fault=move.is_fault
    )
