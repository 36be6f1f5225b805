"""Who holds a lock, as put together from what voters and the programs concerned say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie import locks
from coterie.cli.status import print_locks
from coterie.cluster.admin import status as inspecting
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.url import make_visit
from coterie.locks.deadlocks.reports import LockOwner, OwnerId, Wanted
from coterie.locks.internals import engine_of
from coterie.locks.leases import blockers
from coterie.locks.leases.frames import LockReport, LockStanding, OwnerReport, Owners
from coterie.locks.leases.owner_query import OwnerQuery
from tests.cluster.local_cluster import document, running, url_of
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie.cluster.client.engine import ClusterGroup
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.leases.frames import AskOwner

pytestmark = pytest.mark.usefixtures("open_and_guarded")

LABELS = {"a1": "host:1", "b2": "host:2", "c3": "host:3"}


def asked(*owners: str | None) -> OwnerQuery:
    """Let as many voters say whom they have voted for; a1 holds the lock and b2 waits for it."""
    survey = OwnerQuery(range(1, len(owners) + 1))
    for voter, owner in enumerate(owners, 1):
        owners = () if owner is None else (owner,)
        survey.name(voter, Owners(1, (LockReport(Wanted("x"), owners, ("b2",)),), LABELS))
    return survey


def test_whoever_has_votes_and_does_not_answer_is_named() -> None:
    survey = asked("a1", "a1", "c3")
    assert survey.silent("x") == ["host:1", "host:3"]
    holder = LockOwner(OwnerId("a1", 1), "host:1", "main", None)
    survey.hear(
        OwnerReport(1, 1, "a1", (LockStanding(Wanted("x"), "held", 7, 0.0, (), (holder,)),))
    )
    assert survey.silent("x") == ["host:3"]
    assert [party.owner for party in survey.holders("x")] == ["host:1"]


def standing(lock: str, identity: str, token: int, *, shared: bool = False) -> LockStanding:
    holder = LockOwner(OwnerId(identity, 1), identity, "main", None)
    return LockStanding(Wanted(lock), "held", token, 0.0, (), (holder,), shared=shared)


def test_whoever_has_answered_for_one_lock_is_awaited_for_another() -> None:
    """Each voter asks a participant only for the locks for which it names it."""
    survey = OwnerQuery([1, 2])
    survey.name(1, Owners(1, (LockReport(Wanted("x"), ("a1",), ()),), LABELS))
    survey.hear(OwnerReport(1, 1, "a1", (standing("x", "a1", 7),)))
    survey.name(2, Owners(1, (LockReport(Wanted("y"), ("a1",), ()),), LABELS))
    assert not survey.complete.is_set()
    survey.hear(OwnerReport(2, 1, "a1", (standing("y", "a1", 8),)))
    assert survey.complete.is_set()
    assert survey.silent("y") == []
    # A voter that names it later for what it has answered for asks it in vain: that is not awaited.
    survey.complete.clear()
    survey.name(2, Owners(1, (LockReport(Wanted("y"), ("a1",), ()),), LABELS))
    assert survey.complete.is_set()


@pytest.mark.parametrize(
    ("shared", "holders"),
    [
        ((False, False), ["host:2"]),
        ((True, False), ["host:2"]),
        ((False, True), ["host:2"]),
        ((True, True), ["host:1", "host:2"]),
    ],
)
def test_a_hold_that_has_ended_while_others_were_asked_is_not_shown(
    shared: tuple[bool, bool], holders: list[str]
) -> None:
    survey = asked("a1", "b2")
    survey.hear(OwnerReport(1, 1, "a1", (standing("x", "a1", 7, shared=shared[0]),)))
    survey.hear(OwnerReport(2, 1, "b2", (standing("x", "b2", 8, shared=shared[1]),)))
    assert [party.owner for party in survey.holders("x")] == holders


def test_whoever_only_waits_and_does_not_answer_has_nothing() -> None:
    assert asked(None, None).silent("x") == []
    assert OwnerQuery([1]).silent("x") == []


@in_loop
async def test_a_holder_that_does_not_answer_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = convert(document(lease=60.0))
    url = url_of(config)
    monkeypatch.setattr(inspecting, "ANSWERS_SECONDS_MIN", 0.2)
    async with running(config), locks.connect(url) as c, c.lock("x"):
        engine = engine_of(c)
        assert isinstance(engine, ClusterEngine)
        monkeypatch.setattr(blockers, "report", _answer_another_question)
        state = await inspecting.inspect(make_visit(url), locks=True)
        print_locks(state.locks, "locks")
        assert [lock.silent for lock in state.locks] == [[engine.waits.process]]
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["x", engine.waits.process, "(no", "answer)", "0"]


def _answer_another_question(_: ClusterGroup, __: Waits, asked: AskOwner) -> OwnerReport:
    return OwnerReport(asked.route, asked.question + 1000, "nobody", ())
