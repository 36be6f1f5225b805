"""Is a history serializable? Exactly, as far as the search goes; and what is wrong with it if not.

Where the history states versions their order is a fact, and one pass over the dependencies decides.
Where it does not, any order of versions will do that explains the reads: likely ones are tried
first, then what is plainly impossible is refuted, and the rest is searched.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.serializability.certain import certain_pairs, likely_versions
from coterie.lab.serializability.cycles import anomalies
from coterie.lab.serializability.dependencies import dependencies, serial_order
from coterie.lab.serializability.observation import Observation, observe
from coterie.lab.serializability.real_time import NOTHING, late, required
from coterie.lab.serializability.report import Anomaly, Report
from coterie.lab.serializability.search import EFFORT, LARGEST, GivenUpError, Search
from coterie.transactions.history import TransactionOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.serializability.real_time import Required
    from coterie.lab.serializability.report import Edge
    from coterie.transactions.history import History, Key

    Versions = dict[Key, list[int]]


class _Verdict(NamedTuple):
    serializable: bool | None
    order: list[int] | None = None
    reason: str = ""  # why it was not decided


def check(
    history: History, *, effort: int = EFFORT, real_time: bool = False, sessions: bool = False
) -> Report:
    """Judge a history: serializable with an equivalent order, or not with the anomalies.

    With `real_time` it has to be strictly serializable: one that ended before another began stands
    before it. With `sessions` the order also has to be that of the transactions of each session.

    The answer is None if versions are not known and no order was found in `effort` steps. Cycles
    of a history that does not state versions are shown for the likeliest order of versions; that
    they are there in every other order as well is what the checker has proven.

    A long one that was read from JSON lines is first tried in columns, which finds out in a fraction
    of the time that all is well.
    """
    if history.columns is not None and not real_time and not sessions:
        from coterie.lab.serializability.certificate import certify  # noqa: PLC0415 - numpy

        report = certify(history.columns)
        if report is not None:
            return report
    observation = observe(history)
    judge = _Judge(observation)
    verdict = judge.decide(effort)
    found = tuple(observation.dirty)
    if verdict.serializable is False:
        found += tuple(judge.cycles())
    elif real_time or sessions:
        demanded = required(observation, real_time=real_time, sessions=sessions)
        verdict = judge.decide(effort, demanded)
        if verdict.serializable is False:
            found += tuple(judge.cycles(demanded))
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
            if transaction.outcome is TransactionOutcome.UNKNOWN
        ),
        left_out=tuple(observation.left_out),
        undecided=verdict.reason,
    )


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

    def decide(self, effort: int, demanded: Required = NOTHING) -> _Verdict:
        order, tangled = self._try(self._likely(), demanded)
        if not tangled:
            return _Verdict(serializable=True, order=order)
        if not self.unknown:
            return _Verdict(serializable=False)
        nodes, pairs = self._certain(demanded)
        topological, tangled = serial_order(self._ranks(nodes, range(self.size), demanded), pairs)
        if tangled:
            return _Verdict(serializable=False)
        for ranks in (range(self.size), [t.first for t in self.observation.transactions]):
            guess = self._guess(pairs, self._ranks(nodes, ranks, demanded))
            order, tangled = self._try(guess, demanded)
            if not tangled:
                return _Verdict(serializable=True, order=order)
        return self._search(topological, pairs, effort)

    def cycles(self, demanded: Required = NOTHING) -> list[Anomaly]:
        """Name the cycles of the likeliest order of versions."""
        edges = list(self._edges(self._likely()))
        if demanded.pairs:
            return late(self.observation, edges, demanded)
        _, tangled = serial_order(range(self.size), ((e.source, e.target) for e in edges))
        return anomalies(self.observation, edges, tangled)

    def _edges(self, versions: Versions) -> Iterator[Edge]:
        return dependencies(self.observation.readings, versions, self.observation.tails)

    def _try(self, versions: Versions, demanded: Required) -> tuple[list[int], list[int]]:
        """Order the transactions by one order of versions; also return those that cannot be."""
        pairs: Iterator[tuple[int, int]] = (
            (source, target) for source, target, _, _ in self._edges(versions)
        )
        nodes = self.size + demanded.moments
        ranks = self._ranks(nodes, range(self.size), demanded)
        order, tangled = serial_order(ranks, chain(pairs, demanded.pairs))
        return [node for node in order if node < self.size], tangled

    def _ranks(self, nodes: int, ranks: Sequence[int], demanded: Required) -> Sequence[int]:
        """Rank transactions as given, moments as the transactions that end there, fences first."""
        if nodes == self.size:
            return ranks
        fences = nodes - self.size - demanded.moments
        return [*ranks, *ranks[: demanded.moments], *[-1] * fences]

    def _likely(self) -> Versions:
        return {**self.known, **likely_versions(self.guessed, self.unknown)}

    def _guess(self, pairs: list[tuple[int, int]], ranks: Sequence[int]) -> Versions:
        """Order versions as their writers come when all that is certain is respected."""
        order, _ = serial_order(ranks, pairs)
        place = {node: index for index, node in enumerate(order)}
        guesses = {k: sorted(w, key=place.__getitem__) for k, w in self.unknown.items()}
        return {**self.known, **guesses}

    def _certain(self, demanded: Required) -> tuple[int, list[tuple[int, int]]]:
        """Return all nodes, moments and fences among them, and what is certain about their order."""
        nodes = self.size + demanded.moments
        nodes, pairs = certain_pairs(nodes, self.guessed, self.unknown)
        return nodes, [*pairs, *self._stated(), *demanded.pairs]

    def _stated(self) -> Iterator[tuple[int, int]]:
        """Yield the dependencies through keys whose versions are in a known order."""
        readings = [r for r in self.observation.readings if r.key not in self.unknown]
        for source, target, _, _ in dependencies(readings, self.known, self.observation.tails):
            yield source, target

    def _search(
        self, topological: list[int], pairs: list[tuple[int, int]], effort: int
    ) -> _Verdict:
        if len(topological) > LARGEST:
            reason = f"versions are not known, and more than {LARGEST:,} transactions and keys"
            return _Verdict(serializable=None, reason=f"{reason} are not searched")
        search = Search(self.size, self.guessed, self.unknown, effort)
        try:
            order = search.run(topological, pairs)
        except GivenUpError:
            reason = "versions are not known, and the search for an order of them was given up"
            return _Verdict(serializable=None, reason=reason)
        return _Verdict(serializable=order is not None, order=order)
