"""Why a process waits, in sentences: what it needs, of which processes, and what keeps these.

The waits of a state are a wait-for graph: a process waits for those whose answer it needs, and an
arbiter for the process that it is locked for. That a node is deadlocked in this graph means nothing
while a message is under way that may change it; so that is said only in a state at rest, or of processes
that the atlas knows to wait forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.algorithms.deadlock.condition import Condition, all_of
from coterie.algorithms.deadlock.explanation import explain
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.lab.explore.properties import inside, waiting
from coterie.lab.play.questions import Why
from coterie.process import Mutex
from coterie.trace import label

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie.lab.scenario.play import Play
    from coterie.process import ProcessId


class Node(NamedTuple):
    """A process, or what it gives out."""

    process: int
    arbiter: bool = False

    def __str__(self) -> str:
        """Name it."""
        return f"{'arbiter' if self.arbiter else 'process'} {self.process}"


def explain_waits(play: Play, lost: Collection[ProcessId] = ()) -> list[Why]:
    """Explain the wait of each process that waits; of those `lost` it is known that they wait forever."""
    seats = {me: seat for me, seat in play.world.seats.items() if me not in play.world.crashed}
    waiters = [me for me, seat in seats.items() if waiting(seat)]
    graph = _graph(play) if waiters else Graph({})
    rests = _is_at_rest(play)
    stuck = [me for me in (waiters if rests else lost) if Node(me) in graph.deadlocked()]
    end = ["nothing is on its way, and no timer is set"] if rests else []
    return [
        _in_vain(play, graph, me) if me in stuck else Why(me, [*_sentences(play, graph, me), *end])
        for me in waiters
    ]


def _graph(play: Play) -> Graph[Node]:
    world = play.world
    waits: dict[Node, Condition[Node]] = {}
    for me, seat in world.seats.items():
        if me in world.crashed:
            waits[Node(me)] = all_of(Node(me))  # it waits for itself, and so forever
            if _lends(play, me):
                waits[Node(me, arbiter=True)] = all_of(Node(me))
            continue
        targets = _targets(play, me)
        if targets and not inside(seat):
            waits[Node(me)] = all_of(*targets)
        holder = seat.process.lent_to() if isinstance(seat.process, Mutex) else None
        if holder:
            waits[Node(me, arbiter=True)] = all_of(Node(holder))
    return Graph(waits)


def _targets(play: Play, me: ProcessId) -> list[Node]:
    """Name what a process waits for; an arbiter that is locked for it has answered already."""
    seats = play.world.seats
    process = seats[me].process
    if not isinstance(process, Mutex) or not (waiting(seats[me]) or process.owes()):
        return []
    targets = {peer: None for peer in process.awaits() if peer != me or _lends(play, me)}
    for peer, seat in seats.items():
        if waiting(seats[me]) and isinstance(seat.process, Mutex) and me in seat.process.owes():
            targets[peer] = None
    nodes = [Node(peer, arbiter=_lends(play, peer)) for peer in targets]
    return [x for x in nodes if not (x.arbiter and _holder(play, x.process) == me)]


def _lends(play: Play, process: ProcessId) -> bool:
    return _holder(play, process) is not None


def _holder(play: Play, process: ProcessId) -> ProcessId | None:
    found = play.world.seats[process].process
    return found.lent_to() if isinstance(found, Mutex) else None


def _in_vain(play: Play, graph: Graph[Node], me: ProcessId) -> Why:
    """Say why a process can never go on: because of a crash, or of a deadlock."""
    found = explain(graph, Node(me))
    crashed = play.world.crashed
    down = [x.process for x in found.core if x.process in crashed]
    sentences = [
        text
        for node, text in zip(found.members, found.text, strict=True)
        if node.process not in crashed
    ]
    if down:
        return Why(me, [*sentences, *(f"process {x} has crashed" for x in down)])
    core = [node.process for node in found.core if not node.arbiter]
    return Why(me, sentences, found.kind, core)


def _sentences(play: Play, graph: Graph[Node], me: ProcessId) -> list[str]:
    """Say what a process waits for, what keeps that, and what is on its way between them."""
    node = Node(me)
    if node not in graph.waits:
        first = [f"{node} waits" + ", and none owes it anything" * _tells(play, me)]
        targets: tuple[Node, ...] = ()
    else:
        first = [f"{node} waits for {graph.waits[node]}"]
        targets = graph.waits[node].targets()
    kept = [text for target in targets if (text := _standing(play, graph, target))]
    return [*first, *kept, *_under_way(play, me, {target.process for target in targets})]


def _standing(play: Play, graph: Graph[Node], target: Node) -> str | None:
    if target.process in play.world.crashed:
        return f"process {target.process} has crashed"
    if target.arbiter:
        holder = _holder(play, target.process)
        within = " which is inside" if holder and inside(play.world.seats[holder]) else ""
        comma = "," * bool(within)
        return f"{target} waits for process {holder}{comma}{within}" if holder else None
    if inside(play.world.seats[target.process]):
        return f"{target} is inside"
    return f"{target} waits for {graph.waits[target]}" if target in graph.waits else None


def _tells(play: Play, me: ProcessId) -> bool:
    """Return whether the algorithm says what its processes wait for."""
    kind = type(play.world.seats[me].process)
    return issubclass(kind, Mutex) and (kind.awaits, kind.owes) != (Mutex.awaits, Mutex.owes)


def _under_way(play: Play, me: ProcessId, others: set[ProcessId]) -> list[str]:
    """Say which messages are on their way between a process and those that it waits for."""
    return [
        f"{label(x.message)} is on its way from {x.sender} to {x.receiver}"
        for x in play.world.transit
        if (x.receiver == me or (x.sender == me and x.receiver in others))
        and x.receiver not in play.world.crashed
    ]


def _is_at_rest(play: Play) -> bool:
    """Return whether nothing happens any more unless a user calls or something fails."""
    moves = play.enabled()
    return not any(
        move.kind in ("deliver", "ring", "down") or move.name == "release" for move in moves
    )
