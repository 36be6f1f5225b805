"""Three nodes that meet, in all orders: crashes, restarts, handshakes that are cut at any point.

Links are modelled as `wire/peers.py` has them: a call makes the start of each end known to the other,
and may be cut after either; notes come once and in order while both ends know each other. The failure
detector is right: only a node that is down, has left or was started again is lost. All else is
the `Meeting` of each node.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coterie.cluster.classic.frames import Absent, Note
from coterie.cluster.classic.meeting import Meeting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


NODES = (1, 2, 3)
STARTS_MAX = 2  # of each node
UNKNOWN, RULED_OUT = -2, -1  # in place of the number of a start


class ViolatedError(Exception):
    """A property does not hold."""


class Kind(NamedTuple):
    """An algorithm, as far as meeting depends on it."""

    goes_on: bool
    takes_back: bool  # has a rule for the return of a process, and disks count the starts

    def meeting(self, me: int) -> Meeting:
        others = frozenset(NODES) - {me}
        return Meeting(others, self.goes_on, self.goes_on and not self.takes_back)


class Node(msgspec.Struct):
    """One node, with its ends of the links to the others."""

    meeting: Meeting | None = None  # None: it is down
    start: int = -1
    known: list[int] = msgspec.field(default_factory=lambda: [UNKNOWN] * 4)  # start, by peer
    met: set[int] = msgspec.field(default_factory=set)
    given_up: set[int] = msgspec.field(default_factory=set)
    outgoing: list[tuple[Note, ...]] = msgspec.field(default_factory=lambda: [()] * 4)
    unborn: frozenset[int] = frozenset()  # nodes that had not been started when this one began
    is_leaving: bool = False
    has_left: bool = False

    @property
    def is_there(self) -> bool:
        """Whether it is up, and has not left."""
        return self.meeting is not None and not self.has_left

    def copy(self) -> Node:
        meeting = self.meeting
        if meeting is not None:
            meeting = copy.copy(meeting)
            for name in SETS:
                setattr(meeting, name, set(getattr(meeting, name)))
        ends = (list(self.known), set(self.met), set(self.given_up), list(self.outgoing))
        return Node(meeting, self.start, *ends, self.unborn, self.is_leaving, self.has_left)

    def key(self) -> Any:
        meeting = self.meeting
        if meeting is None:
            return self.start
        values = [getattr(meeting, name) for name in CHANGING]
        known = [frozenset(value) if isinstance(value, set) else value for value in values]
        ends = (frozenset(self.met), frozenset(self.given_up), self.unborn)
        left = (self.is_leaving, self.has_left)
        return (self.start, *known, *ends, *left, tuple(self.known), tuple(self.outgoing))


CHANGING = [
    name for name in Meeting.__struct_fields__ if name not in ("others", "goes_on", "stays_without")
]
SETS = ("strangers", "unable", "lost")
ORDERS = list(itertools.permutations(NODES))


class Symmetry:
    """Nodes are alike: worlds in which they have only changed their names go on in the same way."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._renamed: dict[Any, tuple[int, ...]] = {}  # by each of the orders

    def canonical(self, keys: list[Any]) -> tuple[int, ...]:
        """Return the same for worlds that differ in the names of their nodes alone."""
        found = [self._numbers_of(key) for key in keys]
        return min(
            tuple(found[name - 1][place] for name in order) for place, order in enumerate(ORDERS)
        )

    def _numbers_of(self, key: Any) -> tuple[int, ...]:
        """Return a number for the node as it is called in each of the orders."""
        if key not in self._renamed:
            renamed = [_rename(key, order) for order in ORDERS]
            numbers = self._numbers
            self._renamed[key] = tuple(numbers.setdefault(each, len(numbers)) for each in renamed)
        return self._renamed[key]


def _rename(key: Any, order: tuple[int, ...]) -> Any:
    """Call each node by its place in the order."""
    if not isinstance(key, tuple):
        return key
    places = {name: place for place, name in enumerate(order, 1)}
    *values, known, outgoing = key
    values = [
        frozenset(map(places.__getitem__, value)) if isinstance(value, frozenset) else value
        for value in values
    ]
    by_peer = (
        (
            known[name],
            tuple(
                Absent(places[note.process]) if isinstance(note, Absent) else note
                for note in outgoing[name]
            ),
        )
        for name in order
    )
    return (*values, *by_peer)


