"""`coterie break` on a real server of each engine: a hold ends, and never are there two."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.mail import HoldOrder, encode
from coterie.engines.queue.orders import Orders
from coterie.lab.servers.supplier import LEASED
from coterie.locks.breaker import EndedHolds, find_breaker
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS
from tests.engines.conformance.test_conformance import free, need, programs, taken, waiting
from tests.locks.memory import in_loop, until
from tests.processes import is_running

if TYPE_CHECKING:
    import logging

    from coterie.engines.queue.desk import Desk
    from coterie.lab.servers.supplier import Supplier
    from tests.engines.conformance.users import Users

COUNTING = ("zookeeper",)  # servers that count the leases themselves
BROKEN = "an operator has ended it with coterie break"


async def broken(supplier: Supplier, name: str) -> EndedHolds:
    breaker = find_breaker(supplier.url())
    return await breaker.end(await breaker.find(name))


def run(supplier: Supplier, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `coterie break`, as an operator in a script does."""
    return subprocess.run(
        [*COTERIE, "break", "--url", supplier.url(), *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


async def enter_and_stay(
    c: coterie.Coordinator, name: str, entered: asyncio.Event, *, shared: bool = False
) -> None:
    async with c.lock(name, shared=shared):
        entered.set()
        await asyncio.Event().wait()


@in_loop
async def test_the_body_is_cancelled_and_the_next_has_a_larger_token(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 2) as (ann, bob):
        entered = asyncio.Event()
        task = asyncio.create_task(enter_and_stay(ann, name, entered))
        await entered.wait()
        (party,) = await bob.holders(name)
        waits = asyncio.create_task(taken(bob, name))
        await waiting(ann, name, 1)
        outcome = await broken(supplier, name)
        assert outcome.told == (party.owner,)
        assert not outcome.ended + outcome.failed
        with pytest.raises(coterie.LockLost, match=BROKEN):
            await task
        held = await waits
        assert party.token is not None
        assert held.token > party.token
        assert held.valid
        await held.release()
        await free(bob, name)


@in_loop
async def test_a_broken_hold_is_not_valid_any_more_when_the_next_has_it(
    supplier: Supplier, name: str
) -> None:
    """Also where its task goes on, which no one watches over."""
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        waits = asyncio.create_task(enter_after(bob, held))
        await waiting(ann, name, 1)
        assert (await broken(supplier, name)).told
        assert await waits is False
        with pytest.raises(coterie.LockLost, match=BROKEN):
            held.ensure()
        with pytest.raises(coterie.LockLost, match=BROKEN):
            await held.release()
        await free(ann, name)
        await free(bob, name)


@in_loop
async def test_all_that_share_are_told(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 3) as (ann, bob, eve):
        holds = [await asyncio.create_task(taken(c, name, shared=True)) for c in (ann, ann, bob)]
        waits = asyncio.create_task(taken(eve, name))
        await waiting(ann, name, 1)
        await broken(supplier, name)
        held = await waits
        assert not any(each.valid for each in holds)
        assert held.token > max(each.token for each in holds)
        await held.release()
        for each in holds:
            with pytest.raises(coterie.LockLost, match=BROKEN):
                await each.release()
        await free(ann, name)


@in_loop
async def test_what_is_free_or_kept_or_another_lock_is_left_alone(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 1) as (ann,):
        assert await broken(supplier, name) == EndedHolds()
        other = await taken(ann, f"{name}.other")
        for _ in range(2):
            async with ann.lock(name) as held:
                pass
        assert not (await broken(supplier, name)).told
        async with ann.lock(name) as again:
            assert again.token > held.token
        assert other.valid
        await other.release()


@in_loop
async def test_a_hold_that_has_begun_since_it_was_looked_at_stays(
    supplier: Supplier, name: str
) -> None:
    breaker = find_breaker(supplier.url())
    async with programs(supplier, 2) as (ann, bob):
        first = await taken(ann, name)
        found = await breaker.find(name)
        await first.release()
        async with bob.lock(name) as held:
            assert not (await breaker.end(found)).told
            assert held.valid
        async with ann.lock(name) as again:
            assert again.token > held.token
            assert not (await breaker.end(found)).told
            assert again.valid


@in_loop
async def test_another_task_of_the_same_program_that_waits_is_next(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        waits = asyncio.create_task(taken(ann, name))
        await waiting(bob, name, 1)
        assert (await broken(supplier, name)).told
        after = await waits
        assert after.token > held.token
        assert after.valid
        assert not held.valid
        await after.release()
        with pytest.raises(coterie.LockLost):
            await held.release()
        await free(bob, name)


STORM = 6  # orders


@in_loop
async def test_programs_that_fight_for_a_lock_are_never_inside_together(
    supplier: Supplier, name: str
) -> None:
    """While one hold after the other is ended, among tasks and programs that ask again at once."""
    inside: list[coterie.Held] = []
    lost = last = 0
    ended, draw = asyncio.Event(), random.Random(3)

    async def fight(c: coterie.Coordinator) -> None:
        nonlocal lost, last
        while not ended.is_set():
            held = await asyncio.create_task(taken(c, name))
            assert not any(each.valid for each in inside)
            assert held.token > last
            last = held.token
            inside.append(held)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(draw.uniform(0.05, 1.0)):
                        await held.lost.wait()
                await held.release()
            except coterie.LockLost as error:
                assert BROKEN in str(error)  # noqa: PT017 - some are lost, and others not
                lost += 1
            inside.remove(held)

    async with programs(supplier, 3) as several:
        tasks = [asyncio.create_task(fight(c)) for c in several for _ in range(2)]
        told = 0
        for _ in range(STORM):
            await until(lambda: bool(inside))
            told += len((await broken(supplier, name)).told)
        ended.set()
        await asyncio.gather(*tasks)
        assert lost
        assert told
        await free(several[0], name)


def test_a_thread_is_told(supplier: Supplier, name: str) -> None:
    with coterie.sync.connect(supplier.url()) as c:
        held = c.lock(name).acquire()
        assert held is not None
        assert held.lost is not None
        assert run(supplier, name, "--yes").returncode == 0
        assert held.lost.wait(PATIENCE_SECONDS)
        assert not held.valid
        with pytest.raises(coterie.LockLost, match=BROKEN):
            held.release()
        with c.lock(name, timeout=PATIENCE_SECONDS) as again:
            assert again.token > held.token


def test_the_command_says_what_it_finds_and_does(
    supplier: Supplier, users: Users, name: str
) -> None:
    (user,) = users.start(1)
    nothing = run(supplier, name, "--yes")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == f"lock '{name}' is not held\n"
    token = user.do("take", name)["token"]
    asked = run(supplier, name)
    assert asked.returncode == 64
    assert "add --yes" in asked.stderr
    assert user.do("valid", name) == {"valid": True}
    done = run(supplier, name, "--yes")
    holder = f":{user.process.pid}"
    assert (done.returncode, done.stdout[:14]) == (0, "told to stop: ")
    assert done.stdout.endswith(f"{holder}\n")
    shown, waits = done.stderr.splitlines()
    assert shown.endswith(f"{holder} holds '{name}' with token {token}")
    assert waits == "0 wait for it"
    assert user.do("valid", name) == {"valid": False}
    assert user.do("drop", name) == {"lost": name}


async def enter_after(c: coterie.Coordinator, held: coterie.Held) -> bool:
    """Enter, and return whether the hold before is valid then."""
    async with c.lock(held.name) as other:
        assert other.token > held.token
        return held.valid


async def nothing(*_: object, **__: object) -> None:
    """Obey no order, as a program does whose mail does not arrive."""


@in_loop
async def test_a_program_that_renews_and_does_not_answer(
    supplier: Supplier, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one waits until that program believes in its hold no more; where that cannot be known, for its end."""
    need(supplier, LEASED)
    if supplier.name == "coterie":
        pytest.skip("coterie: an order comes by the connection that renews")
    monkeypatch.setattr(Orders, "obey", nothing)
    for module in (
        "postgresql.server",
        "redis.server",
        "cas.session",
    ):  # so it finds out as late as can be
        monkeypatch.setattr(f"coterie.engines.{module}.BEATS_PER_LEASE", 1.25)
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        waits = asyncio.create_task(enter_after(bob, held))
        await waiting(ann, name, 1)
        outcome = await broken(supplier, name)
        assert not outcome.told
        if outcome.ended:
            assert supplier.name not in COUNTING
            assert "its session is ended" in outcome.ended[0]
            assert await waits is False
            with pytest.raises(coterie.LockLost, match="an operator has ended it"):
                await held.release()
        else:
            assert f"kill -9 {os.getpid()}" in outcome.failed[0]
            assert held.valid
            assert not waits.done()
            await held.release()
            await waits
        await free(bob, name)


@in_loop
async def test_an_order_of_one_that_is_no_operator_is_refused(
    supplier: Supplier, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even one that waits for the lock, or says so in the name of another."""
    if supplier.name in ("file", "coterie"):
        pytest.skip(f"{supplier.name}: orders do not come by letters")
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        waits = asyncio.create_task(taken(bob, name))
        await waiting(ann, name, 1)
        stranger, holder = (desk_of(c) for c in (bob, ann))
        assert stranger.session is not None
        for lock in ("\0", "", "x" * 10_000):  # no locks
            await stranger.session.send(holder.name, encode(HoldOrder(stranger.name, lock)))
        for sender in (stranger.name, "another"):
            order = encode(HoldOrder(sender, name))
            await stranger.session.send(holder.name, order)
        while not of_event(caplog, "order-refused"):  # noqa: ASYNC110 - a log has no events
            await asyncio.sleep(0.01)
        assert held.valid
        assert not [record for record in caplog.records if record.name == "asyncio"]  # no error
        assert (await broken(supplier, name)).told
        assert len(of_event(caplog, "hold-broken")) == 1
        assert (
            len(of_event(caplog, "order-refused")) == 1
        )  # once in a while; none for what names no lock
        assert not held.valid
        await (await waits).release()


def desk_of(c: coterie.Coordinator) -> Desk:
    engine = engine_of(c)
    assert isinstance(engine, QueueEngine)
    return engine.group.supply


def of_event(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "event", "") == event]


ENDS_WHEN_TOLD = """
import signal, sys
def end(number, _):
    print("told", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("way", [[], ["-w", "20"]], ids=["at once", "after a wait"])
def test_a_command_under_the_lock_is_ended(supplier: Supplier, name: str, way: list[str]) -> None:
    """Whether it took the lock without an event loop, where that can be done, or had to wait."""
    with contextlib.ExitStack() as stack:
        blocking = None
        if way:
            c = stack.enter_context(coterie.sync.connect(supplier.url()))
            blocking = c.lock(name).acquire()
        command = [*COTERIE, "lock", *way, "--url", supplier.url(), name, "--"]
        job = subprocess.Popen(
            [*command, sys.executable, "-c", ENDS_WHEN_TOLD],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if blocking is not None:
                while not c.waiters(name):
                    pass
                blocking.release()
            assert job.stdout is not None
            assert job.stdout.readline() == "runs\n"
            done = run(supplier, name, "--yes")
            shown = done.stderr.splitlines()
            assert (done.returncode, len(shown)) == (0, 2), shown
            assert f":{job.pid}" in done.stdout
            _, said = job.communicate(timeout=PATIENCE_SECONDS)
        finally:
            job.kill()
            job.communicate()
    assert job.returncode == 79
    assert BROKEN in said
    with coterie.sync.connect(supplier.url()) as c, c.lock(name, timeout=PATIENCE_SECONDS):
        pass


IGNORES_TERM = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""


def test_a_command_is_over_before_the_next_enters(supplier: Supplier, name: str) -> None:
    if supplier.name == "coterie":
        pytest.skip("coterie: the votes go back at once, and the command is killed at once")
    command = [*COTERIE, "lock", "--kill-after", "1s", "--url", supplier.url(), name, "--"]
    job = subprocess.Popen(
        [*command, sys.executable, "-c", IGNORES_TERM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout is not None
        pid = int(job.stdout.readline())
        with coterie.sync.connect(supplier.url()) as c:
            waits = concurrent.futures.ThreadPoolExecutor(1).submit(
                lambda: c.lock(name, timeout=PATIENCE_SECONDS).acquire() and is_running(pid)
            )
            while not c.waiters(name):
                pass
            assert run(supplier, name, "--yes").returncode == 0
            assert waits.result() is False
        out, said = job.communicate(timeout=PATIENCE_SECONDS)
    finally:
        job.kill()
        job.communicate()
    assert out == "told\n"  # it had time to end by itself
    assert (job.returncode, BROKEN in said) == (79, True)


def test_a_program_that_is_stopped_is_never_valid_beside_the_next(
    supplier: Supplier, users: Users, name: str
) -> None:
    """The command says what is done to it; the next one enters no sooner than its lease is over."""
    need(supplier, LEASED)
    user, other = users.start(2)
    token = user.do("take", name)["token"]
    user.process.send_signal(signal.SIGSTOP)
    user.tell("valid", name)
    try:
        done = run(supplier, name, "--yes")
        # On a cluster its lease may be over before the nodes have the order.
        assert done.returncode == 0 or "it is not held any more" in done.stderr, done.stderr
        after = other.do("take", name)
        assert after["token"] > token
        # Until now it could not find out. If the next one was let in too early it would be valid.
    finally:
        user.process.send_signal(signal.SIGCONT)
    assert user.hear() == {"valid": False}
    assert user.do("drop", name) == {"lost": name}
    assert other.do("valid", name) == {"valid": True}
    assert other.do("drop", name) == {"released": name}
