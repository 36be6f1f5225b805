"""Which move of a run happened before which: by the order of each process, and by messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.trace import Delivered, Sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.play.runs.run import Step


def happened_before(steps: Sequence[Step], one: int, other: int) -> bool:
    """Return whether one move of a run happened before another: Lamport's relation."""
    return one in _past(steps, other)


def _past(steps: Sequence[Step], number: int) -> set[int]:
    sent: dict[int, int] = {}  # the move in which each message was sent
    last: dict[int, int] = {}  # the last move of each process
    pasts: dict[int, set[int]] = {0: set()}
    for step in steps[1:]:
        past: set[int] = set()
        arrived = [sent[x.number] for x in step.records if isinstance(x, Delivered)]
        for earlier in [*arrived, last.get(step.process, 0)]:
            past |= pasts[earlier] | {earlier}
        pasts[step.number] = past - {0}
        last[step.process] = step.number
        sent |= {x.number: step.number for x in step.records if isinstance(x, Sent)}
    return pasts[number]
