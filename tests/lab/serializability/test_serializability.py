"""Textbook histories, each anomaly by its name, and what counts."""

from __future__ import annotations

import pytest

from coterie.lab.serializability import Report, check
from coterie.transactions.history import History, HistoryEvent
from tests.transactions.histories import NEITHER_WAY, SECOND_WAY, textbook
from tests.transactions.serial_oracle import explains, serializable


def judge(text: str) -> Report:
    return check(textbook(text))


ANOMALIES = {
    # Adya 1999 and Berenson et al. 1995, in Adya's order
    ("G0", "dirty write"): "w1(x@1) w2(x@2) w2(y@1) w1(y@2) c1 c2",
    ("G1a", "aborted read"): "w1(x) r2(x=1) a1 c2",
    ("G1b", "intermediate read"): "w1(x=5) r2(x=5) w1(x=6) c1 c2",
    ("G1c", "circular information flow"): "w1(x) w2(y) r1(y=2) r2(x=1) c1 c2",
    ("G-single", "lost update"): "r1(x) r2(x) w1(x) w2(x) c1 c2",
    ("G-single", "read skew"): "r1(x) w2(x) w2(y) c2 r1(y=2) c1",
    ("G-single", "non-repeatable read"): "r1(x) w2(x) c2 r1(x=2) c1",
    ("G-single", "single anti-dependency cycle"): "r1(x) w2(x) c2 r3(x=2) w3(y) c3 r1(y=3) c1",
    ("G2-item", "write skew"): "r1(x) r1(y) r2(x) r2(y) w1(x) w2(y) c1 c2",
    ("G2-item", "long fork"): "w1(x) w2(y) r3(x=1) r3(y) r4(y=2) r4(x) c1 c2 c3 c4",
    # Fekete, O'Neil and O'Neil 2004: snapshot isolation with a reader that only looks
    ("G2-item", "anti-dependency cycle"): "r2(x) r2(y) r1(y) w1(y) c1 r3(x) r3(y=1) c3 w2(x) c2",
    ("garbage read", "read of a value that was never written"): "w1(x) r2(x=9) c1 c2",
    ("internal", "read that misses the transaction's own write"): "w1(x) r1(x) c1",
}


@pytest.mark.parametrize("name", ANOMALIES, ids=" ".join)
def test_an_anomaly_is_called_by_its_name(name: tuple[str, str]) -> None:
    report = judge(ANOMALIES[name])
    assert report.serializable is False
    assert report.order is None
    assert [(anomaly.name, anomaly.meaning) for anomaly in report.anomalies] == [name]


@pytest.mark.parametrize("text", ANOMALIES.values())
def test_in_a_cycle_each_dependency_leads_to_the_next(text: str) -> None:
    for anomaly in judge(text).anomalies:
        if anomaly.name.startswith("G") and anomaly.name not in ("G1a", "G1b"):
            sources = [edge.source for edge in anomaly.dependencies]
            assert tuple(sources) == anomaly.cycle
            assert [edge.target for edge in anomaly.dependencies] == sources[1:] + sources[:1]


def test_a_dependency_is_explained_in_a_sentence() -> None:
    (anomaly,) = judge("w1(x=5) c1 r2(x=5) r3(x=5) w2(x=6) c2 w3(x=7) c3").anomalies
    assert [edge.text for edge in anomaly.dependencies] == [
        'T2 wrote x = "6", which T3 replaced by "7"',
        'T3 read x before T2 replaced it by "6"',
    ]
    (anomaly,) = judge(ANOMALIES["G1a", "aborted read"]).anomalies
    assert anomaly.cycle == ("T1", "T2")
    assert anomaly.dependencies[0].text == 'T2 read x = "1", which T1 wrote before it aborted'


