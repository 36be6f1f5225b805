"""The survey's printed rules are refuted, each by its smallest history; the corrected ones are not.

All scripts of so many operations are tried in all interleavings. The smallest history is one with
the fewest operations.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.serializability import check
from coterie.transactions.catalogue import schemes
from coterie.transactions.schemes.multiversion import Multiversion, PrintedMultiversion
from coterie.transactions.schemes.thomas_write_rule import PrintedWriteRule, ThomasWriteRule
from coterie.transactions.schemes.timestamp_ordering import InPlace, TimestampOrdering
from tests.transactions.stamped import ends, prepared_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered

ALL = ("r(x)", "w(x)", "d(x)", "s(a,z)", "r(y)", "w(y)")
PLAIN = ("r(x)", "w(x)")


def splits(total: int) -> Iterator[tuple[int, ...]]:
    """Share out so many operations to one transaction after the other."""
    if not total:
        yield ()
    for first in range(1, total + 1):
        for rest in splits(total - first):
            yield (first, *rest)


def scripts(total: int, operations: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Give all transactions, by growing stamps, that have so many operations together."""
    for sizes in splits(total):
        for chosen in product(operations, repeat=total):
            left = iter(chosen)
            yield tuple(" ".join(next(left) for _ in range(size)) for size in sizes)


def refuted(
    kind: type[StampOrdered], total: int, operations: Sequence[str]
) -> list[tuple[str, ...]]:
    return [texts for texts in scripts(total, operations) if ends(kind(), "", texts).wrong]


def test_scripts_are_all_there() -> None:
    assert list(scripts(2, PLAIN))[:5] == [
        ("r(x)", "r(x)"),
        ("r(x)", "w(x)"),
        ("w(x)", "r(x)"),
        ("w(x)", "w(x)"),
        ("r(x) r(x)",),
    ]
    assert len(list(scripts(3, PLAIN))) == 4 * 8


@pytest.mark.slow
def test_thomas_rule_as_printed_fails_with_three_operations_and_not_with_fewer() -> None:
    """algorithms 8.3: r20(x) w20(x), then w10(x) is skipped though it would have been read."""
    assert refuted(PrintedWriteRule, 1, ALL) == []
    assert refuted(PrintedWriteRule, 2, ALL) == []
    assert refuted(PrintedWriteRule, 3, PLAIN) == [("w(x)", "r(x) w(x)")]


def test_the_smallest_history_of_thomas_rule_as_printed() -> None:
    trial = prepared_trial(PrintedWriteRule(), ("w(x)", "r(x) w(x)"))
    for name in ("T20",) * 4 + ("T10",) * 3:
        trial.move(name)
    report = check(trial.history())
    assert not report.serializable
    [anomaly] = report.anomalies
    assert anomaly.name == "G-single"
    right = prepared_trial(ThomasWriteRule(), ("w(x)", "r(x) w(x)"))
    for name in ("T20",) * 4 + ("T10",):
        right.move(name)
    assert right.runners["T10"].state == "refused"


def test_multiversion_as_printed_fails_with_two_operations_and_not_with_one() -> None:
    """algorithms 8.4: w10(x) r10(x) sees what was there before."""
    assert refuted(PrintedMultiversion, 1, ALL) == []
    assert refuted(PrintedMultiversion, 2, ALL) == [("w(x) r(x)",), ("w(y) r(y)",)]


def test_the_smallest_history_of_multiversion_as_printed() -> None:
    trial = prepared_trial(PrintedMultiversion(), ("w(x) r(x)",))
    for _ in range(4):
        trial.move("T10")
    [anomaly] = check(trial.history()).anomalies
    assert anomaly.name == "internal"


@pytest.mark.slow
def test_writes_in_place_fail_with_three_operations_and_not_with_fewer() -> None:
    """A write over what is undone is lost, which a read notices; nobody had read what was undone."""
    assert refuted(InPlace, 1, PLAIN) == []
    assert refuted(InPlace, 2, PLAIN) == []
    assert refuted(InPlace, 3, PLAIN)


def test_who_has_read_what_is_undone_is_refused() -> None:
    trial = prepared_trial(InPlace(), ("w(x) a", "r(x)"))
    for name in ("T10", "T20", "T10"):
        trial.move(name)
    assert trial.runners["T20"].state == "refused"


def test_no_store_takes_a_flawed_variant(capsys: pytest.CaptureFixture[str]) -> None:
    for each in schemes().values():
        for variant in each.flawed:
            with pytest.raises(UsageError, match="has no variant"):
                each.build(variant.name)
            given = f"{each.name}:{variant.name}"
            small = ["--workload", "bank", "--theta", "0", "--clients", "4", "--duration", "20ms"]
            assert run(["compare-schemes", given, *small]) == 0
            assert given in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TimestampOrdering, ThomasWriteRule, Multiversion])
def test_the_corrected_rules_pass_all_of_these(kind: type[StampOrdered]) -> None:
    assert refuted(kind, 1, ALL) == []
    assert refuted(kind, 2, ALL) == []
    assert refuted(kind, 3, PLAIN) == []
