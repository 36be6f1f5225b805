"""The way to a violation, told as a trace: found again step by step, and run with fresh seats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie import trace
from coterie.errors import ConfigError
from coterie.lab.explore.tables.inputs import Call, Notice, Receive, Restart, Ring, feed
from coterie.lab.explore.tables.step import Pending
from coterie.process import Outbox, SeatCodec, check_wishes, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.liveness.lasso import Turn
    from coterie.lab.explore.liveness.transitions import FairSteps
    from coterie.lab.explore.search import Search
    from coterie.lab.explore.tables.arrays import Rows
    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.explore.tables.moves import Action, Moves
    from coterie.process import ProcessId, Seat


def counterexample(
    search: Search, moves: Moves, initial: Rows, seats: Sequence[Seat], header: trace.Header
) -> tuple[trace.Trace, int]:
    """Return how the finding of a search comes about, and in how many steps.

    The seats are as before their start. Step k of the trace happens at time k - 1.
    """
    finding = search.inspector.finding
    assert finding is not None, "nothing was found"
    replay = Replay(seats, may_restart=moves.allows("restart"))
    row = initial
    for state in _path(search, finding.state):
        action, next_row = _step_to(state, search, moves, row)
        replay.step(action, moves.input_of(action, row[:, 0]))
        row = next_row
        if not replay.matches(moves, row):
            raise ConfigError(
                f"process {action.place + 1} is not deterministic: it did not do the same again when"
                " the counterexample was replayed. Keep all state in the fields of the process"
            )
    if finding.cycle:
        assert search.kept is not None, "a cycle was found among the transitions"
        steps = search.kept.fair_steps
        replay.records.append(trace.Repeated(replay.time + 1))
        for turn in finding.cycle:
            action, next_row = _turn_to(turn, search, steps, moves, row)
            replay.step(action, moves.input_of(action, row[:, 0]))
            row = next_row
    if finding.raised:
        action = _step_that_raises(moves, row)
        replay.fail(action, moves.input_of(action, row[:, 0]))
    end = max(replay.time, 0.0)
    replay.records.append(trace.Violated(end, finding.name, finding.reason))
    return trace.Trace(header, replay.records), int(replay.time) + 1


def _path(search: Search, state: int) -> list[int]:
    """States on the way from the initial one, which is left out, to this one."""
    path = []
    while state > 0:
        path.append(state)
        state = search.parent(state)
    return path[::-1]


def _step_to(state: int, search: Search, moves: Moves, row: Rows) -> tuple[Action, Rows]:
    """Find a move from here to what the search takes for this state."""
    key = search.key(state)
    for batch in moves.expand(row):
        rows = batch.rows(row, slice(None), moves.dtype)
        if rows.shape[1] and int(moves.hashes(search.canonical(rows))[0]) == key:
            return batch.action, rows
    raise AssertionError("the parent of a state does not lead to it")


def _turn_to(
    turn: Turn, search: Search, steps: FairSteps, moves: Moves, row: Rows
) -> tuple[Action, Rows]:
    """Find the move from here to a state that takes a certain step of fairness."""
    key = search.key(turn.state)
    for batch in moves.expand(row):
        if not batch.sources.size or batch.action.is_fault:
            continue
        rows = batch.rows(row, slice(None), moves.dtype)
        step = int(steps.of(batch, row)[0])
        if steps.alike(step, turn.step) and int(moves.hashes(search.canonical(rows))[0]) == key:
            return batch.action, rows
    raise AssertionError("no move goes on with the cycle")


def _step_that_raises(moves: Moves, row: Rows) -> Action:
    for batch in moves.expand(row):
        if batch.results is not None and any(map(moves.steps.errors.get, batch.results.tolist())):
            return batch.action
    raise AssertionError("no handler raises here")


class Replay:
    """A small world that does as it is told and writes down what happens."""

    def __init__(self, seats: Sequence[Seat], *, may_restart: bool = False) -> None:
        """Let each process begin; where one may begin again, its first start is told too."""
        self._codecs = {seat.process.me: SeatCodec(seat) for seat in seats}
        self._fresh = {seat.process.me: self._codecs[seat.process.me].save(seat) for seat in seats}
        self.records: list[trace.AnyRecord] = []
        self.time = -1.0
        self._seats: dict[ProcessId, Seat] = {seat.process.me: seat for seat in seats}
        self._pending: dict[ProcessId, Pending] = {}
        self._size = len(seats)
        self._sent = 0
        self._under_way: dict[tuple[ProcessId, ProcessId], list[tuple[int, Any]]] = {}
        for process, seat in self._seats.items():
            out: Outbox[Any] = Outbox(process)
            if may_restart:
                self.records.append(trace.Started(0.0, process))
            seat.start(out)
            self._pending[process] = Pending().after(None, out)
            self._carry_out(out, 0.0)

    def step(self, action: Action, given: Input | None) -> None:
        """Make a move."""
        self.time += 1
        process = action.place + 1
        if action.kind == "crash":
            self._crash(process)
        elif action.kind == "lose":
            assert isinstance(given, Receive), "only messages are lost"
            number = self._take(process, given, keep=False)
            self.records.append(trace.Dropped(self.time, number, given.sender, process, "lost"))
        else:
            self._feed(action, given)

    def fail(self, action: Action, given: Input | None) -> None:
        """Make a move whose handler raises."""
        try:
            self.step(action, given)
        except Exception:  # noqa: BLE001 - whatever an algorithm raises is its violation
            return
        raise AssertionError(f"a handler that raised before did not raise again: {action}")

    def matches(self, moves: Moves, row: Rows) -> bool:
        """Return whether all seats are in the local states of this row."""
        return all(
            int(row[process - 1, 0]) == moves.seats.save(process - 1, seat, self._pending[process])
            for process, seat in self._seats.items()
        )

    def _feed(self, action: Action, given: Input | None) -> None:
        process = action.place + 1
        match given:
            case Call(name):
                self.records.append(trace.Called(self.time, process, name))
            case Ring(timer):
                self.records.append(trace.Rang(self.time, process, timer))
            case Notice(peer):
                self.records.append(trace.Noticed(self.time, process, peer))
            case Restart():
                self._seats[process] = self._codecs[process].restore(self._fresh[process])
                self._pending[process] = Pending()
                self.records.append(trace.Started(self.time, process))
            case Receive(sender, _):
                number = self._take(process, given, keep=action.kind == "duplicate")
                self.records.append(trace.Delivered(self.time, number, sender, process))
            case None:
                raise AssertionError(f"a move without input: {action}")
        out: Outbox[Any] = Outbox(process)
        feed(self._seats[process], given, out)
        check_wishes(out, self._size)
        self._pending[process] = self._pending[process].after(given, out)
        self._carry_out(out, self.time)

    def _take(self, receiver: ProcessId, given: Receive, *, keep: bool) -> int:
        """Take a message like the given one out of its channel, and give its number."""
        queue = self._under_way[given.sender, receiver]
        position = [encode(message) for _, message in queue].index(encode(given.message))
        return queue[position][0] if keep else queue.pop(position)[0]

    def _carry_out(self, out: Outbox[Any], time: float) -> None:
        for to, message in out.sends:
            self._sent += 1
            self.records.append(trace.sent(time, self._sent, out.me, to, message))
            if to in self._seats:
                self._under_way.setdefault((out.me, to), []).append((self._sent, message))
            else:
                self._drop(self._sent, out.me, to)
        self.records.extend(trace.told(time, out.me, event) for event in out.events)

    def _crash(self, process: ProcessId) -> None:
        self.records.append(trace.Crashed(self.time, process))
        del self._seats[process]
        for (sender, receiver), queue in self._under_way.items():
            if receiver == process:
                for number, _ in queue:
                    self._drop(number, sender, receiver)
                queue.clear()

    def _drop(self, number: int, sender: ProcessId, receiver: ProcessId) -> None:
        reason = f"process {receiver} has crashed"
        self.records.append(trace.Dropped(self.time, number, sender, receiver, reason))
