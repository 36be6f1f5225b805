"""The real processes held against a page: each of their steps is a few steps of it, or none.

A proof is about a page, and a page alone is a second truth beside the code. A link maps a state of
the processes and of what is under way to a state of the page; then for each state that the explorer
reaches the clauses hold, and for each step there is a path of the page, all of it at the process
that made the step. No solver takes part. For a few processes that is every step; with more, those
of random runs.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from coterie.lab.explore.check import declared_channel
from coterie.lab.explore.small import GivenUpError, SmallModel
from coterie.lab.prove.plain import PlainPage
from coterie.process import MutexUser, Phase, ProcessId, seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.prove.page import Page
    from coterie.lab.prove.plain import Fixed, Move, State, Things
    from coterie.process import Process, Seat

States: TypeAlias = tuple[Any, ...]  # a state as the explorer has it
Builder: TypeAlias = "Callable[[Trial, str], Sequence[Process[Any]]]"  # for a trial and a variant

# From a state of the page, and that after a step of the code: which steps of the page may lie between.
Ways: TypeAlias = "Callable[[State, State], Iterable[Sequence[tuple[str, tuple[Any, ...]]]]]"

STEPS = 400  # of a random run
STATES_MAX = 6_000  # of a search of all states
SHOWN_MAX = 2_000  # characters of a state


class Trial(NamedTuple):
    """How many processes are held against a page, and for how long."""

    size: int
    entries: int
    runs: int = 0  # random ones; 0 for all states
    crashes: int = 0  # at most
    restarts: int = 0  # of each process at most, where the link builds some that can


TRIALS = (Trial(2, 2), Trial(3, 1), Trial(5, 3, runs=5), Trial(7, 2, runs=3))


class UnmappedError(Exception):
    """A state of the code that the page cannot express."""


class Sent(NamedTuple):
    """A message under way."""

    sender: ProcessId
    receiver: ProcessId
    message: Any


class Snapshot:
    """A state of all processes and links, for the function that maps it to a page."""

    def __init__(
        self,
        seats: Sequence[Seat],
        links: dict[tuple[ProcessId, ProcessId], list[Any]],
        past: State | None = None,
        crashed: Sequence[ProcessId] = (),
        moment: Fraction = Fraction(0),
    ) -> None:
        """Take the seats in order of ids, and the messages on each link, the next to arrive first."""
        self._seats = seats
        self.crashed = crashed
        self.moment = moment  # where time is kept
        self.links = links
        self.past = past or {}  # the page's state before, of what lasts

    @property
    def processes(self) -> list[Any]:
        """The processes, in order of ids."""
        return [seat.process for seat in self._seats]

    def users(self, *phases: Phase) -> set[ProcessId]:
        """Name the processes whose users are in one of these phases."""
        return {
            seat.process.me
            for seat in self._seats
            if isinstance(seat.user, MutexUser) and seat.user.phase in phases
        }

    def sent(self, kind: str) -> list[Sent]:
        """List the messages of a kind, by the name of its class."""
        return [
            Sent(*link, message)
            for link, messages in self.links.items()
            for message in messages
            if type(message).__name__ == kind
        ]

    def agree(self, what: str, told: set[ProcessId], derived: Iterable[ProcessId]) -> None:
        """Raise if what users were told is not what the fields of the processes say."""
        if told != set(derived):
            raise UnmappedError(
                f"{what}: users say {sorted(told)}, the fields say {sorted(derived)}"
            )

    def __str__(self) -> str:
        """Write what the processes hold and what is under way."""
        under_way = [f"{a} > {b} {m}" for (a, b), messages in self.links.items() for m in messages]
        whole = "; ".join([*(str(process) for process in self.processes), *under_way])
        return whole if len(whole) <= SHOWN_MAX else f"{whole[:SHOWN_MAX]} …"


def once(things: Iterable[Any]) -> set[Any]:
    """Return them as a set of tuples; raise if one is there twice, which no relation can say."""
    found = [each if type(each) is tuple else (each,) for each in things]
    if len(found) != len(set(found)):
        raise UnmappedError(f"twice the same: {sorted(found)}")
    return set(found)


class Step(NamedTuple):
    """A step of the code: the states before and after, and what was given to which process."""

    before: Any
    place: ProcessId
    given: Input
    after: Any


class Walk(Protocol):
    """Real processes, step by step."""

    def start(self) -> Any:
        """Return the first state."""

    def snapshot(self, state: Any, past: State | None = None) -> Snapshot:
        """Show a state to a link."""

    def steps(self, state: Any) -> list[Step]:
        """Return every step from a state."""

    def draw(self, state: Any, chance: random.Random) -> Step | None:
        """Make one of the steps from a state; None if there are none."""


class CodeWalk:
    """Real processes on their channel, without a clock."""

    def __init__(
        self, processes: Sequence[Process[Any]], trial: Trial, asks: Callable[[Any], bool]
    ) -> None:
        """Take processes as they are before their start."""
        seats = [seat(each, trial.entries if asks(each) else 0) for each in processes]
        self._model = SmallModel(seats, declared_channel(processes), trial.crashes)

    def start(self) -> States:
        """Return the first state."""
        return self._model.start()

    def snapshot(self, state: States, past: State | None = None) -> Snapshot:
        """Show a state to a link."""
        live = self._model.live(state)
        seats = [self._model.seats[state[place]] for place in live]
        crashed = [place + 1 for place in range(self._model.size) if place not in live]
        links = self._model.under_way(state)
        return Snapshot(
            seats, {(a + 1, b + 1): content for (a, b), content in links.items()}, past, crashed
        )

    def steps(self, state: States) -> list[Step]:
        """Return every step from a state."""
        return [
            Step(state, move.place + 1, self._model.input(move.given), move.after)
            for move in self._model.moves(state)
        ]

    def draw(self, state: States, chance: random.Random) -> Step | None:
        """Make one of the steps from a state that lead to another one."""
        choices = [step for step in self.steps(state) if step.after != state]
        return chance.choice(choices) if choices else None


Walker: TypeAlias = "Callable[[Sequence[Process[Any]], Trial, Callable[[Any], bool]], Walk]"

ANYWHERE = 0  # in place of a process: a step of the page that any step of the code may contain


def at_first(_: str, args: tuple[Any, ...], __: Sequence[Any]) -> ProcessId:
    """Return where an action happens: at its first argument."""
    return int(args[0])


@dataclass(frozen=True)
class Link:
    """How the states of an algorithm of the catalogue map to those of its page."""

    algorithm: str
    state: Callable[[Snapshot], State]
    sorts: tuple[str, ...] = ("Process",)  # whose things are the ids
    things: Callable[[Sequence[Any]], Things] = lambda processes: {}  # of further sorts
    fixed: Callable[[Sequence[Any]], Fixed] = lambda processes: {}
    place: Callable[[str, tuple[Any, ...], Sequence[Any]], ProcessId] = at_first
    numbers: Sequence[int] = ()  # that formulas speak of; else those that states name
    lasting: tuple[str, ...] = ()  # relations of what ever was so, which fields and links forget
    build: Builder | None = None  # of processes that no catalogue has
    asks: Callable[[Any], bool] = lambda process: True  # whether the user of a process makes calls
    ways: Ways | None = None  # where a search for a path would take long
    walk: Walker = CodeWalk
    trials: tuple[Trial, ...] = TRIALS
    longest: int = 1  # so many steps of the page may be one of the code
    variants: tuple[str, ...] = ("plain",)  # of the algorithm, whose code this page is about


@dataclass
class Held:
    """How far the code was held against the page, and what was wrong, if anything."""

    variant: str
    size: int
    runs: int  # random ones; 0 for all states
    crashes: int = 0
    restarts: int = 0
    states: int = 0
    steps: int = 0
    complete: bool = True
    trouble: str = ""
    used: set[str] = field(default_factory=set)  # actions of the page

    @property
    def words(self) -> str:
        """The extent, in words."""
        how = f"{self.runs} random runs" if self.runs else "all" if self.complete else "cut off"
        what = f"{self.variant}, N = {self.size}" if self.variant else f"N = {self.size}"
        if self.crashes:
            what += f", {self.crashes} crash{'es' * (self.crashes > 1)}"
        if self.restarts:
            what += f", {self.restarts} restart{'s' * (self.restarts > 1)} of each"
        return f"{what}: {self.states:,} states, {self.steps:,} steps, {how}"


def hold(
    page: Page,
    link: Link,
    processes: Sequence[Process[Any]],
    trial: Trial,
    *,
    variant: str = "",
    states_max: int = STATES_MAX,
) -> Held:
    """Hold processes against a page: every step of all their states, or those of random runs."""
    comparison = Comparison(page, link, processes, trial)
    held = Held(variant, trial.size, trial.runs, trial.crashes, trial.restarts)
    try:
        first = comparison.begin()
        for seed in range(trial.runs):
            comparison.make_random_steps(first, seed)
        if not trial.runs:
            comparison.make_every_step(first, states_max)
    except (UnmappedError, NotFollowedError, GivenUpError) as error:
        held.trouble = str(error)
    held.states, held.steps = comparison.states, comparison.steps
    held.complete = trial.runs > 0 or held.states < states_max
    held.used = comparison.used
    return held


class NotFollowedError(Exception):
    """A step or a state of the code that the page does not have."""


class Node(NamedTuple):
    """A state of the code, and of the page, with what is remembered of the way to it."""

    state: States
    mapped: State
    key: Any  # tells it from others


class Comparison:
    """Walks through states of the code, and has those of the page beside them."""

    def __init__(
        self, page: Page, link: Link, processes: Sequence[Process[Any]], trial: Trial
    ) -> None:
        """Compile the page for these processes."""
        ids = [process.me for process in processes]
        self.walk: Walk = link.walk(processes, trial, link.asks)
        self.steps = 0  # of the code
        self.used: set[str] = set()
        self._link = link
        self._processes = processes
        things: dict[str, Sequence[Any]] = dict.fromkeys(link.sorts, ids)
        things |= link.things(processes)
        if link.numbers:
            things["Int"] = link.numbers
        self._page = PlainPage(page, things, link.fixed(processes))
        self._nodes: dict[Any, Node] = {}
        self._followed: set[Any] = set()

    @property
    def states(self) -> int:
        """How many states of the code were mapped."""
        return len(self._nodes)

    def begin(self) -> Node:
        """Map the first state; raise unless it is a start of the page."""
        first = self._map(self.walk.start(), {})
        broken = self._page.broken(first.mapped, at_start=True)
        if broken:
            raise NotFollowedError(f"the processes do not begin as the page says: {broken}")
        return first

    def make_every_step(self, first: Node, states_max: int) -> None:
        """Make every step, in breadth, from so many states at most."""
        seen, waiting = {first.key}, deque([first])
        while waiting:
            node = waiting.popleft()
            for step in self.walk.steps(node.state):
                after = self._follow(node, step)
                if after.key not in seen and len(seen) < states_max:
                    seen.add(after.key)
                    waiting.append(after)

    def make_random_steps(self, node: Node, seed: int) -> None:
        """Make steps at random until there are none, or enough."""
        chance = random.Random(seed)
        for _ in range(STEPS):
            step = self.walk.draw(node.state, chance)
            if step is None:
                return
            node = self._follow(node, step)

    def _follow(self, before: Node, step: Step) -> Node:
        """Raise unless the page has a path for this step, and its clauses hold in the state after it."""
        self.steps += 1
        after = self._map(step.after, before.mapped)
        key = step.place, self._page.key(before.mapped), self._page.key(after.mapped)
        if key in self._followed:
            return after

        def is_there(name: str, args: tuple[Any, ...]) -> bool:
            return self._link.place(name, args, self._processes) in (ANYWHERE, step.place)

        path = self._way(before.mapped, after.mapped, is_there)
        if path is None:
            changes = ", ".join(_changes(before.mapped, after.mapped))
            raise NotFollowedError(
                f"process {step.place}, given {step.given}, makes a step that the page does not have:"
                f" {changes}; from {self.walk.snapshot(step.before)}"
            )
        self._followed.add(key)
        self.used.update(move.name for move in path)
        return after

    def _way(self, before: State, after: State, is_there: Callable[..., bool]) -> list[Move] | None:
        """Find steps of the page that lead from one state to the other: those that the link names, or any."""
        if self._link.ways is None:
            return self._page.path(before, after, is_there, self._link.longest)
        for way in self._link.ways(before, after):
            path = self._page.play(before, after, way)
            if path is not None and all(is_there(name, args) for name, args in way):
                return path
        return None

    def _map(self, state: States, past: State) -> Node:
        """Map a state, and add what was so in the past and lasts."""
        lasting = self._link.lasting
        if not lasting and state in self._nodes:
            return self._nodes[state]
        snapshot = self.walk.snapshot(state, past)
        mapped = self._link.state(snapshot)
        for name in lasting:
            mapped[name] = mapped[name] | past.get(name, set())
        key = (state, self._page.key(mapped)) if lasting else state
        if key not in self._nodes:
            broken = self._page.broken(mapped)
            if broken:
                names = ", ".join(name.replace("_", " ") for name in broken)
                raise NotFollowedError(f"the clause “{names}” does not hold in {snapshot}")
            self._nodes[key] = Node(state, mapped, key)
        return self._nodes[key]


def _changes(before: State, after: State) -> list[str]:
    """Say in words of the page what a step changed."""
    found = []
    for name, old in before.items():
        one = set(old.items()) if isinstance(old, dict) else old
        other = set(after[name].items()) if isinstance(old, dict) else after[name]
        found += [f"no more {name}{gone}" for gone in sorted(one - other)]
        found += [f"{name}{come}" for come in sorted(other - one)]
    return found