def test_every_tangle_has_its_anomaly() -> None:
    """Two lost updates on keys that have nothing to do with each other."""
    report = judge("r1(x) r2(x) w1(x) w2(x) c1 c2 r3(y) r4(y) w3(y) w4(y) c3 c4")
    assert [(a.name, a.cycle) for a in report.anomalies] == [
        ("G-single", ("T1", "T2")),
        ("G-single", ("T3", "T4")),
    ]


def test_a_tangle_has_one_anomaly_of_each_class_and_the_worst_come_first() -> None:
    report = judge("w1(x@1) w2(x@2) w2(y@1) w1(y@2) w1(z@1) r2(z=1) r2(q) w1(q@1) c1 c2")
    assert [anomaly.name for anomaly in report.anomalies] == ["G0", "G1c", "G-single"]


SERIALIZABLE = {
    "nothing": "",
    "one after the other": "w1(x) c1 r2(x=1) w2(x) c2",
    "interleaved without conflict": "r1(x) r2(y) w1(x) w2(y) c1 c2",
    "a write that nobody sees": "w1(x) w2(x) c2 c1",
    "an aborted transaction does not count": "r1(x) r2(x) w1(x) w2(x) c1 a2",
    "own writes are seen": "w1(x=5) r1(x=5) w1(x=6) r1(x=6) c1",
    "an insert where others saw nothing, one after the other": "r1(x) w1(x) c1 r2(x=1) w2(x) c2",
    "a reader of the past": "w1(x) w1(y) c1 r2(x=1) w3(x) w3(y) c3 r2(y=1) c2",
}


@pytest.mark.parametrize("name", SERIALIZABLE)
def test_a_serializable_history_has_an_order(name: str) -> None:
    report = judge(SERIALIZABLE[name])
    assert report.serializable is True
    assert report.anomalies == ()
    assert report.order is not None


def test_the_order_is_that_of_the_ends_where_there_is_a_choice() -> None:
    assert judge("w1(x) w2(y) w3(z) c3 c1 c2").order == ("T3", "T1", "T2")
    assert judge("r1(x) w2(x) c2 c1").order == ("T1", "T2")


def precedence_cycle(history: History) -> bool:
    """The naive test: conflicting accesses in the order of the file, for two transactions."""
    accesses = sorted(
        (access, transaction.name)
        for transaction in history.transactions.values()
        for access in transaction.accesses
    )
    edges = {
        (before, after)
        for place, (first, before) in enumerate(accesses)
        for second, after in accesses[place + 1 :]
        if before != after and first.key == second.key and "write" in (first.op, second.op)
    }
    return any((after, before) in edges for before, after in edges)


def thomas() -> History:
    history = History()
    history.add(HistoryEvent("T10", "read", "x", None))
    history.add(HistoryEvent("T20", "write", "x", "new", 20))
    history.add(HistoryEvent("T10", "write", "x", "old", 10))
    history.add(HistoryEvent("T20", "commit"))
    history.add(HistoryEvent("T10", "commit"))
    return history


def test_a_write_ignored_by_thomas_rule_stands_before_the_one_that_hid_it() -> None:
    """Transactions.md 2.3 d: serializable by view, though not by conflicts in order of arrival."""
    assert precedence_cycle(thomas())
    assert check(thomas()).order == ("T10", "T20")


def test_thomas_rule_as_the_survey_prints_it_loses_an_update() -> None:
    """Algorithms.md 8.3: r3(x) w3(x) w2(x) is accepted there, and has no serial order."""
    report = judge("r3(x) w3(x@3) c3 w2(x@2) c2")
    assert [(a.name, a.meaning) for a in report.anomalies] == [("G-single", "lost update")]


def test_blind_writes_may_be_serialized_otherwise_than_they_arrived() -> None:
    """Papadimitriou's example of a history that is serializable by view only."""
    report = judge("r1(x) w2(x) w1(x) w3(x) c1 c2 c3")
    assert report.order == ("T1", "T2", "T3")
    assert report.versions == "inferred"


