"""A whole atlas as data: every state, every move and every fate, to be played without this program.

Each state of a process, each message and each fate stands once in a table, and states name them by
their places there. Messages of a link that reorders are named by their whole text, since two ways to
one state may have sent them in different orders. A crashed process has no memory, and what is under
way to it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from coterie.lab.play.exploration.atlas import Searched, ended
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.fate import Fate
from coterie.lab.play.exploration.judgement import judge
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.run import ProcessState, Violation, state_of
from coterie.trace import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.play.exploration.atlas import Atlas
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move
    from coterie.process import ProcessId

STATES_MAX = 20_000
ItemT = TypeVar("ItemT")


class MapState(msgspec.Struct, frozen=True, array_like=True):
    """A state by places in the tables of its map."""

    processes: list[int]  # one for each process
    transit: list[int]  # messages under way
    fate: int
    moves: list[tuple[int, int]]  # a command, and the state it leads to; -1, -2 and so on: an end


class Map(msgspec.Struct, frozen=True):
    """All states that can be reached within a bound; the first one is the start."""

    first: str
    size: int
    channel: str
    bound: Bound
    searched: Searched
    processes: list[ProcessState]
    messages: list[tuple[int, int, str]]  # sender, receiver and text
    commands: list[str]
    fates: list[Fate]
    states: list[MapState]
    ends: list[Violation]  # that runs come to: -1 is the first of them, -2 the second
    properties: list[str]  # that are judged


class _Table(Generic[ItemT]):
    """Things, each once, with their places."""

    def __init__(self) -> None:
        self.items: list[ItemT] = []
        self._places: dict[bytes, int] = {}

    def place(self, item: ItemT) -> int:
        place = self._places.setdefault(msgspec.msgpack.encode(item), len(self.items))
        if place == len(self.items):
            self.items.append(item)
        return place


def draw_map(first: str, play: Play, atlas: Atlas) -> Map:
    """Write an atlas as a map; `play` has just been started."""
    searched = atlas.searched
    if not searched.complete or searched.states > STATES_MAX:
        raise Refusal(f"a map has at most {STATES_MAX:,} states: {searched.text}")
    return _Cartographer(atlas).draw(first, play)


class _Cartographer:
    """Walks every way once."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._processes: _Table[ProcessState] = _Table()
        self._messages: _Table[tuple[int, int, str]] = _Table()
        self._commands: _Table[str] = _Table()
        self._fates: _Table[Fate] = _Table()
        self._ends: _Table[Violation] = _Table()
        self._places: dict[int, int] = {}  # of states of the atlas among those of the map
        self._found: list[Play] = []

    def draw(self, first: str, play: Play) -> Map:
        self._place(play)
        states: list[MapState] = []
        while len(states) < len(self._found):
            here = self._found[len(states)]
            states.append(self._state(here))
            self._found[len(states) - 1] = play  # it is not needed any more
        return Map(
            first=first,
            size=play.header.size,
            channel=play.channel.value,
            bound=self._atlas.scope.bound,
            searched=self._atlas.searched,
            processes=self._processes.items,
            messages=self._messages.items,
            commands=self._commands.items,
            fates=self._fates.items,
            states=states,
            ends=self._ends.items,
            properties=[x.name for x in judge(play, None, Searched()) if not x.by_check],
        )

    def _state(self, play: Play) -> MapState:
        world = play.world
        fate = self._atlas.look(play)
        assert fate is not None, "every state was found on the atlas"
        letters = [
            (x.sender, x.receiver, label(x.message))
            for x in world.transit
            if x.receiver not in world.crashed
        ]
        return MapState(
            [self._processes.place(_forgetful(play, process)) for process in world.seats],
            [self._messages.place(letter) for letter in letters],
            self._fates.place(fate),
            list(self._moves(play)),
        )

    def _moves(self, play: Play) -> Iterator[tuple[int, int]]:
        for move in play.enabled():
            dead_letter = move.kind == "drop" and move.process in play.world.crashed
            if dead_letter or not self._atlas.scope.allows(play, move):
                continue
            after = play.fork()
            after.move(move.text)
            target = self._end(after) if after.over else self._place(after)
            if target is not None:
                yield self._commands.place(_command(play, move)), target

    def _end(self, play: Play) -> int:
        fate = ended(play)
        return -1 - self._ends.place(Violation(fate.violated or "", fate.text))

    def _place(self, play: Play) -> int | None:
        number = self._atlas.find(play)
        if number is None:  # the explorer does not lose what is not the oldest of a link
            return None
        place = self._places.setdefault(number, len(self._found))
        if place == len(self._found):
            self._found.append(play)
        return place


def _forgetful(play: Play, process: ProcessId) -> ProcessState:
    """Return a process as it is; a crashed one has no memory."""
    state = state_of(play.world, process)
    crashed = process in play.world.crashed
    return msgspec.structs.replace(state, fields={}) if crashed else state


def _command(play: Play, move: Move) -> str:
    """Name a message by its text where another is on the same link."""
    if move.kind not in ("deliver", "repeat", "drop"):
        return move.text
    link = [x for x in play.world.transit if (x.sender, x.receiver) == (move.peer, move.process)]
    command = f"{move.kind} {move.peer} > {move.process}"
    return f"{command} {move.name}" if len(link) > 1 else command
