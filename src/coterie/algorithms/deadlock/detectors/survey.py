"""The continuous detection of Maekawa, Shimizu and Hamano's survey (1987), as a variant.

With its requests a process sends detection messages, which follow the waits and write down the way
they took. Those that come back are kept by their origin until together they hold a knot. Kept for
study: messages are exponentially many in the worst case, and rule a throws away what some AND-OR
deadlocks need, so that no process ever learns of them (see docs/deadlock-detectors.md). AND and OR
alone are detected by some member of each cycle or knot. Use `diffusing`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors.detector import Detector
from coterie.algorithms.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Denied,
    Release,
    Settled,
    TrialMessage,
)
from coterie.algorithms.deadlock.detectors.waits import Wait
from coterie.errors import ConfigError
from coterie.process import Outbox, Payload, ProcessId


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """One process on the way, and the edge taken: its wait, reduced to one AND target or OR group."""

    process: ProcessId
    wait: Wait
    taken: ProcessId

    @property
    def is_or(self) -> bool:
        """Whether the edge taken is one of several in an OR group."""
        return self.wait.condition.size > 1


class Detection(Payload, frozen=True):
    """A detection message; the first hop is its origin."""

    path: tuple[Hop, ...]


Message: TypeAlias = Detection | TrialMessage


class SurveyDetector(Detector[Message]):
    """A detector by the survey's rules, for conditions of AND edges and at most one OR group."""

    messages: ClassVar[Any] = Message

    kept: list[Detection] = []  # messages of the present wait that came back

    def search(self, out: Outbox[Any]) -> None:
        """Rule 1: send a message along every edge, with the names that belong to it."""
        self.kept.clear()
        if self.wait is not None:
            self._send_on((), out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a detection message or a message of a trial."""
        match message:
            case Detection(path):
                self._pass_on(path, message, out)
            case Accuse() | Confirm() | Confirmed() | Denied() | Release() | Settled():
                self.judge(sender, message, out)

    def _changed(self, out: Outbox[Any]) -> None:
        """Forget what came back for another wait."""
        self.kept.clear()

    def _pass_on(self, path: tuple[Hop, ...], message: Detection, out: Outbox[Message]) -> None:
        """Rules 2 and 3: drop it if this process runs; else keep it at its origin, or send it on."""
        if self.wait is None:
            return
        if path[0].process == self.me:
            self._keep(message, out)
        elif path[-1].is_or or all(hop.process != self.me for hop in path):  # rule a
            self._send_on(path, out)

    def _send_on(self, path: tuple[Hop, ...], out: Outbox[Any]) -> None:
        """Rule 2: along every edge, except OR edges that the message has passed (rule b)."""
        assert self.wait is not None, "only processes that wait send detection messages"
        passed = {(hop.process, hop.taken) for hop in path if hop.is_or}
        for group in groups(self.wait.condition):
            wait = msgspec.structs.replace(self.wait, condition=any_of(*group))
            for target in group:
                if len(group) == 1 or (self.me, target) not in passed:
                    out.send(target, Detection((*path, Hop(self.me, wait, target))))

    def _keep(self, message: Detection, out: Outbox[Message]) -> None:
        """Rule 3: look for a knot in all that came back; there may be several, one is enough."""
        assert self.wait is not None, "dropped otherwise"
        if message.path[0].wait.number != self.wait.number:
            return
        self.kept.append(message)
        self._suspect(self._recorded(), out)

    def _recorded(self) -> dict[ProcessId, Wait]:
        """Return the waits that the messages tell of: of each process the groups that they passed through.

        All groups must be met, and of those that no message passed nothing is known: they are left
        out. If messages tell of different waits of a process, the last one counts.
        """
        hops = sorted({hop for message in self.kept for hop in message.path}, key=_by_wait)
        waits: dict[ProcessId, Wait] = {}
        for hop in hops:
            known = waits.get(hop.process)
            parts = [hop.wait.condition]
            if known is not None and known.number == hop.wait.number:
                parts += known.condition.groups
            everything: Condition[ProcessId] = all_of(*dict.fromkeys(parts))
            waits[hop.process] = msgspec.structs.replace(hop.wait, condition=everything)
        return waits


def _by_wait(hop: Hop) -> tuple[ProcessId, int, tuple[ProcessId, ...], ProcessId]:
    return hop.process, hop.wait.number, hop.wait.condition.targets(), hop.taken


def groups(condition: Condition[ProcessId]) -> list[tuple[ProcessId, ...]]:
    """Split a condition into its AND edges, one name each, and its OR group."""
    if condition.needed == 1 and not condition.groups:
        return [condition.nodes]
    plain = all(group.needed == 1 and not group.groups for group in condition.groups)
    if condition.needed == condition.size and plain:
        return [(node,) for node in condition.nodes] + [group.nodes for group in condition.groups]
    raise ConfigError(f"the survey's rules know AND edges and OR groups, got {condition}")
