"""What numbered configurations promise, held against what happens in a world that changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.coteries.joint import meet
from tests.algorithms.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from tests.algorithms.mutex.leased_changes import ChangingWorld
    from tests.algorithms.mutex.leased_faults import Node


class Numbers:
    """Watches one run; the first breach ends it."""

    def __init__(self, world: ChangingWorld) -> None:
        self.world = world
        self.decided = {world.founding.number: world.founding}
        self.finished: set[int] = set()  # numbers of which it was noted
        self.forced = -1  # the number that was forced; it says nothing of those before it
        self.highest: dict[tuple[object, ...], int] = {}  # of what must not fall
        self.meetings: dict[tuple[int, int], bool] = {}
        self.heard: dict[str, float] = {}  # when a session was last renewed, by its name

    @property
    def newest(self) -> Any:
        """The decision with the highest number that any process has heard of."""
        return self.decided[max(self.decided)]

    def overrule(self, forced: Any) -> None:
        """Hear of a configuration that was not decided."""
        self.decided.setdefault(forced.number, forced)
        self.forced = max(self.forced, forced.number)

    def check(self, node: Node) -> None:
        """Look at a process after its step."""
        world, part = self.world, node.part
        if node.me in world.voters:
            self._check_voter(node)
        elif node.me in world.participants:
            self._hear_of(part.configuration)
            if part.next is not None:
                self._hear_of(part.next)
            self._rises((node.name, "number"), part.configuration.number)
            self._check_the_one_rule(node)
        else:
            self._hear_of(part.configuration)
            self._rises((node.name, "number"), part.configuration.number)

    def _check_voter(self, node: Node) -> None:
        part = node.part
        if part.configuration is None:
            return
        self._hear_of(part.configuration)
        if node.me in self.world.wiped and part.number > 0:
            raise Breach(f"voter {node.me} goes on as what it was, with a blank disk")
        self._rises((node.me, part.identity, "number"), part.number)
        closed = self.highest.get((node.name, "closed"), -1)
        self._rises((node.name, "closed"), part.closed)
        for link in part.sessions.values():
            nonce = link.session.nonce
            self._rises((nonce, "session"), link.number)
            is_served, self.heard[nonce] = link.heard > self.heard.get(nonce, 0.0), link.heard
            if is_served and link.number <= closed:
                raise Breach(f"voter {node.me} serves number {link.number}, which it has closed")

    def _rises(self, what: tuple[object, ...], number: int) -> None:
        """J2: numbers never fall."""
        if number < self.highest.get(what, number):
            raise Breach(f"{what} falls from {self.highest[what]} to {number}")
        self.highest[what] = number

    def _hear_of(self, configuration: Any) -> None:
        """J1: there is one decision for each number. And note what is finished by it."""
        known = self.decided.get(configuration.number)
        if known is configuration:
            return
        if known is not None and not known.is_same(configuration):
            raise Breach(f"two decisions for number {configuration.number}")
        self.decided[configuration.number] = configuration
        still_open = {rule.number for rule in configuration.open}
        first = self.forced if configuration.number >= self.forced else 0
        for number in range(max(first, 0), configuration.number):
            if number not in still_open and number not in self.finished:
                self.finished.add(number)
                for node in self.world.participants.values():
                    if node.alive:
                        self._check_finished(node)

    def _holds(self, node: Node) -> bool:
        return any(self.world.is_valid(node, lock) for lock in node.part.bids)

    def _check_finished(self, node: Node) -> None:
        """J3: no participant counts in a number that is finished."""
        number = node.part.configuration.number
        if self.world.plan.profile == "wild" or number not in self.finished:
            return
        if self._holds(node):
            raise Breach(f"{node.me} holds by number {number}, which is finished")

    def _meet(self, one: Any, other: Any) -> bool:
        pair = one.number, other.number
        if pair not in self.meetings:  # by the coteries alone, in case that the rule is broken
            self.meetings[pair] = meet(one.quorums, other.quorums)
        return self.meetings[pair]

    def _check_the_one_rule(self, node: Node) -> None:
        """J4: quorums of any two numbers in use meet."""
        self._check_finished(node)
        if self.world.plan.profile == "wild":
            return
        mine = node.part.configuration.rule
        for other in self.world.participants.values():
            if other is node or not other.alive:
                continue
            theirs = other.part.configuration.rule
            if theirs.number == mine.number or self._meet(mine, theirs):
                continue
            if min(mine.number, theirs.number) < self.forced:
                continue  # 19.11: P1 rests on abstention there, and is looked at by itself
            if self._holds(node) and self._holds(other):
                numbers = f"{mine.number} and {theirs.number}"
                raise Breach(f"holds by numbers {numbers}, whose quorums need not meet")
