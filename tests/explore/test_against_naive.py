"""The array-shaped search agrees with a plain one, written for clarity only, on all sorts of toys."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.explore import Property, Verdict, check
from coterie.explore.properties import ENTRY, MUTEX
from coterie.explore.tables.moves import Faults
from coterie.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.process import (
    Channel,
    Entered,
    Mutex,
    MutexUser,
    Outbox,
    Payload,
    Phase,
    Process,
    ProcessId,
    SeatCodec,
    encode,
    seat,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Queue = tuple[Any, ...]


class Local(NamedTuple):
    saved: tuple[bytes, bytes]
    armed: tuple[str, ...] = ()
    watched: tuple[ProcessId, ...] = ()


class State(NamedTuple):
    locals: tuple[Local | None, ...]  # None: crashed
    queues: tuple[tuple[ProcessId, ProcessId, Queue], ...]
    faults: Faults


class Naive:
    """Breadth-first search over states in plain tuples, one at a time."""

    def __init__(
        self, processes: list[Process[Any]], entries: list[int], channel: Channel, faults: Faults
    ) -> None:
        self.fifo = channel is Channel.FIFO
        seats = [seat(*pair) for pair in zip(processes, entries, strict=True)]
        self.codec = SeatCodec(seats[0])
        pairs = itertools.permutations(range(1, len(seats) + 1), 2)
        queues: dict[tuple[int, int], Queue] = dict.fromkeys(pairs, ())
        self.errors: list[int] = []
        self.known_phases: dict[tuple[bytes, bytes], Phase] = {}
        blank = tuple(Local(self.codec.save(each)) for each in seats)
        state = State(blank, tuple((a, b, q) for (a, b), q in queues.items()), faults)
        for place in range(len(seats)):
            started = self.step(state, place, "start")
            assert started is not None
            state = started
        self.depths = {state: 0}
        self.edges: list[tuple[State, State]] = []
        self.busy: set[State] = set()
        self.transitions = 0
        border = [state]
        while border:
            border = [new for state in border for new in self.visit(state)]

    def visit(self, state: State) -> Iterator[State]:
        for unsure, new in self.successors(state):
            self.transitions += 1
            if not unsure:
                self.busy.add(state)
            if new is None:
                self.errors.append(self.depths[state] + 1)
                continue
            if not unsure:
                self.edges.append((state, new))
            if new not in self.depths:
                self.depths[new] = self.depths[state] + 1
                yield new

    def successors(self, state: State) -> Iterator[tuple[bool, State | None]]:
        for place, local in enumerate(state.locals):
            if local is None:
                continue
            for name in self.codec.restore(local.saved).user.calls():
                yield name != "release", self.step(state, place, "call", name)
            for timer in local.armed:
                yield False, self.step(state, place, "ring", timer)
            for peer in local.watched:
                if state.locals[peer - 1] is None:
                    yield False, self.step(state, place, "down", peer)
            if state.faults.crash:
                yield True, self.crash(state, place)
        yield from self.deliveries(state)

    def deliveries(self, state: State) -> Iterator[tuple[bool, State | None]]:
        for index, (sender, receiver, queue) in enumerate(state.queues):
            if state.locals[receiver - 1] is None:
                continue
            for message in queue[:1] if self.fifo else sorted(set(queue), key=encode):
                rest = list(queue)
                rest.remove(message)
                queues = list(state.queues)
                queues[index] = (sender, receiver, tuple(rest))
                without = state._replace(queues=tuple(queues))
                yield False, self.step(without, receiver - 1, "receive", sender, message)
                if state.faults.lose:
                    yield True, without._replace(faults=spend(state.faults, "lose"))
                if state.faults.duplicate:
                    kept = state._replace(faults=spend(state.faults, "duplicate"))
                    yield True, self.step(kept, receiver - 1, "receive", sender, message)

    def step(self, state: State, place: int, verb: str, *given: Any) -> State | None:
        local = state.locals[place]
        assert local is not None
        here, out = self.codec.restore(local.saved), Outbox[Any](place + 1)
        armed = set(local.armed) - set(given[:1] if verb == "ring" else ())
        watched = set(local.watched) - set(given[:1] if verb == "down" else ())
        try:
            getattr(here, verb)(*given, out)
        except Exception:  # noqa: BLE001 - as the explorer does
            return None
        for timer, wait in out.timers:
            (armed.discard if wait is None else armed.add)(timer)
        for peer, wanted in out.watches:
            (watched.add if wanted else watched.discard)(peer)
        after = list(state.locals)
        after[place] = Local(self.codec.save(here), tuple(sorted(armed)), tuple(sorted(watched)))
        queues = []
        for sender, receiver, queue in state.queues:
            more = tuple(m for to, m in out.sends if sender == place + 1 and to == receiver)
            new = queue if state.locals[receiver - 1] is None else queue + more
            queues.append((sender, receiver, new if self.fifo else tuple(sorted(new, key=encode))))
        return State(tuple(after), tuple(queues), state.faults)

    def crash(self, state: State, place: int) -> State:
        after = list(state.locals)
        after[place] = None
        queues = tuple((a, b, () if b == place + 1 else queue) for a, b, queue in state.queues)
        return State(tuple(after), queues, spend(state.faults, "crash"))

    def phases(self, state: State) -> list[Phase | None]:
        return [None if local is None else self.phase(local.saved) for local in state.locals]

    def phase(self, saved: tuple[bytes, bytes]) -> Phase:
        if saved not in self.known_phases:
            user = self.codec.restore(saved).user
            assert isinstance(user, MutexUser)
            self.known_phases[saved] = user.phase
        return self.known_phases[saved]

    def violations(self, *, safety: bool = True) -> list[tuple[int, str]]:
        """List the nearest violations with their depth, mere hopelessness only if nothing else."""
        found = [(depth, "no error") for depth in self.errors]
        for state, depth in self.depths.items():
            phases = self.phases(state)
            if safety and phases.count(Phase.INSIDE) > 1:
                found.append((depth, "mutual exclusion"))
            elif state not in self.busy and Phase.WAITING in phases:
                found.append((depth, "no deadlock"))
        if not found:
            found = [(depth, "entry stays possible") for depth in self.hopeless()]
        return [item for item in found if item[0] == min(found)[0]]

    def hopeless(self) -> Iterator[int]:
        before: dict[State, list[State]] = {}
        for source, target in self.edges:
            before.setdefault(target, []).append(source)
        phases = {state: self.phases(state) for state in self.depths}
        for place in range(len(next(iter(self.depths)).locals)):
            good = {state for state in self.depths if phases[state][place] is not Phase.WAITING}
            border = list(good)
            while border:
                for source in before.get(border.pop(), []):
                    if source not in good:
                        good.add(source)
                        border.append(source)
            yield from (depth for state, depth in self.depths.items() if state not in good)


def spend(faults: Faults, kind: str) -> Faults:
    return faults._replace(**{kind: getattr(faults, kind) - 1})


@pytest.mark.slow
@pytest.mark.parametrize("channel", Channel)
def test_agrees_with_a_plain_search_on_ricart_agrawala(channel: Channel) -> None:
    def processes() -> list[Process[Any]]:
        return [RicartAgrawala(me, 3) for me in (1, 2, 3)]

    naive = Naive(processes(), [1, 1, 1], channel, Faults())
    found = check(processes(), channel=channel)
    assert (found.states, found.transitions) == (len(naive.depths), naive.transitions)
    assert (found.verdict, naive.violations()) == ("verified", [])


class Note(Payload, frozen=True):
    kind: int


class Rule(NamedTuple):
    """What a toy does with one input in one state."""

    state: int
    receivers: tuple[ProcessId, ...]
    kind: int
    timer: str  # "set", "cancel" or ""
    enters: bool
    raises: bool


class Toy(Mutex[Note]):
    """A protocol drawn at random: a table of rules, and fuel for so many messages."""

    rules: tuple[Rule, ...]
    fuel: int
    state: int = 0
    wants: bool = False

    def start(self, out: Outbox[Note]) -> None:
        if self.fuel > 1:
            out.set_timer("again", 1.0)
        out.watch(3 - self.me)

    def acquire(self, out: Outbox[Note]) -> None:
        self.wants = True
        self.apply(0, out)

    def release(self, out: Outbox[Note]) -> None:
        self.apply(1, out)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        self.apply(2, out)

    def down(self, peer: ProcessId, out: Outbox[Note]) -> None:
        self.apply(2, out)
        if self.state == 0:
            out.watch(peer)

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        self.apply(3 + message.kind, out)

    def apply(self, given: int, out: Outbox[Note]) -> None:
        rule = self.rules[5 * self.state + given]
        self.state = rule.state
        for receiver in rule.receivers:
            if self.fuel and receiver != self.me:
                self.fuel -= 1
                out.send(receiver, Note(rule.kind))
        if rule.timer == "set":
            out.set_timer("again", 1.0)
        elif rule.timer == "cancel":
            out.cancel_timer("again")
            out.unwatch(3 - self.me)
        if rule.raises and self.fuel == 1:
            raise ValueError(f"state {self.state}")
        if rule.enters and self.wants:
            self.wants = False
            out.tell(Entered())


STATES = 2
RULES = st.builds(
    Rule,
    state=st.integers(0, STATES - 1),
    receivers=st.sampled_from([(), (), (1,), (2,), (1, 2), (2, 2)]),
    kind=st.integers(0, 1),
    timer=st.sampled_from(["", "", "set", "cancel"]),
    enters=st.booleans(),
    raises=st.sampled_from([False] * 29 + [True]),
)


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    rules=st.lists(RULES, min_size=5 * STATES, max_size=5 * STATES),
    fuel=st.integers(0, 2),
    channel=st.sampled_from(Channel),
    faults=st.builds(Faults, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    exact=st.booleans(),
)
def test_agrees_with_a_plain_search_on_random_protocols(
    rules: list[Rule], fuel: int, channel: Channel, faults: Faults, exact: bool
) -> None:
    def processes() -> list[Process[Any]]:
        return [Toy(me, tuple(rules), fuel) for me in (1, 2)]

    def explore(properties: Sequence[Property]) -> Verdict:
        return check(
            processes(),
            channel=channel,
            crashes=faults.crash,
            losses=faults.lose,
            duplicates=faults.duplicate,
            properties=properties,
            exact=exact,
        )

    naive = Naive(processes(), [1, 1], channel, faults)
    for properties, safety in ((MUTEX, True), ((ENTRY,), False)):
        judged, violations = explore(properties), naive.violations(safety=safety)
        if violations:
            assert (judged.depth, judged.property) in violations
        else:
            assert judged.verdict == "verified"
    counted = explore(())
    if not naive.errors:
        assert (counted.states, counted.transitions) == (len(naive.depths), naive.transitions)
        assert counted.depth == max(naive.depths.values())


class Ask(Payload, frozen=True):
    pass


class Grant(Payload, frozen=True):
    pass


class Retrying(Mutex[Ask | Grant]):
    """Process 1 grants everything; the others ask it, and again when no answer comes."""

    asking: bool = False

    def acquire(self, out: Outbox[Ask | Grant]) -> None:
        self.asking = True
        self.ask(out)

    def ask(self, out: Outbox[Ask | Grant]) -> None:
        out.send(1, Ask())
        out.set_timer("silence", 1.0)

    def release(self, out: Outbox[Ask | Grant]) -> None:
        out.cancel_timer("silence")

    def ring(self, timer: str, out: Outbox[Ask | Grant]) -> None:
        if self.asking:
            self.ask(out)

    def receive(self, sender: ProcessId, message: Ask | Grant, out: Outbox[Ask | Grant]) -> None:
        match message:
            case Ask():
                out.send(sender, Grant())
            case Grant():
                if self.asking:
                    self.asking = False
                    out.tell(Entered())


class Deaf(Retrying):
    """Asks again and again, and nobody ever hears it."""

    def ask(self, out: Outbox[Ask | Grant]) -> None:
        out.set_timer("silence", 1.0)


class Patient(Retrying):
    """Asks once; the timer rings on, and nothing comes of it."""

    def ring(self, timer: str, out: Outbox[Ask | Grant]) -> None:
        out.set_timer("silence", 1.0)


@pytest.mark.parametrize(("kind", "losses", "depth"), [(Deaf, 0, 1), (Patient, 1, 2)])
def test_who_can_never_enter_is_found_though_there_is_always_something_to_do(
    kind: type[Retrying], losses: int, depth: int
) -> None:
    found = check([kind(1), kind(2)], requesters=[2], losses=losses)
    assert (found.verdict, found.property) == ("violated", "entry stays possible")
    assert found.reason == "process 2 can never enter"
    assert found.depth == depth


@pytest.mark.parametrize("channel", Channel)
def test_a_timer_that_rings_for_ever_makes_cycles_and_no_violation(channel: Channel) -> None:
    naive = Naive([Patient(1), Patient(2)], [0, 1], channel, Faults())
    found = check([Patient(1), Patient(2)], requesters=[2], channel=channel)
    assert not naive.violations()
    assert found.verdict == "verified"
    assert (found.states, found.transitions) == (len(naive.depths), naive.transitions)


def test_a_retry_makes_up_for_a_loss_and_the_search_stops_at_its_budget() -> None:
    """Retries pile up without end, so this has no end either."""
    found = check([Retrying(1), Retrying(2)], requesters=[2], losses=1, max_states=300)
    assert found.verdict == "unfinished"
    assert found.states > 300
