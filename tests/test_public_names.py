"""What a program meets: each public object shows what the reference describes, and nothing else.

A name that appears here is one that we keep. A new one belongs into the docs, and an internal one into the
object behind the face.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import coterie
import coterie.sync
from coterie.catalogue import find
from coterie.cluster.membership.ports import free_ports
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.simulate import Simulation
from coterie.telemetry import Metrics
from coterie.testing import LocalCluster, WallClock
from docs.site_hooks import PUBLIC
from tests.cluster.local_cluster import document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

ACQUIRABLE = "acquire name"
HOLDING = "ensure expires_at lost name release tokens valid"
COORDINATOR = "close elect holders lock lock_all lock_any locked members observe once open read semaphore url waiters watch"
RUN = "attempt ensure fail finish lost name period token tokens valid"
STORE = "close counts history history_lines oldest run transaction"

NAMES: dict[str, str] = {
    "Coordinator": COORDINATOR,
    "ElectionCoordinator": f"{COORDINATOR} leader leaders",
    "Lock": f"{ACQUIRABLE} release",
    "LockAll": ACQUIRABLE,
    "LockAny": ACQUIRABLE,
    "Semaphore": ACQUIRABLE,
    "Held": f"{HOLDING} delete read shared token write",
    "HeldAll": HOLDING,
    "held.lost": "is_set wait",
    "Once": "acquire name",
    "Run": RUN,
    "Value": "by data doubtful version written",
    "GroupMember": "held name parties watch",
    "Members": "name",
    "Party": "name note owner shared since token waited",
    "sync.Coordinator": COORDINATOR,
    "sync.Lock": f"{ACQUIRABLE} release",
    "sync.LockAll": ACQUIRABLE,
    "sync.LockAny": ACQUIRABLE,
    "sync.Semaphore": ACQUIRABLE,
    "sync.Held": f"{HOLDING} delete read shared token write",
    "sync.HeldAll": HOLDING,
    "sync.Once": "acquire name",
    "sync.Run": RUN,
    "sync.held.lost": "is_set wait",
    "sync.GroupMember": "held name parties watch",
    "sync.Members": "name",
    "Store": STORE,
    "Transaction": "abort delete failures get name put scan scan_prefix state",
    "Counts": "aborted committed refused repeated unknown",
    "join_store": f"{STORE} close_source facts",
    "WallClock": "boot host_name is_near life lock monotonic move now pid random set sync syncer wall watch",
    "LocalCluster": "nodes start stop url",
    "Metrics": "held holds job_seen jobs losses missed obtained run_began run_ended text waits",
    "histogram": "add buckets count seconds",
    "Simulation": "after ask entries leave process random run size when_inside when_quiet when_silent",
    "Laboratory": "attempt catalogue code fates hint map open play play_whole reaches solver way",
    "AcquireTimeout": "definite exit_status holders",
    "NotDue": "definite exit_status period reason",
    "Conflict": "above definite exit_status keys others rule",
}


def shown(thing: object) -> str:
    """Return the names that completion offers first: those without an underscore."""
    return " ".join(sorted(name for name in dir(thing) if not name.startswith("_")))


async def for_tasks(folder: Path) -> AsyncIterator[tuple[str, object]]:
    async with coterie.connect(folder) as c:
        yield "Coordinator", c
        for made in (c.lock("a"), c.lock_all("a", "b"), c.lock_any("a", "b"), c.semaphore("s", 2)):
            yield type(made).__name__, made
        async with c.lock("a") as held, c.lock_all("b", "c") as both:
            yield "Held", held
            yield "held.lost", held.lost
            yield "HeldAll", both
            yield "Held", next(iter(both))
            yield "Held", both["c"]
            yield "held.lost", both.lost
            yield "Party", (await c.holders("a"))[0]
        async with c.members("a") as me:
            yield "Members", c.members("a")
            yield "GroupMember", me
        async with c.lock("a") as held:
            await held.write(b"text")
            yield "Value", await c.read("a")
        once = c.once("job", every="1d")
        yield "Once", once
        async with once as run:
            yield "Run", run
    async with coterie.join(document(1), node="a", new_cluster=True) as c:
        yield "Coordinator", c
    yield "Coordinator", coterie.join(document(1, algorithm="lamport"), node="a")
    yield "ElectionCoordinator", coterie.join(document(1, algorithm="bully"), node="a")


def for_threads(folder: Path) -> Iterator[tuple[str, object]]:
    with coterie.sync.connect(folder) as c:
        yield "sync.Coordinator", c
        for made in (c.lock("a"), c.lock_all("a", "b"), c.lock_any("a", "b"), c.semaphore("s", 2)):
            yield f"sync.{type(made).__name__}", made
        with c.lock("a") as held, c.lock_all("b", "c") as both:
            yield "sync.Held", held
            yield "sync.held.lost", held.lost
            yield "sync.HeldAll", both
            yield "sync.Held", both["b"]
            yield "sync.held.lost", both.lost
        with c.members("a") as me:
            yield "sync.Members", c.members("a")
            yield "sync.GroupMember", me
        once = c.once("job", every="1d")
        yield "sync.Once", once
        with once as run:
            yield "sync.Run", run


async def for_transactions(folder: Path) -> AsyncIterator[tuple[str, object]]:
    async with coterie.Store() as made:
        yield "Store", made
        yield "Counts", made.counts
        async with made.transaction() as transaction:
            yield "Transaction", transaction
    voter, store = free_ports(2)
    node = {"address": f"127.0.0.1:{voter}", "store": f"127.0.0.1:{store}", "data": str(folder)}
    config = {"cluster": "test", "nodes": {"a": node}}
    async with coterie.join_store(config, node="a") as joined:
        yield "join_store", joined


def for_others() -> Iterator[tuple[str, object]]:
    yield "LocalCluster", LocalCluster(1)
    yield "WallClock", WallClock()
    yield "Metrics", Metrics()
    yield "histogram", Metrics().holds
    entry = find("lamport")
    yield "Simulation", Simulation(entry.build(entry.setup(3)))
    yield "Laboratory", Laboratory()


def for_errors() -> Iterator[tuple[str, str]]:
    """Leave out what every exception of Python has."""
    usual = shown(TimeoutError()).split()
    for error in (
        coterie.AcquireTimeout("in vain"),
        coterie.NotDue("done"),
        coterie.Conflict("refused"),
    ):
        names = (name for name in shown(error).split() if name not in usual)
        yield type(error).__name__, " ".join(names)


async def collected(found: AsyncIterator[tuple[str, object]]) -> list[tuple[str, str]]:
    return [(kind, shown(thing)) async for kind, thing in found]


def differences(found: list[tuple[str, str]]) -> dict[str, set[str]]:
    return {
        kind: set(names.split()) ^ set(NAMES[kind].split())
        for kind, names in found
        if set(names.split()) != set(NAMES[kind].split())
    }


def test_what_tasks_meet(tmp_path: Path) -> None:
    assert differences(asyncio.run(collected(for_tasks(tmp_path)))) == {}


def test_what_threads_meet(tmp_path: Path) -> None:
    assert differences([(kind, shown(thing)) for kind, thing in for_threads(tmp_path)]) == {}


def test_what_users_of_transactions_meet(tmp_path: Path) -> None:
    assert differences(asyncio.run(collected(for_transactions(tmp_path)))) == {}


def test_what_tests_and_figures_meet() -> None:
    assert differences([(kind, shown(thing)) for kind, thing in for_others()]) == {}


def test_what_errors_tell() -> None:
    assert differences(list(for_errors())) == {}


def test_all_that_a_class_shows_its_objects_show() -> None:
    """So that completion of a class and the reference offer the same names."""
    for kind in (
        coterie.Coordinator,
        coterie.ElectionCoordinator,
        coterie.Lock,
        coterie.LockAll,
        coterie.LockAny,
        coterie.Semaphore,
        coterie.Held,
        coterie.HeldAll,
        coterie.Once,
        coterie.Run,
        coterie.Store,
    ):
        assert set(shown(kind).split()) <= set(NAMES[kind.__name__].split()), kind


def undescribed(kind: type[Any]) -> Iterator[str]:
    for name, value in inspect.getmembers_static(kind):
        if not name.startswith("_") and callable(value) and not inspect.getdoc(value):
            yield f"{kind.__name__}.{name}"


def test_each_method_has_a_description() -> None:
    public = [getattr(coterie, name) for name in coterie.__all__]
    kinds = [each for each in public if inspect.isclass(each)]
    assert [name for kind in kinds for name in undescribed(kind)] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_shows_what_it_lists(name: str) -> None:
    module = importlib.import_module(name)
    if "__dir__" in vars(module):
        assert set(shown(module).split()) == {each for each in module.__all__ if each[0] != "_"}
