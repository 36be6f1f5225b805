"""One order for the records of several nodes, in which nothing arrives before it was sent.

Clocks of different machines differ. So each record is placed by its node's clock, and never before what
caused it: a message that arrives follows the one sent, by the numbers that letters have on a link, and
what a node did later follows what it did before. A step stays whole: an input, and what it led to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.trace import Delivered, Sent, Told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.trace import AnyRecord


class NodePart(NamedTuple):
    """The records of one node about one lock, and the last letters to its peers before them."""

    records: Sequence[AnyRecord]
    before: Mapping[int, int]


def merge(parts: Sequence[NodePart]) -> list[AnyRecord]:
    """Put the records of nodes 1, 2 and so on in one order, and number their messages.

    The earliest comes next, unless it is the arrival of a message whose sending has not had its turn.
    Messages that were under way when the recording began are left out. Nodes are not asked at the
    same moment at the end: what follows from a message that was sent after its sender was asked is
    left out, too, so that the end is a state in which the cluster could have been.
    """
    sendings = {_link(x) for part in parts for x in part.records if isinstance(x, Sent)}
    numbers: dict[tuple[int, int, int], int] = {}
    queues = [[*reversed(_steps(part.records))] for part in parts]
    merged: list[AnyRecord] = []
    now = 0.0
    while any(queues):
        ready = [queue for queue in queues if queue and _is_due(queue[-1][0], sendings, numbers)]
        assert ready, "an arrival waits for its sending, and time goes on at every node"
        queue = min(ready, key=lambda each: each[-1][0].time)
        step = queue.pop()
        cause = step[0]
        if isinstance(cause, Delivered) and _link(cause) not in numbers:
            if cause.number > parts[cause.sender - 1].before.get(cause.receiver, cause.number):
                later = [record for each in (step, *queue) for record in each]
                sendings -= {_link(record) for record in later if isinstance(record, Sent)}
                queue.clear()
                continue
            step = step[1:]
        now = max(now, cause.time)
        for record in step:
            if isinstance(record, Sent):
                numbers[_link(record)] = len(numbers) + 1
            merged.append(_placed(record, now, numbers))
    return merged


def _placed(
    record: AnyRecord, now: float, numbers: Mapping[tuple[int, int, int], int]
) -> AnyRecord:
    """Return a record with its time in the merged run, and the number of its message there."""
    if isinstance(record, Sent | Delivered):
        return msgspec.structs.replace(record, time=now, number=numbers[_link(record)])
    return msgspec.structs.replace(record, time=now)


def _steps(records: Sequence[AnyRecord]) -> list[list[AnyRecord]]:
    """Put together what was one step of a process: an input, and what it has sent and told."""
    steps: list[list[AnyRecord]] = []
    for record in records:
        if isinstance(record, Sent | Told) and steps:
            steps[-1].append(record)
        else:
            steps.append([record])
    return steps


def _link(record: Sent | Delivered) -> tuple[int, int, int]:
    return record.sender, record.receiver, record.number


def _is_due(
    record: AnyRecord,
    sendings: set[tuple[int, int, int]],
    numbers: dict[tuple[int, int, int], int],
) -> bool:
    if not isinstance(record, Delivered):
        return True
    link = _link(record)
    return link in numbers or link not in sendings
