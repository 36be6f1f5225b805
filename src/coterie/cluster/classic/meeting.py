"""How the nodes of a classic algorithm meet: which of them a node waits for before it begins.

A `Meeting` is a value, as an algorithm is: each input is a method, which changes the value and returns
wishes for the node to carry out, in their order. It knows no connection and no clock.

No node begins before all have met. A node that crashes in that time must not keep the others waiting, if
the algorithm goes on without lost nodes. So nodes tell each other which nodes they lose, and a node that
any of them has met before it was lost counts as met. Each node begins when all others that live have met
all as well: an algorithm that finds out by time which nodes are down would otherwise take a node for dead
that has let it in, and waits itself.

A node that returns, with a rule of its algorithm for that, need not be met by all others, since some may
be gone for good. But it waits for those that live and are still meeting, for the same reason. A node that
is refused leaves, so that no other node waits for it.

Limit: what is known of a first start is known to nodes, and is not on any disk. If all first starts crash
while they meet, nothing remembers that the algorithm has not begun: the second starts take themselves
for returns, and begin without the nodes that have never been started.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from coterie.cluster.classic.frames import Able, Absent, Note
from coterie.process import ProcessId


class Begin(msgspec.Struct, frozen=True):
    """Let processes be used."""


class Tell(msgspec.Struct, frozen=True):
    """Send a note to these nodes."""

    peers: frozenset[ProcessId]
    note: Note


class Lost(msgspec.Struct, frozen=True):
    """A node is lost to this one."""

    peer: ProcessId


class Regained(msgspec.Struct, frozen=True):
    """A node is back that was lost, in the same start."""

    peer: ProcessId


class RuleOut(msgspec.Struct, frozen=True):
    """Take each start of an unknown node for a restart."""

    peer: ProcessId


class Leave(msgspec.Struct, frozen=True):
    """End all links: the others go on without this node."""


Wish: TypeAlias = Begin | Tell | Lost | Regained | RuleOut | Leave


class Meeting(msgspec.Struct):
    """What one node knows of the others, as far as it decides when to begin."""

    others: frozenset[ProcessId]
    goes_on: bool  # the algorithm goes on without lost nodes
    stays_without: bool  # also if a lost node turns out to have been cut off only
    returns: bool = False  # this start is a return, by the rule of the algorithm
    strangers: set[ProcessId] = msgspec.field(default_factory=set)  # have not let this node in
    unable: set[ProcessId] = msgspec.field(default_factory=set)  # not known to have met all others
    lost: set[ProcessId] = msgspec.field(default_factory=set)
    is_announced: bool = False  # the others were told that this node is able to begin
    has_begun: bool = False
    is_refused: bool = False  # by a node that knows an earlier start of this one

    def start(self, *, returns: bool) -> list[Wish]:
        """Begin to meet the others, for the first time or as a node that returns."""
        self.returns = returns
        self.strangers = set(self.others)
        self.unable = set(self.others) if self.goes_on else set()
        return self._begin_if_able()

    def _begin_if_able(self, missed: frozenset[ProcessId] = frozenset()) -> list[Wish]:
        """Begin if all nodes know this one, and all others that live are able to begin.

        A node cannot know by itself whether it was restarted. The nodes that know an earlier start
        do not let it in: so it waits until every other node has let it in, or is known to have been
        here and to be lost. A node whose disk says that it was here before is let in, and begins
        with the rule of its algorithm for that.
        """
        if self.has_begun or self.is_refused or (self.strangers and not self.returns):
            return []
        wishes: list[Wish] = []
        if self.goes_on and not self.is_announced:
            self.is_announced = True
            wishes.append(Tell(self.others, Able()))
        # Nodes that are missed now count as gone, and not those that were: they may have come since.
        if not self.unable - missed:
            self.has_begun = True
            wishes.append(Begin())
        return wishes

    # Nodes that come

    def meet(self, peer: ProcessId) -> list[Wish]:
        """Note that a node has let this one in."""
        self.strangers.discard(peer)
        return [*self.find(peer), *self._begin_if_able()]

    def find(self, peer: ProcessId) -> list[Wish]:
        """Note that a node is connected: if it was lost, it was cut off or late.

        Its messages have waited. A mutex whose processes were told that it is down stays without it.
        """
        if peer not in self.lost or self.stays_without:
            return []
        self.lost.discard(peer)
        return [Regained(peer)]

    def take_back(self, peer: ProcessId) -> list[Wish]:
        """Note that a node has returned, by the rule of its algorithm."""
        self.lost.discard(peer)
        # What the start before was told is forgotten, and the new one waits for us.
        return [Tell(frozenset({peer}), Able())] if self.is_announced else []

    # Nodes that go

    def lose(self, peer: ProcessId) -> list[Wish]:
        """Note that a node is gone that was here: it is down, or its second start is refused."""
        if self.is_refused:
            # It loses the nodes that go on without it. No other may take them for gone: two that
            # were restarted would begin beside them.
            return []
        wishes: list[Wish] = [] if peer in self.lost else [Lost(peer)]
        self.lost.add(peer)
        if self.goes_on and (wishes or peer in self.strangers):
            # A node that has not been started is waited for: it could act on its own when it comes,
            # as the others would without it. This one has been here, so each later start of it is
            # refused, or returns: at the nodes that know it, and at those that learn of it here.
            self.strangers.discard(peer)
            self.unable.discard(peer)
            wishes.append(Tell(self.others - {peer}, Absent(peer)))
            wishes += self._begin_if_able()
        return wishes

    def miss(self, unknown: frozenset[ProcessId]) -> list[Wish]:
        """Note that for a lease nothing has been known of these nodes.

        A node that returns begins without them, unless it waits for others: they may be gone for good.
        """
        if not self.returns:
            return []
        new = sorted(self.strangers & unknown - self.lost)
        self.lost.update(new)
        return [*map(Lost, new), *self._begin_if_able(unknown)]

    def refuse(self) -> list[Wish]:
        """Note that a node refuses this one, whose earlier start it knows."""
        if self.is_refused:
            return []
        self.is_refused = True
        # Nodes that know this start and none before would wait for it to become able.
        return [Leave()]

    # What other nodes say

    def hear(self, sender: ProcessId, note: Note, *, is_known: bool) -> list[Wish]:
        """Take a note; `is_known` says whether a start of the lost node is known here."""
        if isinstance(note, Able):
            self.unable.discard(sender)
            return self._begin_if_able()
        # Whether a node is there that has called us or answered, we know ourselves: it would refuse
        # us, or we lose it. What others say may be older than that.
        if note.process not in self.strangers or is_known:
            return []
        # It would let us in if it is started again, and could act when those that know its first
        # start are gone: with its initial state, beside what we do without it.
        return [RuleOut(note.process), *self.lose(note.process)]

    def hear_letter(self) -> list[Wish]:
        """Note that a node has begun, since it sends a letter of the algorithm.

        It has heard of all that live that they are able. One of them may have ended before it has
        told us.
        """
        self.unable.clear()
        return self._begin_if_able()
