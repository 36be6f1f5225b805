"""The fewest moves to a goal by forking plays, one state at a time: slow, and independent of the atlas."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coterie.lab.play.exploration.goal import parse_goal
from coterie.lab.scenario.play import Play, begin
from coterie.process import Channel, ElectionUser, MutexUser, Phase, encode
from coterie.trace import Violated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.play.exercises.page import Page
    from coterie.lab.play.exploration.bound import Bound
    from coterie.lab.scenario.world import Move

Key = tuple[Any, ...]
FUTURE = ("starve", "stuck")  # goals that say what can never happen


class Exhaustive:
    """Every state that a page of moves can lead to within its bound, in breadth."""

    def __init__(self, page: Page) -> None:
        """Play the given moves; nothing is searched yet."""
        self.goal = parse_goal(page.goal)
        self.bound: Bound = page.bound
        self.first = begin(page.first, clock="none")
        self.first.start()
        for move in page.moves:
            self.first.move(move)
        self.plays: dict[Key, Play] = {}
        self.before: dict[Key, list[tuple[Key, bool]]] = {}  # by moves without a fault; is it sure?

    def fewest(self) -> int | None:
        """Return the fewest moves to the goal, or None if it cannot be reached."""
        if self.goal.kind in FUTURE:
            levels = [list(level) for level in self.levels()]
            bad = self.past_saving() if self.goal.kind == "stuck" else self.starved()
            return next((n for n, level in enumerate(levels) if bad & {*level}), None)
        for number, level in enumerate(self.levels()):
            if any(self.shows(self.plays[key]) for key in level):
                return number
        return None

    def levels(self) -> Iterator[list[Key]]:
        """Yield the states by their distance."""
        level = [self.key(self.first)]
        self.plays[level[0]] = self.first
        while level:
            yield level
            level = [new for key in level for new in self.expand(key)]

    def expand(self, key: Key) -> Iterator[Key]:
        """Make every move from a state, and yield what is new."""
        play = self.plays[key]
        for move in play.enabled():
            if not self.allows(play, move):
                continue
            after = play.fork()
            after.move(move.text)
            target = self.key(after)
            if not move.is_fault:
                sure = move.kind != "call" or move.name == "release"
                self.before.setdefault(target, []).append((key, sure))
            if target not in self.plays:
                self.plays[target] = after
                yield target

    def allows(self, play: Play, move: Move) -> bool:
        """Return whether the bound allows a move."""
        spent = play.spent
        match move.kind:
            case "call" if move.name != "release":
                return play.asked[move.process] < self.bound.entries
            case "crash":
                return spent["crash"] < self.bound.crashes
            case "drop":
                to_dead = move.process in play.world.crashed
                return not to_dead and spent["drop"] < self.bound.losses
            case "repeat":
                return spent["repeat"] < self.bound.duplicates
            case "suspect":
                return spent["suspect"] < self.bound.suspicions
            case kind:
                return kind != "restart"

    def key(self, play: Play) -> Key:
        """Return all that decides what can follow."""
        world = play.world
        if play.over:
            last = world.records[-1]
            assert isinstance(last, Violated)
            return (last.name, last.text, *self.phases(play))
        links: dict[tuple[int, int], list[bytes]] = {}
        for letter in world.transit:
            if letter.receiver not in world.crashed:
                links.setdefault((letter.sender, letter.receiver), []).append(
                    encode(letter.message)
                )
        fifo = play.channel is Channel.FIFO
        letters = tuple((*link, *(x if fifo else sorted(x))) for link, x in sorted(links.items()))
        seats = tuple(
            None
            if me in world.crashed
            else (
                encode(seat.process),
                encode(seat.user),
                *sorted(world.timers[me]),
                *sorted(world.watched[me]),
                play.asked[me],
            )
            for me, seat in world.seats.items()
        )
        return (seats, letters, tuple(sorted((+Counter(play.spent)).items())))

    def phases(self, play: Play) -> list[Phase | None]:
        """Return the phase of each process; a crashed one has none."""
        users = {me: seat.user for me, seat in play.world.seats.items()}
        return [
            user.phase if isinstance(user, MutexUser) and me not in play.world.crashed else None
            for me, user in users.items()
        ]

    def rests(self, play: Play) -> bool:
        """Return whether nothing is sure to happen any more."""
        sure = ("deliver", "ring", "down")
        return not play.over and not any(
            move.kind in sure or move.name == "release" for move in play.enabled()
        )

    def disagrees(self, play: Play) -> bool:
        """Return whether live processes do not all follow one live leader."""
        live = {me: x.user for me, x in play.world.seats.items() if me not in play.world.crashed}
        leaders = {user.leader for user in live.values() if isinstance(user, ElectionUser)}
        return bool(leaders) and not (len(leaders) == 1 and leaders <= live.keys())

    def violated(self, play: Play) -> bool:
        """Return whether a violation shows."""
        return play.over or (
            self.rests(play) and (Phase.WAITING in self.phases(play) or self.disagrees(play))
        )

    def shows(self, play: Play) -> bool:
        """Return whether a play has reached a goal that one state shows."""
        phases, last = self.phases(play), play.world.records[-1]
        name = last.name if play.over and isinstance(last, Violated) else ""
        match self.goal.kind:
            case "two inside":
                return name == "mutual exclusion"
            case "error":
                return bool(name) and name != "mutual exclusion"
            case "deadlock":
                return self.rests(play) and Phase.WAITING in phases
            case "disagree":
                return self.rests(play) and self.disagrees(play)
            case "inside":
                waits = not self.goal.other or phases[self.goal.other - 1] is Phase.WAITING
                return phases[self.goal.process - 1] is Phase.INSIDE and waits
            case "served":
                asked = all(play.asked[me] for me in play.world.seats)
                return asked and set(phases) == {Phase.IDLE}
            case kind:
                raise AssertionError(f"no goal {kind}")

    def starved(self) -> set[Key]:
        """Return the states in which the process waits, and is let in on no way without faults."""
        let_in = {x for x, play in self.plays.items() if play.over or not self.waits(play)}
        return self.plays.keys() - self.leading_to(let_in)

    def waits(self, play: Play) -> bool:
        """Return whether the process of the goal lives and waits."""
        return self.phases(play)[self.goal.process - 1] is Phase.WAITING

    def past_saving(self) -> set[Key]:
        """Return the states that are wrong, and from which no way leads to where all stays well.

        Wrong is what violates a property, and what an election cannot end well without another call.
        """
        wrong = {key for key, play in self.plays.items() if self.violated(play)}
        rests = {key for key, play in self.plays.items() if play.over or self.rests(play)}
        wrong |= self.plays.keys() - self.leading_to(rests - wrong, sure=True)
        well = self.plays.keys() - self.leading_to(wrong)
        return wrong - self.leading_to(well)

    def leading_to(self, goals: set[Key], *, sure: bool = False) -> set[Key]:
        """Return the states from which a goal can be reached without a fault, or without a call either."""
        found, border = {*goals}, [*goals]
        while border:
            for key, is_sure in self.before.get(border.pop(), []):
                if key not in found and (is_sure or not sure):
                    found.add(key)
                    border.append(key)
        return found
