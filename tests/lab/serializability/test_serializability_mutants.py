"""Each rule of the checkers, broken: some random history must be judged wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.serializability import checker
from coterie.lab.serializability.certain import around, certain_pairs
from coterie.lab.serializability.dependencies import dependencies
from coterie.lab.serializability.observation import Reads, observe, oldest_first
from coterie.lab.serializability.search import Order, Search
from tests.transactions.histories import SECOND_WAY, tangled, textbook
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.serial_oracle import explains, serializable

if TYPE_CHECKING:
    from coterie.transactions.history import History

MUTANTS = {
    "no write dependencies": Mutant(
        dependencies, 'yield Edge(previous, successor, "ww", key)', "pass"
    ),
    "no read dependencies": Mutant(dependencies, 'yield Edge(writer, reader, "wr", key)', "pass"),
    "no anti-dependencies": Mutant(
        dependencies, 'yield Edge(reader, replacing, "rw", key)', "pass"
    ),
    "to replace what one has read oneself is a conflict": Mutant(
        dependencies, " and replacing != reader", ""
    ),
    "the beginning is no version": Mutant(
        dependencies,
        "if replacing is not None",
        "if writer is not None and replacing is not None",
    ),
    "the newest version comes first": Mutant(
        oldest_first, "sorted(stated)", "sorted(stated)[::-1]"
    ),
    "aborted reads are let pass": Mutant(
        Reads, "source.owner.outcome is TransactionOutcome.ABORTED", "False"
    ),
    "intermediate reads are let pass": Mutant(Reads, "not self.sources.is_final(source)", "False"),
    "own writes need not be seen": Mutant(
        Reads, "identity(access.value) != identity(own[access.key].value)", "False"
    ),
    "unknown outcomes never count": Mutant(observe, "if writer.name not in names:", "if False:"),
    "unknown outcomes always count": Mutant(
        observe,
        "if t.outcome is TransactionOutcome.COMMITTED",
        "if t.outcome is not TransactionOutcome.ABORTED",
    ),
    "readers may stand behind whoever replaced the version": Mutant(
        certain_pairs, "pairs += around(readers, list(replacing))", ""
    ),
    "one lost update is overlooked": Mutant(around, "replacing[:2]", "replacing[:1]"),
    "a fence stands before those who read the beginning": Mutant(
        certain_pairs, " if other not in replacing", ""
    ),
    "readers of the beginning may stand anywhere": Mutant(
        certain_pairs, "pairs += [(reader, fence) for reader in readers]", ""
    ),
    "the other way is not tried": Mutant(Search, "if self._decide(order, other):", "if False:"),
    "both ways share what follows": Mutant(Search, "order.undo(mark)", "pass"),
    "contradictions are overlooked": Mutant(
        Order, "if first == second or behind[second] >> first & 1:", "if first == second:"
    ),
    "the first order found will do": Mutant(Search, "if rival != writer:", "if False:"),
}
PLAIN = (
    "w1(x=a) w1(x=b) r2(x=a) c1 c2",
    "w1(x) r1(x) c1",
    "w1(x) r1(x=1) r2(x=1) c2",
    SECOND_WAY,
)


def notices(seeds: int = 3000) -> bool:
    """Check little histories until one is judged otherwise than every serial order would."""
    histories = (textbook(text) for text in PLAIN)
    return any(map(misjudged, histories)) or any(misjudged(tangled(n)) for n in range(seeds))


def misjudged(history: History) -> bool:
    try:
        report = checker.check(history, effort=20_000)
    except AssertionError:  # the checker itself has noticed
        return True
    if report.serializable != serializable(history):
        return True
    order = [history.transactions[name] for name in report.order or ()]
    return report.serializable and not explains(order)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[name], monkeypatch)
    assert notices()


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    assert not notices(seeds=300)
