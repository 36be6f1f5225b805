"""Each rule of the checkers, broken: some random history must be judged wrongly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from coterie.transactions.serializability import checker
from tests.harness import Mutant, broken
from tests.transactions.histories import SECOND_WAY, tangled, textbook
from tests.transactions.serial_oracle import explains, serializable

if TYPE_CHECKING:
    from coterie.transactions.history import History

PACKAGE = "coterie.transactions.serializability"


@dataclass(frozen=True)
class Case:
    """A rule that is broken."""

    module: str
    old: str
    new: str


MUTANTS = {
    "no write dependencies": Case(
        "dependencies", 'yield Edge(previous, successor, "ww", key)', "pass"
    ),
    "no read dependencies": Case("dependencies", 'yield Edge(writer, reader, "wr", key)', "pass"),
    "no anti-dependencies": Case(
        "dependencies", 'yield Edge(reader, replacing, "rw", key)', "pass"
    ),
    "to replace what one has read oneself is a conflict": Case(
        "dependencies", " and replacing != reader", ""
    ),
    "the beginning is no version": Case(
        "dependencies",
        "if replacing is not None",
        "if writer is not None and replacing is not None",
    ),
    "the newest version comes first": Case("observation", "sorted(stated)", "sorted(stated)[::-1]"),
    "aborted reads are let pass": Case(
        "observation", "source.owner.outcome is Outcome.ABORTED", "False"
    ),
    "intermediate reads are let pass": Case(
        "observation", "not self.sources.is_final(source)", "False"
    ),
    "own writes need not be seen": Case(
        "observation", "identity(access.value) != identity(own[access.key].value)", "False"
    ),
    "unknown outcomes never count": Case(
        "observation", "if writer.name not in names:", "if False:"
    ),
    "unknown outcomes always count": Case(
        "observation", "if t.outcome is Outcome.COMMITTED", "if t.outcome is not Outcome.ABORTED"
    ),
    "readers may stand behind whoever replaced the version": Case(
        "certain", "pairs += _around(readers, list(replacing))", ""
    ),
    "one lost update is overlooked": Case("certain", "replacing[:2]", "replacing[:1]"),
    "a fence stands before those who read the beginning": Case(
        "certain", " if other not in replacing", ""
    ),
    "readers of the beginning may stand anywhere": Case(
        "certain", "pairs += [(reader, fence) for reader in readers]", ""
    ),
    "the other way is not tried": Case("search", "(order.copy(), other), ", ""),
    "both ways share what follows": Case("search", "order.copy(), other", "order, other"),
    "contradictions are overlooked": Case(
        "search", "if first == second or self.behind[second] >> first & 1:", "if first == second:"
    ),
    "the first order found will do": Case("search", "if rival != writer:", "if False:"),
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
    case = MUTANTS[name]
    module = broken(f"{PACKAGE}.{case.module}", Mutant(case.old, case.new))
    for public in IMPORTED[case.module]:
        monkeypatch.setattr(checker, public, getattr(module, public))
    assert notices()


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    assert not notices(seeds=300)


IMPORTED = {  # what the checker takes from each
    "certain": ("certain_pairs", "likely_versions"),
    "dependencies": ("dependencies", "serial_order"),
    "observation": ("observe",),
    "search": ("GivenUpError", "Search"),
}