def test_where_the_likelier_way_leads_nowhere_the_other_is_tried() -> None:
    history = textbook(SECOND_WAY)
    report = check(history)
    assert report.order is not None
    assert explains([history.transactions[name] for name in report.order])


def test_where_neither_way_leads_anywhere_there_is_no_order() -> None:
    """With any order of versions there is a cycle; the one shown is that of the order of ends."""
    report = judge(NEITHER_WAY)
    assert not serializable(textbook(NEITHER_WAY))
    assert report.serializable is False
    assert report.versions == "inferred"
    assert report.anomalies


def test_what_was_not_found_out_is_not_claimed() -> None:
    report = check(textbook(NEITHER_WAY), effort=10)
    assert report.serializable is None
    assert (report.anomalies, report.order) == ((), None)


def test_without_versions_the_writes_that_nobody_read_have_any_order() -> None:
    assert judge("w1(x) w2(x) w2(y) w1(y) c1 c2").serializable
    assert judge("w1(x@1) w2(x@2) w2(y@1) w1(y@2) c1 c2").serializable is False


def test_keys_with_versions_and_without_are_judged_together() -> None:
    """The versions of x put T1 before T2; y, read by T3 from T1 after T2, asks for the contrary."""
    text = "w1(x{}) w2(x{}) w1(y) w2(y) r3(y=1) w3(z) r2(z=3) c1 c2 c3"
    assert judge(text.format("@1", "@2")).order == ("T1", "T3", "T2")
    assert judge("w1(x@1) w2(x@2) w1(y) w2(y) w2(z) r3(y=1) r3(z=2) c1 c2 c3").serializable is False
    assert judge("w1(x) w2(x) w1(y) w2(y) w2(z) r3(y=1) r3(z=2) c1 c2 c3").order == (
        *("T2", "T1", "T3"),
    )


def test_of_unknown_outcome_who_was_read_counts_as_committed() -> None:
    report = judge("w1(x) r2(x=1) c2")
    assert report.serializable
    assert (report.order, report.presumed_committed) == (("T1", "T2"), ("T1",))
    report = judge("r1(y) w1(x) r2(x=1) w2(y) r1(y=2) c2")
    assert report.serializable is False, "and then all that it has read must fit"


def test_of_unknown_outcome_who_read_on_behalf_of_another_counts_too() -> None:
    assert judge("w1(x) r2(x=1) w2(y) r3(y=2) c3").presumed_committed == ("T1", "T2")


def test_of_unknown_outcome_others_are_left_out() -> None:
    report = judge("r1(x) r2(x) w1(x) w2(x) c1")
    assert report.serializable
    assert (report.order, report.left_out) == (("T1",), ("T2",))


def test_a_read_that_no_order_explains_does_not_hide_a_cycle() -> None:
    report = judge("w9(z) a9 r1(x) r2(x) r1(z=9) w1(x) w2(x) c1 c2")
    assert [a.name for a in report.anomalies] == ["G1a", "G-single"]


def test_a_read_of_a_version_with_another_value_is_garbage() -> None:
    history = textbook("w1(x@1) c1")
    history.add(HistoryEvent("T2", "read", "x", "1", 2))
    history.add(HistoryEvent("T2", "commit"))
    assert [a.name for a in check(history).anomalies] == ["garbage read"]


def test_deletes_are_writes_of_null_with_a_version() -> None:
    history = History()
    for name, key_value, version in (("T1", 5, 1), ("T2", None, 2)):
        history.add(HistoryEvent(name, "write", "x", key_value, version))
        history.add(HistoryEvent(name, "commit"))
    history.add(HistoryEvent("T3", "read", "x", None, 2))
    history.add(HistoryEvent("T3", "commit"))
    assert check(history).order == ("T1", "T2", "T3")
    history.add(HistoryEvent("T4", "read", "x", None, 0))  # as it was in the beginning
    history.add(HistoryEvent("T4", "commit"))
    assert check(history).order == ("T4", "T1", "T2", "T3")
