"""Detectors on a graph that does not change: who suspects a deadlock, and with how many messages."""

from __future__ import annotations

from collections import Counter, deque
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors.trial import Accuse
from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coterie.algorithms.deadlock.detectors.detector import Detector


class Outcome(NamedTuple):
    """Who accused whom of what, and what was sent on the way there."""

    suspicions: list[tuple[int, int, frozenset[int]]]  # accuser, victim, core
    messages: Counter[str]


def detect(
    kind: type[Detector[Any]],
    waits: Mapping[int, Condition[int]],
    initiators: list[int] | None = None,
) -> Outcome:
    """Let the initiators (all who wait, by default) search at once; nobody is tried."""
    size = max([*waits, *(t for condition in waits.values() for t in condition.targets())])
    detectors = {me: kind(me) for me in range(1, size + 1)}
    transit: deque[tuple[int, int, Any]] = deque()
    outcome = Outcome([], Counter())

    def carry_out(out: Outbox[Any]) -> None:
        for to, message in [*out.sends, *((out.me, message) for message in out.local)]:
            if isinstance(message, Accuse):
                core = frozenset(member for member, _ in message.members)
                outcome.suspicions.append((out.me, to, core))
                continue
            if to != out.me:
                outcome.messages[type(message).__name__] += 1
            transit.append((out.me, to, message))

    for me, condition in waits.items():
        detectors[me].begin(condition, Outbox(me), born=me)
    for me in waits if initiators is None else initiators:
        out: Outbox[Any] = Outbox(me)
        detectors[me].search(out)
        carry_out(out)
    while transit:
        sender, to, message = transit.popleft()
        out = Outbox(to)
        detectors[to].receive(sender, message, out)
        carry_out(out)
    return outcome


def subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(len(items) + 1):
        yield from combinations(items, count)


def and_or_conditions(size: int, me: int) -> list[Condition[int] | None]:
    """Every condition of the survey's model: some AND edges and one OR group, or nothing."""
    others = [other for other in range(1, size + 1) if other != me]
    found: list[Condition[int] | None] = []
    for required in subsets(others):
        rest = [other for other in others if other not in required]
        for group in subsets(rest):
            parts: list[int | Condition[int]] = [*required]
            if group:
                parts.append(any_of(*group))
            found.append(all_of(*parts) if parts else None)
    return found


def and_or_graphs(size: int) -> Iterator[dict[int, Condition[int]]]:
    """Every graph of the survey's model."""
    choices = [and_or_conditions(size, me) for me in range(1, size + 1)]
    for chosen in product(*choices):
        yield {me: condition for me, condition in enumerate(chosen, 1) if condition is not None}


def plain_graphs(size: int, *, alternatives: bool) -> Iterator[dict[int, Condition[int]]]:
    """Every graph whose conditions are all AND, or all OR."""
    combine = any_of if alternatives else all_of
    choices = [
        list(subsets([other for other in range(1, size + 1) if other != me]))
        for me in range(1, size + 1)
    ]
    for chosen in product(*choices):
        yield {me: combine(*targets) for me, targets in enumerate(chosen, 1) if targets}
