"""What all schemes have in common, for each of them in all its variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError, UsageError
from coterie.lab.trials.trial import Trial
from coterie.transactions.catalogue import scheme, schemes
from coterie.transactions.schemes.scheduler import Attempt, Committed, Found, Item, Listed
from coterie.transactions.schemes.span import Span
from tests.transactions.desk import Desk
from tests.transactions.jumbled import FORMS
from tests.transactions.leftovers import leftovers
from tests.transactions.scripts import INSERTS, LOST_UPDATE, WRITE_SKEW
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Scheduler

RANGES = ("s(a,b) w(x)", "s(x,y) w(a)")  # each scans where the other inserts


@pytest.fixture(params=FORMS, ids=":".join)
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    name, variant = request.param
    return scheme(name).build(variant)


def latest(scheduler: Scheduler) -> dict[str, bytes | None]:
    return {key: item.value for key, item in scheduler.latest()}


def test_a_transaction_reads_its_own_writes_and_deletes(scheduler: Scheduler) -> None:
    """2.0 b: in reads and in scans; a deletion leaves a version."""
    at = Desk(scheduler)
    at.put("T1", a=b"1", b=b"2")
    at.begin("T2")
    at.write("T2", "a", b"3")
    assert at.read("T2", "a") == [Found("T2", "a", b"3", Stamp(2, 1))]
    at.write("T2", "a", None)
    assert at.read("T2", "a") == [Found("T2", "a", None, Stamp(2, 1))]
    at.write("T2", "c", b"4")
    [listed] = at.scan("T2", Span())
    assert isinstance(listed, Listed)
    shown = [(item.key, item.value) for item in listed.items]
    assert shown == [("a", None), ("b", b"2"), ("c", b"4")]
    at.finish("T2")
    assert latest(scheduler) == {"a": None, "b": b"2", "c": b"4"}


def test_a_request_that_makes_no_sense_raises_and_changes_nothing(scheduler: Scheduler) -> None:
    at = Desk(scheduler)
    at.begin("T1")
    at.write("T1", "x", b"1")
    with pytest.raises(MisuseError, match="T1 has begun before"):
        scheduler.begin(Attempt("T1", Stamp(9, 1), Stamp(9, 1)), [])
    with pytest.raises(MisuseError, match="T1 cannot commit: it is not prepared"):
        at.commit("T1", Stamp(1, 1))
    with pytest.raises(MisuseError, match="T2 is not under way here"):
        at.read("T2", "x")
    at.prepare("T1")
    with pytest.raises(MisuseError, match="T1 is prepared and can make no more requests"):
        at.read("T1", "y")
    assert at.commit("T1", Stamp(1, 1)) == [Committed("T1", Stamp(1, 1))]
    with pytest.raises(MisuseError, match="T1 is not under way here"):
        at.abort("T1")
    with pytest.raises(MisuseError, match="T1 is not under way here"):
        scheduler.valid("T1")
    assert latest(scheduler) == {"x": b"1"}


@pytest.mark.parametrize("scripts", [LOST_UPDATE, WRITE_SKEW, INSERTS, RANGES], ids=", ".join)
@pytest.mark.parametrize("last", [0, -1])
def test_of_two_that_read_before_the_other_writes_one_commits_or_waits(
    scheduler: Scheduler, scripts: tuple[str, ...], last: int
) -> None:
    """2.0 h, 2.1 g: what is absent is read like what is there. Conservatively the later waits."""
    trial = Trial(scheduler, tuple("abxy"))
    for number, text in enumerate(scripts, start=1):
        trial.add(f"T{number}", number, text)
        trial.begin(f"T{number}")
    for name in trial.movable():
        trial.move(name)
    while movable := trial.movable():
        trial.move(movable[last])
    refused = "committed" if type(scheduler).name == "conservative" else "refused"
    states = [runner.state for runner in trial.runners.values()]
    assert sorted(states) == sorted(["committed", refused])
    assert not leftovers(scheduler)


def test_what_was_committed_is_there_after_a_restart(scheduler: Scheduler) -> None:
    at = Desk(scheduler)
    at.put("T1", a=b"1", b=b"2")
    at.put("T2", b=None, c=b"3")
    twin = type(scheduler)()
    twin.restore(list(scheduler.latest()), Stamp(2, 1))
    assert list(twin.latest()) == list(scheduler.latest())
    again = Desk(twin)
    again.time = 2
    again.begin("T3")
    [found] = again.read("T3", "c")
    assert isinstance(found, Found)
    assert found.value == b"3"


def test_what_was_prepared_when_the_site_ended_takes_effect_after_a_restart(
    scheduler: Scheduler,
) -> None:
    scheduler.restore([("x", Item(b"old", Stamp(5, 1)))], Stamp(7, 1))
    attempt = Attempt("T6", Stamp(6, 1), Stamp(6, 1))
    scheduler.reinstate(attempt, Stamp(6, 1), {"x": b"new", "y": None}, ())
    out: list[object] = []
    scheduler.commit("T6", Stamp(6, 1), out)  # type: ignore[arg-type]  # nothing else is told
    assert out == [Committed("T6", Stamp(6, 1))]
    assert latest(scheduler) == {"x": b"new", "y": None}
    assert not leftovers(scheduler)


def test_a_scheduler_is_a_value_at_every_moment(scheduler: Scheduler) -> None:
    """It survives its encoding in the midst of a storm, with those that wait."""
    trial = storm(scheduler, seed=1, in_order=True, transactions=8)
    for name, text in (("T100", "r(a) w(b) w(c)"), ("T101", "w(b) r(c)"), ("T102", "s(,) w(a)")):
        trial.add(name, int(name[1:]), text)
        trial.begin(name)
        trial.move(name)
    encoded = msgspec.msgpack.encode(scheduler)
    twin = msgspec.msgpack.decode(encoded, type=type(scheduler))
    assert twin == scheduler
    assert twin.active


@pytest.mark.parametrize("name", schemes())
def test_a_scheme_builds_its_schedulers_for_one_site_and_for_several(name: str) -> None:
    for variant in scheme(name).variants:
        for sites in (1, 3):
            built = scheme(name).build(variant.name, site=sites, sites=sites)
            assert built.name == name
            assert not leftovers(built)
    with pytest.raises(UsageError, match=f"{name} has no variant 'unheard-of'; choose one of"):
        scheme(name).build("unheard-of")