class MeetingWorld:
    """All nodes, and what has happened so far."""

    def __init__(
        self, kind: Kind, crashes: int, make: Callable[[int], Meeting], *, cuts: bool = True
    ) -> None:
        self.kind = kind
        self.cuts = cuts  # whether handshakes may be cut
        self.crashes = crashes  # that may still happen
        self.nodes = {name: Node() for name in NODES}
        self.keys = {name: node.key() for name, node in self.nodes.items()}
        self.has_begun = False  # any node, at any time
        self._make = make

    def after(self, event: str, one: int, other: int) -> MeetingWorld:
        """Return another world in which this has happened; only two nodes take part in it."""
        world = MeetingWorld.__new__(MeetingWorld)
        world.kind, world.crashes, world._make = self.kind, self.crashes, self._make
        world.cuts = self.cuts
        world.has_begun = self.has_begun
        world.nodes, world.keys = dict(self.nodes), dict(self.keys)
        for name in (one, other) if other else (one,):
            world.nodes[name] = self.nodes[name].copy()
        world.do(event, one, other)
        for name in (one, other) if other else (one,):
            world.keys[name] = world.nodes[name].key()
        return world

    def key(self, symmetry: Symmetry) -> object:
        """Return the same for worlds that go on in the same way."""
        return (self.crashes, self.has_begun, symmetry.canonical(list(self.keys.values())))

    @property
    def remembers(self) -> bool:
        """Whether anything knows if the algorithm has begun: a first start that lives, or its effects."""
        firsts = [node for node in self.nodes.values() if node.start == 0 and node.meeting]
        started = [node for node in self.nodes.values() if node.start >= 0]
        return self.has_begun or bool(firsts) or not started

    # What may happen

    def chances(self) -> Iterator[tuple[str, int, int]]:
        """List what may come next and need not: starts, crashes, letters of those that have begun."""
        for name, node in self.nodes.items():
            if node.meeting is None and node.start + 1 < STARTS_MAX:
                yield "start", name, 0
            if node.meeting is not None and self.crashes:
                yield "crash", name, 0
            if node.is_there and _has_begun(node):
                for other in NODES:
                    if other != name and self._may_write(node, name, self.nodes[other], other):
                        yield "sends a letter to", name, other

    def _may_write(self, node: Node, one: int, peer: Node, other: int) -> bool:
        both = node.known[other] == peer.start and peer.known[one] == node.start
        return both and peer.is_there and not node.outgoing[other] and not _has_begun(peer)

    def progress(self) -> Iterator[tuple[str, int, int]]:
        """List what comes in the end if nothing goes wrong any more; some of it changes nothing."""
        for one, node in self.nodes.items():
            if not node.is_there:
                continue
            if node.is_leaving:
                yield "leaves", one, 0
            # A lease has passed: a node that is there would be known.
            unknown = self._unknown(one)
            if unknown and not any(self.nodes[other].is_there for other in unknown):
                yield "misses others", one, 0
            for other in NODES:
                if other != one:
                    yield from self._between(one, node, other, self.nodes[other])

    def _unknown(self, one: int) -> frozenset[int]:
        known = self.nodes[one].known
        return frozenset(peer for peer in NODES if peer != one and known[peer] == UNKNOWN)

    def _between(
        self, one: int, node: Node, other: int, peer: Node
    ) -> Iterator[tuple[str, int, int]]:
        assert node.meeting is not None
        known = node.known[other]
        if peer.is_there and other not in node.given_up and not node.is_leaving:
            both = known == peer.start and peer.known[one] == node.start
            if known != peer.start and self.cuts:
                yield "hears its answer", one, other
            if peer.known[one] != node.start and self.cuts:
                yield "is heard by", one, other
            if not both or other not in node.met or other in node.meeting.lost:
                yield "calls", one, other
            if both and node.outgoing[other]:
                yield "tells", one, other
        is_over = not peer.is_there or peer.start != known
        if known >= 0 and is_over and other not in node.meeting.lost - node.meeting.strangers:
            yield "loses", one, other

    def do(self, event: str, one: int, other: int) -> None:
        """Let one of these happen."""
        node = self.nodes[one]
        if event == "start":
            returns = self.kind.takes_back and node.start >= 0
            fresh = self.nodes[one] = Node(self._make(one), node.start + 1)
            assert fresh.meeting is not None
            self._carry_out(one, fresh.meeting.start(returns=returns))
        elif event == "crash":
            self.crashes -= 1
            self.nodes[one] = Node(None, node.start)
        elif event == "leaves":
            node.has_left = True
            node.outgoing = [()] * 4
        elif event == "misses others":
            assert node.meeting is not None
            self._carry_out(one, node.meeting.miss(self._unknown(one)))
        elif event == "hears its answer":
            self._learn(one, other)
        elif event == "is heard by":
            self._learn(other, one)
        elif event == "calls":
            self._call(one, other)
        else:
            self._take_step(event, one, other)

    def _take_step(self, event: str, one: int, other: int) -> None:
        node, peer = self.nodes[one], self.nodes[other]
        assert node.meeting is not None
        if event == "loses":
            self._carry_out(one, node.meeting.lose(other))
        elif event == "sends a letter to":
            assert peer.meeting is not None
            must_answer = peer.meeting.is_announced and not peer.meeting.is_refused
            self._carry_out(other, peer.meeting.hear_letter())
            if must_answer and not peer.meeting.has_begun:
                raise ViolatedError(f"{one} has begun, and {other} does not answer")
        else:
            assert event == "tells"
            assert peer.meeting is not None
            note, *rest = node.outgoing[other]
            node.outgoing[other] = tuple(rest)
            absent = getattr(note, "process", other)
            is_known = peer.known[absent] != UNKNOWN
            wishes = peer.meeting.hear(one, note, is_known=is_known)
            self._carry_out(other, wishes)

    def _call(self, one: int, other: int) -> None:
        """Carry a handshake to its end."""
        node = self.nodes[one]
        if not self._learn(one, other):
            node.given_up.add(other)
            return
        assert node.meeting is not None
        self._carry_out(one, node.meeting.find(other))
        if not self._learn(other, one):
            self._carry_out(one, node.meeting.refuse())
        elif other not in node.met:
            node.met.add(other)
            self._carry_out(one, node.meeting.meet(other))

    def _learn(self, one: int, other: int) -> bool:
        """Let a node learn of the present start of another; return whether it speaks with it."""
        node, start = self.nodes[one], self.nodes[other].start
        assert node.meeting is not None
        known = node.known[other]
        if known not in (UNKNOWN, start):
            if not self.kind.takes_back or start == 0:
                self._carry_out(one, node.meeting.lose(other))
                return False
            node.outgoing[other] = ()
            self._carry_out(one, node.meeting.take_back(other))
        node.known[other] = start
        return True

    def _carry_out(self, one: int, wishes: list[Any]) -> None:
        node = self.nodes[one]
        for wish in wishes:  # known by its name: that of a mutant is of another class
            match type(wish).__name__:
                case "Tell":
                    for peer in wish.peers:
                        node.outgoing[peer] += (wish.note,)
                case "RuleOut":
                    if node.known[wish.peer] != UNKNOWN:
                        raise ViolatedError(f"{one} rules out {wish.peer}, and knows a start of it")
                    node.known[wish.peer] = RULED_OUT
                case "Begin":
                    self.has_begun = True
                    node.unborn = frozenset(each for each in NODES if self.nodes[each].start < 0)
                    self._judge_begin(one)
                case "Leave":
                    node.is_leaving = True
                case _:
                    pass  # the node shows it, and nothing follows

    # What must hold

    def _judge_begin(self, one: int) -> None:
        """Raise if a node begins before all have met: one would not answer it, or knows it not."""
        node = self.nodes[one]
        assert node.meeting is not None
        for other in node.meeting.others:
            peer = self.nodes[other]
            if node.known[other] == UNKNOWN and not node.meeting.returns:
                raise ViolatedError(f"{one} begins and has not met {other}")
            if not peer.is_there or self._is_doomed(other):
                continue
            assert peer.meeting is not None
            if not self.kind.goes_on and peer.known[one] != node.start:
                raise ViolatedError(f"{one} begins, and {other} does not know it")
            if self.kind.goes_on and not (peer.meeting.is_announced or peer.meeting.has_begun):
                raise ViolatedError(f"{one} begins, and {other} does not answer yet")

    def _is_doomed(self, one: int) -> bool:
        """Return whether a node that is there knows another start of this one, and refuses it."""
        start = self.nodes[one].start
        others = (self.nodes[other] for other in NODES if other != one and not self.kind.takes_back)
        return any(node.is_there and node.known[one] not in (UNKNOWN, start) for node in others)

    def judge(self) -> None:
        """Raise if two nodes have begun, one of them without the other."""
        begun = [
            (name, node) for name, node in self.nodes.items() if node.is_there and _has_begun(node)
        ]
        for one, node in begun:
            for other, peer in begun:
                if one == other:
                    continue
                assert node.meeting is not None
                if self.kind.takes_back:  # its algorithm has a rule for nodes that return
                    is_alone = peer.start == 0 and other in node.unborn
                else:
                    is_alone = node.known[other] != peer.start or other in node.meeting.lost
                if is_alone:
                    raise ViolatedError(f"{one} and {other} have begun, {one} without {other}")

    def judge_end(self) -> None:
        """Raise if a node waits for ever, or shows one as away for ever."""
        there = {name: node for name, node in self.nodes.items() if node.is_there}
        gone = set(NODES) - set(there)
        if self.kind.goes_on:
            # A node that is gone is waited for until any that is there knows that it was here.
            known = {
                peer for node in there.values() for peer in gone if node.known[peer] != UNKNOWN
            }
            is_complete = known == gone
        else:
            is_complete = not gone
        for name, node in there.items():
            assert node.meeting is not None
            if is_complete and not node.meeting.has_begun:
                raise ViolatedError(f"{name} waits for ever")
            away = node.meeting.lost & set(there)
            if away:
                raise ViolatedError(f"{name} shows {sorted(away)} as away for ever")


