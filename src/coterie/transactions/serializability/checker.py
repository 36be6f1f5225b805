"""Is a history serializable? Exactly, as far as the search goes; and what is wrong with it if not.

Where the history states versions their order is a fact, and one pass over the dependencies decides.
Where it does not, any order of versions will do that explains the reads: likely ones are tried
first, then what is plainly impossible is refuted, and the rest is searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.errors import UsageError
from coterie.transactions.history import Outcome, parse_history
from coterie.transactions.serializability.certain import certain_pairs, likely_versions
from coterie.transactions.serializability.cycles import anomalies
from coterie.transactions.serializability.dependencies import dependencies, serial_order
from coterie.transactions.serializability.observation import Observation, observe
from coterie.transactions.serializability.real_time import strict_order
from coterie.transactions.serializability.report import Anomaly, Report
from coterie.transactions.serializability.search import EFFORT, LARGEST, GivenUpError, Search

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.transactions.history import History, Key

    Versions = dict[Key, list[int]]


LONG = 1 << 20  # bytes of a history that take longer to judge one by one than numpy to be loaded


class _Verdict(NamedTuple):
    serializable: bool | None
    order: list[int] | None = None


def check(history: History, *, effort: int = EFFORT, real_time: bool = False) -> Report:
    """Judge a history: serializable with an equivalent order, or not with the anomalies.

    With `real_time` it has to be strictly serializable: one that ended before another began stands
    before it. That is decided for histories that state their versions.

    The answer is None if versions are not stated and no order was found in `effort` steps. Cycles
    of a history that does not state versions are shown for the likeliest order of versions; that
    they are there in every other order as well is what the checker has proven.
    """
    observation = observe(history)
    judge = _Judge(observation)
    verdict = judge.decide(effort)
    found = tuple(observation.dirty)
    if verdict.serializable is False:
        found += tuple(judge.cycles())
    elif real_time:
        order, late = judge.strict()
        verdict = _Verdict(not late, order)
        found += tuple(late)
    sound = verdict.serializable and not found
    names = [transaction.name for transaction in observation.transactions]
    return Report(
        serializable=False if found else verdict.serializable,
        anomalies=found,
        order=tuple(names[number] for number in verdict.order or ()) if sound else None,
        versions="inferred" if judge.unknown else "stated",
        transactions=len(names),
        presumed_committed=tuple(
            transaction.name
            for transaction in observation.transactions
            if transaction.outcome is Outcome.UNKNOWN
        ),
        left_out=tuple(observation.left_out),
    )


def check_lines(content: bytes) -> Report:
    """Judge a history in JSON lines as `check` does; raise `UsageError` with the line that is wrong.

    A long one is first tried in columns, which finds out in a fifth of the time that all is well.
    """
    if len(content) >= LONG:
        from coterie.transactions.serializability.certificate import (  # noqa: PLC0415 - numpy
            certify,
        )

        report = certify(content)
        if report is not None:
            return report
    return check(parse_history(content))


class _Judge:
    """Decides whether some order explains the clean reads of an observation."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self.size = len(observation.transactions)
        single = {key: writers for key, writers in observation.writers.items() if len(writers) == 1}
        self.known: Versions = {**single, **observation.versions}
        self.unknown: Versions = {
            key: writers for key, writers in observation.writers.items() if key not in self.known
        }
        self.guessed = [r for r in observation.readings if r.key in self.unknown]

    def decide(self, effort: int) -> _Verdict:
        ended = range(self.size)
        order, tangled = self._try(self._likely(), ended)
        if not tangled:
            return _Verdict(serializable=True, order=order)
        if not self.unknown:
            return _Verdict(serializable=False)
        nodes, pairs = self._certain()
        topological, tangled = serial_order([*ended, *[-1] * (nodes - self.size)], pairs)
        if tangled:
            return _Verdict(serializable=False)
        for ranks in (ended, [t.first for t in self.observation.transactions]):
            order, tangled = self._try(self._guess(nodes, pairs, ranks), ended)
            if not tangled:
                return _Verdict(serializable=True, order=order)
        return self._search(topological, pairs, effort)

    def cycles(self) -> list[Anomaly]:
        """Name the cycles of the likeliest order of versions."""
        edges = list(dependencies(self.observation.readings, self._likely()))
        _, tangled = serial_order(range(self.size), ((e.source, e.target) for e in edges))
        return anomalies(self.observation, edges, tangled)

    def strict(self) -> tuple[list[int] | None, list[Anomaly]]:
        """Order the transactions in real time, or show what is against it."""
        if self.unknown:
            raise UsageError(
                "real time can be checked only if the history states the versions of writes"
            )
        return strict_order(
            self.observation, list(dependencies(self.observation.readings, self.known))
        )

    def _try(self, versions: Versions, ranks: Sequence[int]) -> tuple[list[int], list[int]]:
        edges = dependencies(self.observation.readings, versions)
        return serial_order(ranks, ((source, target) for source, target, _, _ in edges))

    def _likely(self) -> Versions:
        return {**self.known, **likely_versions(self.guessed, self.unknown)}

    def _guess(self, nodes: int, pairs: list[tuple[int, int]], ranks: Sequence[int]) -> Versions:
        """Order versions as their writers come when all that is certain is respected."""
        order, _ = serial_order([*ranks, *[-1] * (nodes - self.size)], pairs)
        place = {node: index for index, node in enumerate(order)}
        guesses = {k: sorted(w, key=place.__getitem__) for k, w in self.unknown.items()}
        return {**self.known, **guesses}

    def _certain(self) -> tuple[int, list[tuple[int, int]]]:
        nodes, pairs = certain_pairs(self.size, self.guessed, self.unknown)
        return nodes, [*pairs, *self._stated()]

    def _stated(self) -> Iterator[tuple[int, int]]:
        """Yield the dependencies through keys whose versions are in a known order."""
        readings = [r for r in self.observation.readings if r.key not in self.unknown]
        for source, target, _, _ in dependencies(readings, self.known):
            yield source, target

    def _search(
        self, topological: list[int], pairs: list[tuple[int, int]], effort: int
    ) -> _Verdict:
        if len(topological) > LARGEST:
            return _Verdict(serializable=None)
        search = Search(self.size, self.guessed, self.unknown, effort)
        try:
            order = search.run(topological, pairs)
        except GivenUpError:
            return _Verdict(serializable=None)
        return _Verdict(serializable=order is not None, order=order)
