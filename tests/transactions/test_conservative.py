"""The rules of conservative timestamp ordering, one by one; the letters are those of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.errors import ConfigError, MisuseError, ProtocolError, Undeclared
from coterie.transactions.schemes.conservative import FOREVER, SCHEME, Conservative
from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Accepted,
    Attempt,
    Committed,
    Declaration,
    Found,
    Item,
    Listed,
    Prepared,
)
from coterie.transactions.schemes.span import Span
from tests.transactions.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Callable


def reads(*keys: str) -> Declaration:
    return Declaration(tuple(map(Span.of, keys)), ())


def writes(*keys: str) -> Declaration:
    return Declaration((), tuple(map(Span.of, keys)))


def changes(*keys: str) -> Declaration:
    return Declaration(tuple(map(Span.of, keys)), tuple(map(Span.of, keys)))


@pytest.fixture
def desk() -> Desk:
    return Desk(SCHEME.build())


# Waiting until the order is certain: a


def test_nothing_is_granted_while_a_source_is_silent() -> None:
    """2.5 a: sources 1 and 2 have requests, 3 is silent; a null releases exactly what is below."""
    desk = Desk(Conservative(sites=3))
    desk.begin("T10", time=10, source=1)
    desk.begin("T20", time=20, source=2)
    assert desk.read("T10", "x") == []
    assert desk.read("T20", "y") == []
    assert desk.scheduler.waits() == {"T10": (), "T20": ("T10",)}
    assert desk.scheduler.awaited() == ((1, Stamp(20, 2)), (3, Stamp(20, 2)))
    assert desk.promise(3, Stamp(9, 3)) == []
    assert desk.promise(3, Stamp(10, 3)) == [Found("T10", "x", None, None)]
    assert desk.scheduler.awaited() == ((1, Stamp(20, 2)), (3, Stamp(20, 2)))
    assert desk.promise(1, Stamp(20, 2)) == []
    desk.promise(3, Stamp(20, 2))
    assert desk.scheduler.awaited() == ()
    prepared, found = desk.prepare("T10")
    assert isinstance(prepared, Prepared)
    assert found == Found("T20", "y", None, None)


def test_a_request_is_a_promise_too() -> None:
    """2.5 a: whoever has begun something larger will not begin anything smaller."""
    desk = Desk(Conservative(sites=2))
    desk.begin("T10", time=10, source=1)
    assert desk.read("T10", "x") == []
    assert desk.begin("T11", time=11, source=2) == [Found("T10", "x", None, None)]


def test_a_single_site_waits_for_nobodys_word(desk: Desk) -> None:
    """2.5 a: the only source is the site itself, and it begins in order."""
    desk.begin("T1")
    assert desk.read("T1", "x") == [Found("T1", "x", None, None)]
    assert desk.scheduler.awaited() == ()


def test_reads_wait_for_older_writes_until_these_have_taken_effect(desk: Desk) -> None:
    """2.5 a: the older one writes after the younger one has asked, and the younger one sees it."""
    desk.begin("T1", declaration=writes("x"))
    desk.begin("T2", declaration=reads("x", "y"))
    assert desk.read("T2", "x") == []
    assert desk.scheduler.waits() == {"T2": ("T1",)}
    desk.write("T1", "x", b"1")
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert desk.commit("T1", prepared.number) == [
        Committed("T1", Stamp(1, 1)),
        Found("T2", "x", b"1", Stamp(1, 1)),
    ]


def test_writes_wait_for_older_reads_and_writes(desk: Desk) -> None:
    """2.5 a, c: they take effect at commit, so it is prepare that waits."""
    desk.begin("T1", declaration=reads("x"))
    desk.begin("T2", declaration=writes("x"))
    desk.begin("T3", declaration=writes("x"))
    assert desk.write("T3", "x", b"3") == [Accepted("T3")]
    assert desk.prepare("T3") == []
    assert desk.scheduler.waits() == {"T3": ("T1", "T2")}
    desk.write("T2", "x", b"2")
    assert desk.prepare("T2") == []
    first, second = desk.prepare("T1")  # has read all that it will ever read
    assert first.transaction == "T1"
    assert isinstance(second, Prepared)
    assert desk.scheduler.waits() == {"T3": ("T2",)}
    committed, third = desk.commit("T2", second.number)
    assert isinstance(committed, Committed)
    assert isinstance(third, Prepared)
    assert third.transaction == "T3"


def test_older_ones_wait_for_no_younger_one(desk: Desk) -> None:
    """2.5 a: whatever the younger one has declared or done."""
    desk.begin("T1", "T2")
    desk.write("T2", "x", b"2")
    assert desk.prepare("T2") == []
    assert desk.read("T1", "x") == [Found("T1", "x", None, None)]
    desk.write("T1", "x", b"1")
    assert isinstance(desk.prepare("T1")[0], Prepared)


def test_what_a_prepared_one_does_not_write_is_free(desk: Desk) -> None:
    """It declared x and y, and is prepared to write x alone."""
    desk.begin("T1", declaration=writes("x", "y"))
    desk.begin("T2", declaration=reads("x", "y"))
    desk.write("T1", "x", b"1")
    assert desk.read("T2", "y") == []
    answers = desk.prepare("T1")
    assert answers[1:] == [Found("T2", "y", None, None)]
    assert desk.read("T2", "x") == []


def test_an_older_one_that_gives_up_lets_others_go_on(desk: Desk) -> None:
    """2.0 d: prepared or not; and a waiter that gives up is forgotten."""
    desk.begin("T1", "T2", "T3")
    desk.write("T1", "x", b"1")
    desk.prepare("T1")
    assert desk.read("T2", "x") == []
    assert desk.read("T3", "x") == []
    assert desk.abort("T2") == []
    assert desk.abort("T1") == [Found("T3", "x", None, None)]


# Sources deliver in order: b


def test_a_source_that_begins_out_of_order_is_at_fault() -> None:
    """2.5 b: an inversion is an error to raise, and changes nothing."""
    desk = Desk(Conservative(sites=2))
    desk.begin("T5", time=5, source=1)
    desk.begin("T4", time=4, source=2)
    with pytest.raises(ProtocolError, match=r"T3 has begun at site 1 with stamp 3\.1, though .* 5"):
        desk.begin("T3", time=3, source=1)
    assert sorted(desk.scheduler.active) == ["T4", "T5"]
    with pytest.raises(ProtocolError, match="there is no site 3"):
        desk.begin("T6", time=6, source=3)


# Null requests, rule c


def test_a_null_is_never_below_an_earlier_promise() -> None:
    """2.5 c: neither below a null nor below a request; the same again is harmless."""
    desk = Desk(Conservative(sites=2))
    desk.promise(2, Stamp(7, 2))
    desk.promise(2, Stamp(7, 2))
    with pytest.raises(ProtocolError, match=r"up to 6\.2, which is less than .* 7\.2"):
        desk.promise(2, Stamp(6, 2))
    desk.begin("T8", time=8, source=2)
    with pytest.raises(ProtocolError, match="less than it has promised before"):
        desk.promise(2, Stamp(7, 2))
    with pytest.raises(ProtocolError, match=r"nothing up to 8\.2"):
        desk.begin("T8 again", time=8, source=2)


def test_reads_wait_for_promises_of_writers_and_writes_for_both() -> None:
    """2.5 c: site 2 only reads x, site 3 only writes it."""
    classes = ((EVERYTHING,), (reads("x"),), (writes("x"),))
    desk = Desk(Conservative(sites=3, classes=classes))
    desk.begin("T1", time=1, declaration=changes("x"))
    assert desk.read("T1", "x") == []
    assert desk.scheduler.awaited() == ((3, Stamp(1, 1)),)
    assert desk.promise(3, Stamp(1, 1)) == [Found("T1", "x", None, None)]
    desk.write("T1", "x", b"1")
    assert desk.prepare("T1") == []
    assert desk.scheduler.awaited() == ((2, Stamp(1, 1)),)
    assert isinstance(desk.promise(2, Stamp(1, 1))[0], Prepared)


def test_promises_are_asked_for_on_demand_and_only_as_far_as_needed() -> None:
    """2.5 c: whoever is not waited for is not asked; of two that wait the larger stamp counts."""
    desk = Desk(Conservative(sites=2))
    desk.begin("T1", "T2", source=1)
    assert desk.scheduler.awaited() == ()
    desk.read("T1", "x")
    assert desk.scheduler.awaited() == ((2, Stamp(1, 1)),)
    desk.read("T2", "x")
    assert desk.scheduler.awaited() == ((2, Stamp(2, 1)),)


@pytest.mark.parametrize("sites", [2, 4, 8])
def test_one_busy_site_among_idle_ones_costs_a_promise_from_each_to_each(sites: int) -> None:
    """2.5 c: all but the busy one promise at every site the transaction reads: sites (sites - 1)."""
    desks = [Desk(Conservative(sites=sites)) for _ in range(sites)]
    promises = 0
    for desk in desks:
        desk.begin("T1")
        assert desk.read("T1", "x") == []
        for source, stamp in desk.scheduler.awaited():
            desk.promise(source, stamp)
            promises += 1
        assert not desk.scheduler.waits()
    assert promises == sites * (sites - 1)


# Transaction classes, rule d


def test_disjoint_classes_go_on_though_another_is_silent() -> None:
    """2.5 d: sites 1 and 2 have to do with a, the silent site 3 with b."""
    classes = ((changes("a"),), (changes("a"),), (changes("b"),))
    desk = Desk(Conservative(sites=3, classes=classes))
    desk.begin("T1", time=1, source=1, declaration=changes("a"))
    desk.begin("T2", time=2, source=2, declaration=reads("a"))
    assert desk.read("T1", "a") == [Found("T1", "a", None, None)]
    desk.write("T1", "a", b"1")
    assert isinstance(desk.finish("T1")[0], Committed)
    assert desk.promise(1, Stamp(2, 2)) == []
    assert desk.read("T2", "a") == [Found("T2", "a", b"1", Stamp(1, 1))]


def test_disjoint_transactions_do_not_wait_for_each_other(desk: Desk) -> None:
    """2.5 d: only those wait whose declarations meet; readers never for readers."""
    desk.begin("T1", declaration=changes("a"))
    desk.begin("T2", declaration=changes("b"))
    desk.begin("T3", declaration=reads("b"))
    assert desk.read("T2", "b") != []
    desk.write("T2", "b", b"2")
    assert isinstance(desk.finish("T2")[0], Committed)
    assert desk.read("T3", "b") == [Found("T3", "b", b"2", Stamp(2, 1))]


@pytest.mark.parametrize(
    ("access", "what"),
    [
        (lambda desk: desk.read("T1", "z"), "read 'z'"),
        (lambda desk: desk.write("T1", "a", b""), "write 'a'"),
        (lambda desk: desk.scan("T1", Span("x", "zz")), "read all from 'x' on up to 'zz'"),
        (lambda desk: desk.scan("T1", Span("a")), "read all from 'a' on"),
    ],
    ids=["read", "write", "scan elsewhere", "scan beyond"],
)
def test_an_undeclared_access_raises_before_any_effect(
    desk: Desk, access: Callable[[Desk], object], what: str
) -> None:
    """2.5 d: what may be read need not be what may be written."""
    desk.begin("T1", declaration=Declaration((Span("a", "c"),), (Span.of("z"),)))
    with pytest.raises(Undeclared, match=f"T1 has not declared that it may {what}$"):
        access(desk)
    assert not desk.scheduler.active["T1"].writes
    assert isinstance(desk.scan("T1", Span("a", "b"))[0], Listed)
    desk.write("T1", "z", b"1")
    assert desk.read("T1", "z") == [Found("T1", "z", b"1", Stamp(1, 1))]  # its own
    assert isinstance(desk.finish("T1")[0], Committed)


def test_an_undeclared_access_is_a_misuse() -> None:
    assert issubclass(Undeclared, MisuseError)


def test_a_transaction_that_fits_no_class_of_its_site_cannot_begin() -> None:
    """2.5 d: else the others would not have waited for it. Without classes everything fits."""
    desk = Desk(Conservative(sites=2, classes=((changes("a"), reads("b")), (EVERYTHING,))))
    with pytest.raises(Undeclared, match="T1 fits no class of transactions that site 1 may begin"):
        desk.begin("T1", time=1, source=1, declaration=changes("b"))
    with pytest.raises(Undeclared, match="T1 fits no class"):
        desk.begin("T1", time=1, source=1)
    desk.begin("T1", time=1, source=1, declaration=reads("b"))
    desk.begin("T2", time=2, source=2)
    assert sorted(desk.scheduler.active) == ["T1", "T2"]


def test_classes_are_given_for_every_site() -> None:
    with pytest.raises(ConfigError, match="classes are given for 1 sites of 2"):
        Conservative(sites=2, classes=((EVERYTHING,),))


def test_without_analysis_everything_conflicts_with_everything() -> None:
    """2.5 d: the catch-all class; declarations are not needed and not looked at."""
    desk = Desk(SCHEME.build("unanalysed"))
    desk.begin("T1", declaration=reads("a"))
    desk.begin("T2", declaration=reads("b"))
    assert desk.read("T2", "b") == []
    desk.write("T1", "c", b"1")
    assert desk.finish("T1")[-1] == Committed("T1", Stamp(1, 1))
    assert desk.scheduler.waits() == {}


# Interactive writes: e


def test_two_overlapping_transactions_of_a_source_keep_the_order_of_stamps(desk: Desk) -> None:
    """2.5 e: T2 does not see x before T1 has written what depends on its own read of x."""
    desk.begin("T1", "T2", declaration=changes("x"))
    assert desk.read("T2", "x", update=True) == []
    desk.read("T1", "x", update=True)
    desk.write("T1", "x", b"1")
    assert desk.finish("T1")[1:] == [Found("T2", "x", b"1", Stamp(1, 1))]
    desk.write("T2", "x", b"2")
    desk.finish("T2")
    assert dict(desk.scheduler.latest()) == {"x": Item(b"2", Stamp(2, 1))}


# Crashes, rule f


def test_a_crashed_source_is_closed_and_late_messages_of_it_are_rejected() -> None:
    """2.5 f: its open transaction is aborted, its queue closed; then the others go on."""
    desk = Desk(Conservative(sites=2))
    desk.begin("T1", time=1, source=2)
    desk.begin("T2", time=2, source=1)
    assert desk.read("T2", "x") == []
    assert desk.promise(2, FOREVER) == []
    assert desk.abort("T1") == [Found("T2", "x", None, None)]
    desk.begin("T9", time=9, source=1)
    assert desk.scheduler.awaited() == ()
    with pytest.raises(ProtocolError, match="T3 has begun at site 2"):
        desk.begin("T3", time=3, source=2)
    with pytest.raises(ProtocolError, match="less than it has promised before"):
        desk.promise(2, Stamp(100, 2))


def test_after_a_restart_nothing_of_the_past_begins() -> None:
    """2.5 b, f: what was promised before the crash holds, though nobody remembers it."""
    desk = Desk(Conservative(sites=2))
    desk.scheduler.restore([("x", Item(b"1", Stamp(7, 2)))], Stamp(9, 1))
    assert list(desk.scheduler.latest()) == [("x", Item(b"1", Stamp(7, 2)))]
    for source in (1, 2):
        with pytest.raises(ProtocolError):
            desk.begin("T9", time=9, source=1)
        desk.begin(f"T{source}", time=10, source=source)


def test_who_was_prepared_when_the_site_ended_is_waited_for_again(desk: Desk) -> None:
    desk.scheduler.restore([], Stamp(5, 1))
    desk.scheduler.reinstate(Attempt("T4", Stamp(4, 1), Stamp(4, 1)), Stamp(4, 1), {"x": b"4"}, ())
    desk.begin("T6", time=6)
    assert desk.read("T6", "y") == [Found("T6", "y", None, None)]
    assert desk.read("T6", "x") == []
    assert desk.commit("T4", Stamp(4, 1))[1:] == [Found("T6", "x", b"4", Stamp(4, 1))]


# Ranges, own writes and deletes


def test_scans_wait_for_older_writes_in_the_range(desk: Desk) -> None:
    """No phantoms: what may be inserted or deleted by somebody older is waited for."""
    desk.begin("T1", declaration=writes("b"))
    desk.begin("T2", declaration=Declaration((Span("a", "z"),), ()))
    assert desk.scan("T2", Span("c", "d")) != []
    assert desk.scan("T2", Span("a", "c")) == []
    desk.write("T1", "b", b"1")
    committed, listed = desk.finish("T1")
    assert isinstance(committed, Committed)
    assert isinstance(listed, Listed)
    assert [found.value for found in listed.items] == [b"1"]


def test_inserts_wait_for_older_scans_of_the_range(desk: Desk) -> None:
    desk.begin("T1", declaration=Declaration((Span("a", "c"),), ()))
    desk.begin("T2", declaration=writes("b"))
    desk.write("T2", "b", b"2")
    assert desk.prepare("T2") == []
    for _ in range(2):
        [listed] = desk.scan("T1", Span("a", "c"), 5)
        assert isinstance(listed, Listed)
        assert listed.items == ()
    assert len(desk.prepare("T1")) == 2


def test_deleted_keys_keep_the_number_of_the_deletion(desk: Desk) -> None:
    desk.put("T1", x=b"1")
    desk.put("T2", x=None)
    desk.begin("T3")
    assert desk.read("T3", "x") == [Found("T3", "x", None, Stamp(2, 1))]