def _has_begun(node: Node) -> bool:
    return node.meeting is not None and node.meeting.has_begun


class Found(NamedTuple):
    """What an exploration has found."""

    states: int
    ends: int  # states in which nothing happens any more, unless something goes wrong
    violation: str
    path: tuple[str, ...]


def explore(
    kind: Kind,
    crashes: int,
    make: Callable[[int], Meeting] | None = None,
    *,
    cuts: bool = True,
    forgetful: bool = False,
) -> Found:
    """Visit all states, breadth first, up to the first violation.

    States in which nothing remembers whether the algorithm has begun are left out, unless `forgetful`.
    """
    world = MeetingWorld(kind, crashes, make or kind.meeting, cuts=cuts)
    symmetry = Symmetry()
    paths: dict[object, tuple[Any, str]] = {world.key(symmetry): (None, "")}
    queue = deque([world])
    ends = 0
    while queue:
        world = queue.popleft()
        before = world.key(symmetry)
        is_end = True
        text = ""
        try:
            for is_sure, events in ((True, world.progress()), (False, world.chances())):
                for event in events:
                    text = f"{event[1]} {event[0]}" + (f" {event[2]}" if event[2] else "")
                    following = world.after(*event)
                    following.judge()
                    key = following.key(symmetry)
                    is_end = is_end and not (is_sure and key != before)
                    if key not in paths and (forgetful or following.remembers):
                        paths[key] = (before, text)
                        queue.append(following)
            text = ""
            if is_end:
                ends += 1
                world.judge_end()
        except ViolatedError as error:
            path = (*_path(paths, before), text) if text else _path(paths, before)
            return Found(len(paths), ends, str(error), path)
    return Found(len(paths), ends, "", ())


def _path(paths: dict[object, tuple[Any, str]], key: object) -> tuple[str, ...]:
    steps: list[str] = []
    while True:
        key, text = paths[key]
        if key is None:
            return tuple(reversed(steps))
        steps.append(text)
