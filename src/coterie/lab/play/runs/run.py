"""A run: a first line and moves, played, with what each step did and the states it led to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import CoterieError, UsageError
from coterie.lab.play.runs.address import MOVES_MAX, code_of
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.scenario.play import Play, read_first_line
from coterie.process import ElectionUser, MutexUser, plain
from coterie.trace import AnyRecord, Violated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.scenario.world import Manual, Move
    from coterie.process import ProcessId

SIZE_MAX = 9
POSSIBLE_MAX = 60  # moves named in a refusal


class ProcessState(msgspec.Struct, frozen=True):
    """A process at one moment; `changed` names what is not as it was before the last step."""

    process: int
    phase: str  # idle, waiting, inside, crashed; of an election: the leader followed, or none
    fields: dict[str, Any]
    timers: dict[str, float]
    watches: list[int]
    changed: list[str] = []


class Violation(msgspec.Struct, frozen=True):
    """A property that was violated by a step, which ends the run."""

    name: str
    text: str


class Step(msgspec.Struct, frozen=True):
    """One move and what came of it. Step 0 is the start of all processes."""

    number: int
    move: str
    code: str
    kind: str
    process: int
    peer: int
    name: str
    records: list[AnyRecord]
    states: list[ProcessState]  # of the process that moved; at step 0, of all
    violation: Violation | None = None


class RefusedMove(msgspec.Struct, frozen=True):
    """Why a move cannot be made, its place among the moves, and the moves that are possible there."""

    error: str
    at: int
    possible: list[str]

    def as_refusal(self) -> Refusal:
        """Return the error for a question that needs every move."""
        return Refusal(self.error, self.at, self.possible)


class Run(msgspec.Struct, frozen=True):
    """Steps, and the play in which they end, which is never moved again: fork it."""

    first: str
    steps: list[Step]
    play: Any  # a Play
    refusal: RefusedMove | None = None  # of the move after the last step

    @property
    def moves(self) -> list[str]:
        """The moves made, as commands."""
        return [step.move for step in self.steps[1:]]

    def extended(self, moves: Sequence[str]) -> Run:
        """Return the run with more moves made, up to one that is refused. `run` is many moves."""
        play, steps = self.play.fork(), [*self.steps]
        for text in moves:
            try:
                if text.split() == ["run"]:
                    _run(play, steps)
                else:
                    _step(play, steps, text)
            except CoterieError as error:
                possible = [move.text for move in play.enabled()][:POSSIBLE_MAX]
                refused = RefusedMove(str(error), len(steps) - 1, possible)
                return Run(self.first, steps, play, refused)
        return Run(self.first, steps, play)

    def play_at(self, cursor: int) -> Play:
        """Return the play as it was after this many moves."""
        if cursor == len(self.steps) - 1:
            fork: Play = self.play.fork()
            return fork
        play = _begin(self.first)
        for step in self.steps[1 : cursor + 1]:
            play.move(step.move)
        return play

    def states_at(self, cursor: int) -> list[ProcessState]:
        """Return all processes as they were after this many moves, with what the last one changed."""
        states: dict[ProcessId, ProcessState] = {}
        for step in self.steps[: cursor + 1]:
            for state in step.states:
                states[state.process] = state
        last = [state.process for state in self.steps[cursor].states]
        return [
            state if state.process in last else msgspec.structs.replace(state, changed=[])
            for _, state in sorted(states.items())
        ]


def begin_run(first: str) -> Run:
    """Start the processes of a first line; raise a `Refusal` if there are none of that name."""
    try:
        play = _begin(first)
    except CoterieError as error:
        raise Refusal(str(error)) from None
    states = [state_of(play.world, process) for process in play.world.seats]
    step = Step(0, "", "", "start", 0, 0, "", [*play.world.records], states, _violation(play))
    return Run(first, [step], play)


def _begin(first: str) -> Play:
    # Clocks stand still, as they do for the explorer; else played states would not be explored ones.
    header, channel = read_first_line(first, clock="none")
    if header.size > SIZE_MAX:
        raise UsageError(f"at most {SIZE_MAX} processes can be played, not {header.size}")
    play = Play(header, channel)
    play.start()
    return play


def _run(play: Play, steps: list[Step]) -> None:
    while not play.over and (move := play.next_delivery()) is not None:
        _make(play, steps, move)


def _step(play: Play, steps: list[Step], text: str) -> None:
    if play.over:
        raise UsageError("the run ended with a violation")
    _make(play, steps, play.meant(text))


def _make(play: Play, steps: list[Step], move: Move) -> None:
    if len(steps) > MOVES_MAX:
        raise UsageError(f"a run has at most {MOVES_MAX:,} moves")
    before = len(play.world.records)
    play.move(move.text)
    old = next(
        state for step in reversed(steps) for state in step.states if state.process == move.process
    )
    new = state_of(play.world, move.process)
    steps.append(
        Step(
            number=len(steps),
            move=move.text,
            code=code_of(move.text),
            kind=move.kind,
            process=move.process,
            peer=move.peer,
            name=move.name,
            records=play.world.records[before:],
            states=[msgspec.structs.replace(new, changed=changed(old, new))],
            violation=_violation(play),
        )
    )


def state_of(world: Manual, process: ProcessId) -> ProcessState:
    """Return one process as it is now."""
    seat = world.seats[process]
    fields = plain(seat.process)
    del fields["me"]
    return ProcessState(
        process=process,
        phase="crashed" if process in world.crashed else _phase(seat.user),
        fields=fields,
        timers=plain(world.timers[process]),
        watches=sorted(world.watched[process]),
    )


def _phase(user: Any) -> str:
    match user:
        case MutexUser():
            return user.phase.name.lower()
        case ElectionUser(leader=None):
            return "no leader"
        case ElectionUser():
            return f"follows {user.leader}"
        case _:
            return "at work"


def changed(old: ProcessState, new: ProcessState) -> list[str]:
    """Name what is not as it was."""
    names = [
        name for name in ("phase", "timers", "watches") if getattr(old, name) != getattr(new, name)
    ]
    return names + [name for name, value in new.fields.items() if old.fields.get(name) != value]


def _violation(play: Play) -> Violation | None:
    last = play.world.records[-1] if play.world.records else None
    return Violation(last.name, last.text) if isinstance(last, Violated) else None
