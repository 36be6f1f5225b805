"""What every engine promises, on a real server of each."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import random
import selectors
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import coterie
import coterie.sync
from coterie.cluster.membership.ports import free_ports
from coterie.dashboard.snapshot import view_of
from coterie.engines.queue import desk
from coterie.engines.queue.desk import TIMES_MAX
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.supplier import (
    CUTS,
    FAILS_OVER,
    FREES_AT_ONCE,
    LEASED,
    REMEMBERS,
    RESTARTS,
)
from coterie.locks.status import find_source
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie import Held
    from coterie.lab.servers.supplier import Supplier
    from tests.engines.conformance.users import Users


def need(supplier: Supplier, ability: str) -> None:
    """Leave out what an engine does not promise."""
    if ability not in supplier.can:
        pytest.skip(f"{supplier.name}: not {ability}")


@contextlib.asynccontextmanager
async def programs(supplier: Supplier, count: int) -> AsyncIterator[list[coterie.Coordinator]]:
    """Connect several coordinators, each with a session of its own."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(coterie.connect(supplier.url())) for _ in range(count)
        ]


async def taken(c: coterie.Coordinator, name: str, **options: Any) -> Held:
    held = await c.lock(name, **options).acquire()
    assert held is not None
    return held


async def waiting(c: coterie.Coordinator, name: str, count: int) -> None:
    """Wait until so many tasks wait for a lock."""
    while len(await c.waiters(name)) < count:  # noqa: ASYNC110 - of other programs there are no events
        await asyncio.sleep(0.01)


async def closed_to_readers(c: coterie.Coordinator, name: str) -> None:
    """Wait until the servers know of a writer that waits for those that share a lock.

    Its own program says that it waits as soon as it asks, and may be asked before its request arrives.
    """
    while (held := await c.lock(name, shared=True).acquire(blocking=False)) is not None:
        await held.release()
        await asyncio.sleep(0.01)


async def free(c: coterie.Coordinator, name: str) -> None:
    """Make sure that a lock is free and that nobody waits: nothing was left behind."""
    async with c.lock(name, timeout=PATIENCE_SECONDS):
        pass
    assert not await c.holders(name)
    assert not await c.waiters(name)


# Exclusion, order and tokens


def test_processes_and_tasks_never_hold_together(users: Users, name: str) -> None:
    several = users.start(3)
    for user in several:
        user.tell("turns", name, 3, 10)
    turns = sorted(tuple(turn) for user in several for turn in user.hear()["turns"])
    assert len(turns) == 90
    for (_, left, token), (entered, _, next_token) in itertools.pairwise(turns):
        assert left <= entered
        assert token < next_token


@in_loop
async def test_the_first_that_asks_is_the_first_that_enters(supplier: Supplier, name: str) -> None:
    order: list[int] = []

    async def use(c: coterie.Coordinator, number: int) -> None:
        async with c.lock(name):
            order.append(number)

    async with programs(supplier, 5) as several:
        held, tasks = await taken(several[0], name), []
        for number, c in enumerate(several[1:], 1):
            tasks.append(asyncio.create_task(use(c, number)))
            await waiting(several[0], name, number)
        await held.release()
        await asyncio.gather(*tasks)
    assert order == [1, 2, 3, 4]


