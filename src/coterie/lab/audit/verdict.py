"""What an audit has found: how much was run, which levels were kept, and the smallest anomaly."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from coterie.lab.isolation import judge_levels
from coterie.lab.serializability import Anomaly, check
from coterie.transactions.history import TransactionOutcome

if TYPE_CHECKING:
    from coterie.lab.audit.client import Recorder
    from coterie.lab.audit.runner import Runner
    from coterie.lab.audit.target import Level


class Tally(msgspec.Struct, frozen=True):
    """What was run of one workload, and what was wrong with it."""

    workload: str
    rounds: int
    committed: int
    refused: int
    unknown: int
    anomalies: dict[str, int]  # how many of each name


class Verdict(msgspec.Struct, frozen=True):
    """The result of an audit."""

    store: str
    isolation: str
    promises: str  # the level that the store promises; empty if none
    serializable: bool | None
    levels: dict[str, bool | None]
    workloads: tuple[Tally, ...]
    smallest: Anomaly | None
    found_by: str = ""  # the workload of the smallest anomaly

    @property
    def keeps_promise(self) -> bool | None:
        """Whether the promised level was kept; True where none is promised."""
        return self.levels[self.promises] if self.promises else True


def judge(store: str, isolation: str, level: Level, runner: Runner) -> Verdict:
    """Judge what was recorded."""
    recorder = runner.recorder
    report = check(recorder.history)
    anomalies = [_renamed(anomaly, recorder) for anomaly in report.anomalies]
    found: dict[str, Counter[str]] = {name: Counter() for name in runner.rounds}
    for anomaly in anomalies:
        title = f"{anomaly.name} ({anomaly.meaning})"
        found[recorder.workloads[str(anomaly.cycle[0])]][title] += 1
    smallest = min(anomalies, key=lambda a: _size(a, recorder), default=None)
    outcomes = {
        name: Counter(
            transaction.outcome
            for transaction in recorder.history.transactions.values()
            if recorder.workloads[str(transaction.name)] == name
        )
        for name in runner.rounds
    }
    return Verdict(
        store=store,
        isolation=isolation,
        promises=level.promises,
        serializable=report.serializable,
        levels=judge_levels(recorder.history, report=report),
        workloads=tuple(
            Tally(
                name,
                rounds,
                outcomes[name][TransactionOutcome.COMMITTED],
                outcomes[name][TransactionOutcome.ABORTED],
                outcomes[name][TransactionOutcome.UNKNOWN],
                dict(found[name]),
            )
            for name, rounds in runner.rounds.items()
        ),
        smallest=smallest,
        found_by=recorder.workloads[str(smallest.cycle[0])] if smallest else "",
    )


def _renamed(anomaly: Anomaly, recorder: Recorder) -> Anomaly:
    """Call a phantom by its name: what was read there was read by a condition."""
    if recorder.workloads[str(anomaly.cycle[0])] != "phantom" or anomaly.name != "G2-item":
        return anomaly
    return msgspec.structs.replace(anomaly, name="G2", meaning="phantom")


def _size(anomaly: Anomaly, recorder: Recorder) -> tuple[int, int]:
    """Rank by transactions, then by what these did."""
    transactions = recorder.history.transactions
    return len(anomaly.cycle), sum(len(transactions[name].accesses) for name in anomaly.cycle)
