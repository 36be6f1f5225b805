"""Which levels of isolation a history keeps, each by a definition that can be decided.

An order of commits is an order of all transactions in which each stands behind those from which it
read, and in which the versions of each key follow each other, as stated or in any order if not.

read-committed       (Adya's PL-2) nothing is read that was aborted, intermediate or never written, and
                     there is an order of commits: no G0, G1a, G1b, G1c
read-atomic          what sees one write of a transaction sees all of them: no fractured reads
causal               ... and all that this transaction had to see
snapshot-isolation   each reads the state of one moment and no two that overlap write the same key: no
                     cycle without two anti-dependencies in a row, such as G-single
serializable         no cycle at all

Each level includes those before it. Where sessions count, the order within a session is part of each.
All but the last two take polynomial time, and so do these if versions are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.isolation.part import parts
from coterie.lab.isolation.snapshot import holds_snapshot
from coterie.lab.isolation.visibility import TooManyError, Views
from coterie.lab.serializability import check
from coterie.lab.serializability.dependencies import serial_order
from coterie.lab.serializability.observation import observe

if TYPE_CHECKING:
    from coterie.lab.isolation.part import Part
    from coterie.lab.serializability import Report
    from coterie.transactions.history import History

LEVELS = ("read-committed", "read-atomic", "causal", "snapshot-isolation", "serializable")
GUARANTEES = ("read-your-writes", "monotonic-reads", "monotonic-writes", "writes-follow-reads")
LARGEST = 20_000  # transactions of a part whose pairs fit in memory, at one bit each


def judge_levels(
    history: History, *, sessions: bool = False, report: Report | None = None
) -> dict[str, bool | None]:
    """Decide each level, and with `sessions` each guarantee; None where that was too hard.

    A report of `check` for the same history, if there is one, answers for serializability.
    """
    report = report or check(history, sessions=sessions)
    guarantees = GUARANTEES if sessions else ()
    if report.serializable:
        return dict.fromkeys((*LEVELS, *guarantees), True)
    observation = observe(history)
    if observation.dirty:
        # The guarantees speak of what was committed, and of these reads it is not known what they saw.
        return dict.fromkeys(LEVELS, False) | dict.fromkeys(guarantees)
    levels: dict[str, bool | None] = dict.fromkeys((*LEVELS[:-1], *guarantees), True)
    for part in parts(observation, sessions=sessions):
        _judge(part, levels)
    serializable = report.serializable if levels[LEVELS[-2]] is not False else False
    return {
        **{name: levels[name] for name in LEVELS[:-1]},
        LEVELS[-1]: serializable,
        **{name: levels[name] for name in guarantees},
    }


def _judge(part: Part, levels: dict[str, bool | None]) -> None:
    """Lower what is said of each level to what holds in this part."""
    views = Views(part) if part.size <= LARGEST else None
    answers: dict[str, bool | None] = {}
    below: bool | None = True
    for name in LEVELS[:-1]:
        if below is False or levels[name] is False:
            answers[name] = below = False
        elif (answer := _answer(name, part, views)) is not None:
            answers[name] = below = answer
        else:
            answers[name] = None
    above: bool | None = None
    for name in reversed(answers):
        above = True if above else answers[name]  # each level includes those before it
        if above is not True:
            levels[name] = above
    for name in GUARANTEES:
        if levels.get(name):
            levels[name] = _answer(name, part, views)


def _answer(name: str, part: Part, views: Views | None) -> bool | None:
    if name == "read-committed":
        _, tangled = serial_order(range(part.size), part.certain())
        return not tangled
    if name == "snapshot-isolation":
        return holds_snapshot(part)
    if views is None:
        return None
    try:
        return views.holds(name)
    except TooManyError:
        return None