@in_loop
async def test_a_lock_that_is_left_for_another_one_goes_to_who_waits(
    supplier: Supplier, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some servers the request for the other one leaves it, and the program does not know that others wait."""
    for each in ("KNOCK_SECONDS", "KNOCK_LATE_SECONDS"):
        monkeypatch.setattr(desk, each, PATIENCE_SECONDS)
    async with programs(supplier, 3) as (ann, bob, eve):
        for turn in range(3):
            held = await taken(ann, f"{name}-{turn}")
            following: list[asyncio.Task[Held]] = []
            for number, c in enumerate((bob, eve), 1):
                following.append(asyncio.create_task(taken(c, f"{name}-{turn}")))
                await waiting(ann, f"{name}-{turn}", number)
            await held.release()
            async with ann.lock(f"{name}-other-{turn}"):
                for task in following:  # while ann holds the other one
                    got = await task
                    assert got.token > held.token
                    held = got
                    await got.release()


@in_loop
async def test_programs_that_change_places_all_get_through(supplier: Supplier, name: str) -> None:
    """Each gives a lock back and asks for the one that the other has just given back."""

    async def use(c: coterie.Coordinator, order: list[str]) -> None:
        for _ in range(15):
            for each in order:
                async with c.lock(f"{name}-{each}"):
                    await asyncio.sleep(0)

    async with programs(supplier, 2) as (ann, bob):
        await asyncio.gather(use(ann, ["a", "b", "c"]), use(bob, ["c", "b", "a"]))


@in_loop
async def test_names_that_look_like_parts_of_keys_are_locks_of_their_own(
    supplier: Supplier, name: str
) -> None:
    kin = ["", ":", ":x.1", "%3A", "/x", " &", "*", "{1}", "\u00fc", "=", "."]
    async with programs(supplier, 2) as (ann, bob):
        held = [await taken(ann, name + end) for end in kin]
        for each in held:
            assert await bob.lock(each.name).acquire(timeout=0) is None
            assert [party.name for party in await bob.holders(each.name)] == [each.name]
        for each in held:
            await each.release()
            await free(bob, each.name)


@in_loop
async def test_tokens_grow_over_many_holds_and_to_another_program(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 2) as (ann, bob):
        last = 0
        for _ in range(3 * TIMES_MAX if supplier.name != "coterie" else 100):
            async with ann.lock(name) as held:
                assert held.token > last
                last = held.token
        for c in (bob, ann, bob):
            async with c.lock(name) as held:
                assert held.token > last
                last = held.token


@in_loop
async def test_a_lock_can_be_taken_again_by_its_task_only_if_that_was_said(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 1) as (c,):
        async with c.lock(name, reentrant=True) as outer:
            async with c.lock(name, reentrant=True) as inner:
                assert inner.token == outer.token
            assert outer.valid
        async with c.lock(name):
            with pytest.raises(coterie.MisuseError, match="wait for itself"):
                await c.lock(name).acquire()


# Giving up


@in_loop
async def test_a_wait_ends_in_time_and_a_try_at_once(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 2) as (ann, bob):
        async with ann.lock(name):
            with pytest.raises(coterie.AcquireTimeout):
                async with bob.lock(name, timeout=0.05):
                    pytest.fail("the body ran")
            assert await bob.lock(name).acquire(timeout=0) is None
        for _ in range(3):  # so that it is kept
            async with ann.lock(name):
                pass
        held = await bob.lock(name).acquire(timeout=0)
        assert held is not None
        assert await ann.lock(name).acquire(timeout=0) is None
        await held.release()
        await free(ann, name)


@in_loop
async def test_a_task_that_is_cancelled_leaves_nothing_behind(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 2) as (ann, bob):
        for is_held in (True, False):
            held = await taken(ann, name) if is_held else None
            for turns in range(25):
                task = asyncio.create_task(bob.lock(name).acquire())
                for _ in range(turns):
                    await asyncio.sleep(0)
                await asyncio.sleep(turns * 0.0004)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    if (got := await task) is not None:
                        await got.release()
            if held is not None:
                assert held.valid
                await held.release()
            await free(ann, name)
        await free(bob, name)


@in_loop
async def test_the_end_of_a_coordinator_ends_its_waits_and_its_holds(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 1) as (eve,):
        ann, bob = coterie.connect(supplier.url()), coterie.connect(supplier.url())
        await ann.open()
        await bob.open()
        held = await taken(ann, name)
        task = asyncio.create_task(bob.lock(name).acquire())
        await waiting(eve, name, 1)
        await bob.close()
        with pytest.raises(coterie.MisuseError, match="closed"):
            await task
        await ann.close()
        assert not held.valid
        await free(eve, name)


# Shared


@pytest.mark.parametrize(
    ("writer", "reader"), [(2, 3), (1, 3), (1, 1)], ids=["apart", "of a reader", "of one program"]
)
@in_loop
async def test_sharers_hold_together_and_none_overtakes_a_writer(
    supplier: Supplier, name: str, writer: int, reader: int
) -> None:
    """Whether the writer, and the reader that comes after it, are of a program that reads or not."""
    order: list[str] = []
    async with programs(supplier, 4) as several:
        ann, bob, *_ = several

        async def enter(c: coterie.Coordinator, word: str, *, shared: bool) -> None:
            async with c.lock(name, shared=shared):
                order.append(word)

        one, two = await taken(ann, name, shared=True), await taken(bob, name, shared=True)
        assert one.valid
        assert two.valid
        writes = asyncio.create_task(enter(several[writer], "write", shared=False))
        await closed_to_readers(several[3], name)
        reads = asyncio.create_task(enter(several[reader], "read", shared=True))
        await waiting(ann, name, 2)
        assert not order
        await one.release()
        await two.release()
        await asyncio.gather(writes, reads)
        assert order == ["write", "read"]
        await free(ann, name)


@in_loop
async def test_readers_and_writers_of_several_programs_all_get_through(
    supplier: Supplier, name: str
) -> None:
    """At no time does a writer hold beside another."""
    inside: list[bool] = []
    draw = random.Random(1)

    async def use(c: coterie.Coordinator) -> None:
        for _ in range(8):
            shared = draw.random() < 0.6
            async with c.lock(name, shared=shared) as held:
                assert not inside or (shared and all(inside))
                inside.append(shared)
                await asyncio.sleep(draw.random() * 0.004)
                assert held.valid
                inside.remove(shared)
            await asyncio.sleep(draw.random() * 0.004)

    async with programs(supplier, 3) as several:
        await asyncio.gather(*(use(c) for c in several for _ in range(4)))
        await free(several[0], name)


# Combinations


@in_loop
async def test_a_semaphore_keeps_its_bound(supplier: Supplier, name: str) -> None:
    inside = most = 0
    met = asyncio.Event()

    async def use(c: coterie.Coordinator) -> None:
        nonlocal inside, most
        async with c.semaphore(name, 2):
            inside += 1
            most = max(most, inside)
            if inside == 2:
                met.set()
            await met.wait()  # the first one, until another one is inside as well
            await asyncio.sleep(0.005)
            inside -= 1

    async with programs(supplier, 3) as several:
        await asyncio.gather(*(use(c) for c in several for _ in range(2)))
    assert most == 2


@in_loop
async def test_the_name_of_a_semaphore_answers_for_its_permits(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 3) as (ann, bob, eve):
        mine, yours = ann.semaphore(name, 2), bob.semaphore(name, 2)
        eve.semaphore(name, 2)
        assert not await eve.locked(name)
        async with mine as first:
            assert not await eve.locked(name)
            async with yours as second:
                assert await eve.locked(name)
                found = await eve.holders(name)
                assert {party.token for party in found} == {first.token, second.token}
                task = asyncio.create_task(yours.acquire())
                await waiting(eve, name, 1)
        held = await task
        assert held is not None
        assert [party.token for party in await eve.holders(name)] == [held.token]
        assert await eve.waiters(name) == []


@in_loop
async def test_a_leader_is_elected_and_seen(supplier: Supplier, name: str) -> None:
    async with (
        programs(supplier, 2) as (ann, bob),
        contextlib.aclosing(bob.observe(name)) as seen,
    ):
        assert await anext(seen) is None
        async with ann.elect(name) as term:
            leader = await anext(seen)
            assert leader is not None
            assert leader.token == term.token
        assert await anext(seen) is None


@in_loop
async def test_holders_and_waiters_are_those_of_all_programs(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 3) as (ann, bob, eve):
        held = await taken(ann, name)
        task = asyncio.create_task(bob.lock(name).acquire())
        await waiting(eve, name, 1)
        (party,) = await eve.holders(name)
        assert party.token == held.token
        assert party.owner.endswith(f":{os.getpid()}")
        (waits,) = await eve.waiters(name)
        assert waits.token is None
        await held.release()
        got = await task
        assert got is not None
        await got.release()


@in_loop
async def test_a_hold_is_counted_from_its_grant(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 2) as (ann, bob):
        first = await taken(ann, name)
        (party,) = await bob.holders(name)
        before = party.since
        second = asyncio.create_task(taken(bob, name))
        await waiting(ann, name, 1)
        assert (await ann.waiters(name))[0].waited is None
        given_back = time.time()
        await first.release()
        held = await second
        (party,) = await ann.holders(name)
        assert before < given_back < party.since <= time.time()
        assert party.waited is not None
        assert before < party.since - party.waited < given_back
        await held.release()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_a_deadlock_is_found(supplier: Supplier, name: str, count: int, shared: bool) -> None:
    entered: list[asyncio.Event] = [asyncio.Event() for _ in range(count)]

    async def cross(c: coterie.Coordinator, mine: int) -> str:
        async with c.lock(f"{name}.{mine}", shared=shared):
            entered[mine].set()
            await asyncio.gather(*(event.wait() for event in entered))
            try:
                async with c.lock(f"{name}.{(mine + 1) % count}"):
                    return "through"
            except coterie.DeadlockDetected:
                return "gave way"

    async with programs(supplier, count) as several:
        outcomes = await asyncio.gather(*(cross(c, i) for i, c in enumerate(several)))
    assert sorted(outcomes) == ["gave way"] + ["through"] * (count - 1)


@in_loop
async def test_locks_in_one_order_are_no_deadlock(supplier: Supplier, name: str) -> None:
    draw = random.Random(2)

    async def use(c: coterie.Coordinator) -> None:
        for _ in range(10):
            first, second = sorted(draw.sample(range(4), 2))
            async with (
                c.lock(f"{name}.{first}", shared=draw.random() < 0.5),
                c.lock(f"{name}.{second}", shared=draw.random() < 0.5),
            ):
                await asyncio.sleep(draw.random() * 0.01)

    async with programs(supplier, 3) as several:
        await asyncio.gather(*(use(c) for c in several for _ in range(2)))


# Names and numbers


@in_loop
async def test_names_do_not_touch_each_other(supplier: Supplier) -> None:
    names = ["a", "a/b", ".", "..", "-x", "a.b", "A", "x" * 255, "x" * 254]
    async with programs(supplier, 2) as (ann, bob):
        allowed = []
        for name in names:
            with contextlib.suppress(coterie.UsageError):
                allowed.append(ann.lock(name))
        holds = [await lock.acquire(timeout=0) for lock in allowed]
        assert all(holds)
        for lock in allowed:
            assert await bob.lock(lock.name).acquire(timeout=0) is None
        for held in holds:
            assert held is not None
            await held.release()


# Locks; where they cost more, fewer.
MANY = {"postgresql": 5000, "valkey": 5000, "etcd": 1000, "s3": 400}
MANY_MIN = 200
WAKES_MAX = {"s3": MANY_MIN}  # for renewals, and there for letters
MANY_SECONDS_MAX = 120.0  # on a busy machine


class CountingSelector(selectors.DefaultSelector):
    """Counts how often an event loop wakes up."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0

    def select(self, timeout: float | None = None) -> Any:
        self.wakes += 1
        return super().select(timeout)


def test_many_locks_are_held_at_a_time_and_cost_nothing(supplier: Supplier, name: str) -> None:
    """What a process does that only holds locks does not depend on how many these are."""
    selector = CountingSelector()

    async def wakes() -> int:
        before = selector.wakes
        await asyncio.sleep(supplier.lease / 2)
        return selector.wakes - before

    async def hold() -> None:
        # A machine that is busy may not get to a renewal in 2 s.
        url = supplier.url().replace("lease=2", "lease=6")
        async with coterie.connect(url) as ann, coterie.connect(url) as bob:
            count = MANY.get(supplier.name, MANY_MIN)
            holds = await asyncio.gather(*(taken(ann, f"{name}.{i}") for i in range(count)))
            assert len({held.token for held in holds}) > 1 or supplier.name == "file"
            assert await bob.lock(f"{name}.77").acquire(timeout=0) is None
            # Not one for each lock.
            assert await wakes() < WAKES_MAX.get(supplier.name, MANY_MIN // 2)
            for held in holds:
                assert held.valid
                await held.release()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(asyncio.wait_for(hold(), MANY_SECONDS_MAX))


# Surroundings


def test_threads_have_coordinators_of_their_own(supplier: Supplier, name: str) -> None:
    """The sync face, in two threads whose event loops know nothing of each other."""
    counts, errors = [0], []

    def work() -> None:
        try:
            with coterie.sync.connect(supplier.url()) as c:
                for _ in range(10):
                    with c.lock(name):
                        before = counts[0]
                        counts[0] = before + 1
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not errors
    assert counts == [30]


def use_after_fork(held: coterie.sync.Held, answers: Any) -> None:
    try:
        held.release()
    except coterie.MisuseError as error:
        answers.put("fork" in str(error))
    else:
        answers.put(False)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_and_the_parent_keeps_the_lock(
    supplier: Supplier, name: str
) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with coterie.sync.connect(supplier.url()) as c, c.lock(name) as held:
        for _ in range(10):
            child = fork.Process(target=use_after_fork, args=(held, answers))
            child.start()
            child.join(PATIENCE_SECONDS)
            assert child.exitcode == 0
            assert answers.get()
        assert held.valid
        assert c.locked(name)


def test_a_command_runs_under_a_lock(supplier: Supplier, name: str) -> None:
    command = [*COTERIE, "lock", "--url", supplier.url(), name, "--", "true"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_server_that_is_not_there_is_said_in_a_line(supplier: Supplier, name: str) -> None:
    need(supplier, CUTS)
    url = supplier.url(free_ports(1)[0])
    command = [*COTERIE, "lock", "--url", url, name, "--", "true"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 69
    assert len(done.stderr.splitlines()) == 1


# Processes that stop


def test_a_killed_holder_frees_its_locks(supplier: Supplier, users: Users, name: str) -> None:
    (user,) = users.start(1)
    token = user.do("take", name)["token"]
    with coterie.sync.connect(supplier.url()) as c:
        assert c.locked(name)
        user.end()
        bound = 1.0 if FREES_AT_ONCE in supplier.can else supplier.lease + 1.0
        with c.lock(name, timeout=bound + supplier.lease) as held:
            assert held.token > token


def test_a_suspended_holder_has_lost_its_lock_when_it_goes_on(
    supplier: Supplier, users: Users, name: str
) -> None:
    need(supplier, LEASED)
    (user,) = users.start(1)
    token = user.do("take", name)["token"]
    user.process.send_signal(signal.SIGSTOP)
    user.tell("valid", name)
    try:
        with coterie.sync.connect(supplier.url()) as c, c.lock(name) as held:
            assert held.token > token
    finally:
        user.process.send_signal(signal.SIGCONT)
    assert user.hear() == {"valid": False}
    assert user.do("drop", name) == {"lost": name}
    assert user.do("take", name)["token"] > held.token
    assert user.do("drop", name) == {"released": name}


def test_a_holder_that_was_suspended_alone_takes_its_lock_again(
    supplier: Supplier, users: Users, name: str
) -> None:
    """Nothing of its former session stands in its way."""
    need(supplier, LEASED)
    (user,) = users.start(1)
    token = user.do("take", name)["token"]
    other = f"{name}.other"
    with coterie.sync.connect(supplier.url()) as c:
        assert user.do("take", other)["held"] == other
        user.process.send_signal(signal.SIGSTOP)
        with c.lock(other):  # the lease of the one that is suspended is over
            user.process.send_signal(signal.SIGCONT)
        assert user.do("drop", name) == {"lost": name}
        assert user.do("take", name)["token"] > token
        assert c.locked(name)
        user.tell("drop", name)


# Servers that stop


@in_loop
async def test_a_holder_that_is_cut_off_is_told_before_another_enters(
    supplier: Supplier, name: str
) -> None:
    need(supplier, CUTS)
    proxy = Proxy(supplier.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(supplier.url()) as bob,
            coterie.connect(supplier.url(proxy.port)) as ann,
        ):
            held = await taken(ann, name)
            proxy.stall()
            async with bob.lock(name) as other:
                assert not held.valid
                assert other.token > held.token
            with pytest.raises(coterie.LockLost):
                await held.release()
            proxy.resume()
            proxy.sever()
            async with ann.lock(name) as again:
                assert again.token > other.token
            await free(bob, name)
    finally:
        await proxy.stop()


@in_loop
async def test_a_line_that_breaks_for_a_moment_ends_no_wait_and_no_lease(
    supplier: Supplier, name: str
) -> None:
    """Where a server frees locks at once, a hold ends with its line, and that is told."""
    need(supplier, CUTS)
    proxy = Proxy(supplier.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(supplier.url()) as bob,
            coterie.connect(supplier.url(proxy.port)) as ann,
        ):
            held = await taken(ann, name)
            other = f"{name}.other"
            blocking = await taken(bob, other)
            task = asyncio.create_task(ann.lock(other).acquire())
            await waiting(bob, other, 1)
            proxy.sever()
            await blocking.release()
            got = await task
            assert got is not None
            if FREES_AT_ONCE in supplier.can:
                await held.lost
                with pytest.raises(coterie.LockLost):
                    await held.release()
            else:
                assert held.valid
                await held.release()
            await got.release()
            await free(bob, name)
            await free(bob, other)
    finally:
        await proxy.stop()


@in_loop
async def test_a_server_that_is_killed_and_comes_back(supplier: Supplier, name: str) -> None:
    """Holds are lost in time or stay; tokens grow; what waited enters."""
    need(supplier, RESTARTS)
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        task = asyncio.create_task(bob.lock(name).acquire())
        await waiting(ann, name, 1)
        killed = time.monotonic()
        await asyncio.to_thread(supplier.kill)
        await asyncio.to_thread(supplier.start)
        # Where it took long to start, the lease of a hold that it remembers may be over.
        was_quick = time.monotonic() - killed < supplier.lease / 3
        if REMEMBERS in supplier.can and (was_quick or held.valid):
            await held.release()
        else:
            await held.lost
            with pytest.raises(coterie.LockLost):
                await held.release()
        got = await task
        assert got is not None
        assert not held.valid
        assert got.token > held.token
        await got.release()
        async with ann.lock(name) as again:
            assert again.token > got.token


@in_loop
async def test_no_wait_is_told_of_a_holder_after_a_restart(supplier: Supplier, name: str) -> None:
    """There is none: either the lock is free, or leases from before are waited for, and that is said."""
    need(supplier, RESTARTS)
    async with coterie.connect(supplier.url()) as c:
        await (await taken(c, f"{name}.before")).release()
        await asyncio.to_thread(supplier.kill)
        await asyncio.to_thread(supplier.start)
        held = None
        while held is None:
            try:
                held = await c.lock(name).acquire(timeout=supplier.lease / 4)
            except coterie.Unavailable:
                continue
            assert held is not None, "it waited for a holder"
        await held.release()


@in_loop
async def test_waits_outlast_a_server_that_is_away_for_leases(
    supplier: Supplier, name: str
) -> None:
    """That of a program that was connected, and that of a command which begins meanwhile."""
    need(supplier, RESTARTS)
    async with coterie.connect(supplier.url()) as c:
        await taken(c, name)
        await asyncio.to_thread(supplier.kill)
        try:
            task = asyncio.create_task(c.lock(f"{name}.other").acquire())
            command = await asyncio.create_subprocess_exec(
                *COTERIE, "lock", "-w", "10m", "--url", supplier.url(), f"{name}.command", "--", "true",
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert command.stderr is not None
            said = (await command.stderr.readline()).decode()
            assert said.startswith("coterie: waiting: ")
            await asyncio.sleep(3 * supplier.lease)
            assert not task.done()
        finally:
            await asyncio.to_thread(supplier.start)
        assert await task is not None
        for line in (await command.stderr.read()).decode().splitlines():
            assert line.startswith("coterie: waiting: ")  # for leases from before the restart
        assert await command.wait() == 0


@in_loop
async def test_one_server_of_several_is_killed(supplier: Supplier, name: str) -> None:
    need(supplier, FAILS_OVER)
    async with programs(supplier, 3) as (ann, bob, eve):
        held = await taken(ann, name)
        task = asyncio.create_task(bob.lock(name).acquire())
        await waiting(eve, name, 1)
        await asyncio.to_thread(supplier.kill)
        try:
            async with eve.lock(f"{name}.other") as other:
                assert other.valid
            assert held.valid
            await held.release()
            got = await task
            assert got is not None
            assert got.token > held.token
            await got.release()
        finally:
            await asyncio.to_thread(supplier.start)
        await free(eve, name)


@in_loop
async def test_the_dashboard_shows_who_holds_and_why_another_waits(supplier: Supplier) -> None:
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, "shown")
        asked = asyncio.create_task(taken(bob, "shown"))
        await waiting(bob, "shown", 1)
        source = await find_source(supplier.url())
        view = view_of(await source.look(locks=True, waits=True), now=0.0)
        while "shown" not in view.graph.waits:  # a wait is noted when it has lasted a moment
            view = view_of(await source.look(locks=True, waits=True), now=0.0)
        shown = view.snapshot.locks["shown"]
        assert [holder.token for holder in shown.holders] == [str(held.token)]
        assert [waiter.why for waiter in shown.waiters] == [f"held by {shown.holders[0].owner}"]
        await held.release()
        await (await asked).release()
