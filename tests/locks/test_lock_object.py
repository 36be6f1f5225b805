"""One lock, whatever grants it: waiting, owning, entering again, cancelling."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie import AcquireTimeout, Held, MisuseError, NotHeld, UsageError, system
from tests.locks.memory import MemoryEngine, coordinator, in_loop, until


@in_loop
async def test_nothing_is_sent_before_a_lock_is_acquired() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        c.lock("a")
        c.lock_all("a", "b")
        c.semaphore("s", 3)
        assert engine.placed == []


@in_loop
async def test_the_body_never_runs_without_the_lock() -> None:
    async with coordinator(MemoryEngine()) as c:
        held = await c.lock("a").acquire()
        assert held is not None

        async def other(timeout: float) -> None:  # noqa: ASYNC109 - it is what is tested
            async with c.lock("a", timeout=timeout):
                pytest.fail("the body runs without the lock")

        for timeout in (0, 0.001):
            with pytest.raises(AcquireTimeout, match="'a' was not obtained") as caught:
                await asyncio.create_task(other(timeout))
            assert isinstance(caught.value, TimeoutError)
            assert not isinstance(caught.value, ValueError)
            assert caught.value.exit_status == 75


@in_loop
async def test_acquire_gives_what_is_held_or_none() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert isinstance(held, Held)
        assert (held.name, held.valid) == ("a", True)
        other = c.lock("a", timeout=5)
        assert await asyncio.create_task(other.acquire(blocking=False)) is None
        assert await asyncio.create_task(other.acquire(timeout=0)) is None
        assert await asyncio.create_task(other.acquire(timeout=0.001)) is None
        assert engine.waiting("a") == 0
        with pytest.raises(ValueError, match="timeout must be left out"):
            await other.acquire(blocking=False, timeout=1)


@in_loop
async def test_each_acquisition_has_a_larger_token() -> None:
    async with coordinator(MemoryEngine()) as c:
        tokens = []
        for _ in range(3):
            async with c.lock("a") as held:
                tokens.append(held.token)
        assert tokens == sorted(set(tokens))


@in_loop
async def test_a_task_cannot_release_what_another_holds() -> None:
    async with coordinator(MemoryEngine()) as c:
        lock = c.lock("a")
        held = await lock.acquire()
        assert held is not None

        async def thief() -> None:
            with pytest.raises(NotHeld, match="only its owner"):
                await held.release()
            with pytest.raises(NotHeld):
                await lock.release()

        await asyncio.create_task(thief())
        assert held.valid
        await lock.release()
        assert not held.valid
        with pytest.raises(NotHeld, match="released before"):
            await held.release()
        with pytest.raises(NotHeld, match="released before"):
            held.ensure()


@in_loop
async def test_two_tasks_share_a_lock_object_and_not_its_state() -> None:
    async with coordinator(MemoryEngine()) as c:
        lock = c.lock("a")
        inside = 0
        tokens = []

        async def work() -> None:
            nonlocal inside
            for _ in range(5):
                async with lock as held:
                    inside += 1
                    await asyncio.sleep(0)
                    assert inside == 1
                    tokens.append(held.token)
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(4)))
        assert len(tokens) == 20
        assert tokens == sorted(set(tokens))


@in_loop
async def test_what_wait_for_obtained_in_a_task_of_its_own_can_be_released() -> None:
    async with coordinator(MemoryEngine()) as c:
        held = await asyncio.create_task(c.lock("a").acquire())
        assert held is not None
        await held.release()
        assert not await c.locked("a")


@in_loop
async def test_taking_a_lock_again_raises_at_once_instead_of_hanging() -> None:
    async with coordinator(MemoryEngine()) as c, c.lock("a"):
        with pytest.raises(MisuseError, match="would wait for itself"):
            await c.lock("a").acquire()


@in_loop
async def test_a_reentrant_lock_is_entered_again_with_the_same_token() -> None:
    async with coordinator(MemoryEngine()) as c:
        lock = c.lock("a", reentrant=True)
        async with lock as outer:
            async with lock as inner:
                assert inner.token == outer.token
            assert outer.valid
            assert await c.locked("a")
        assert not await c.locked("a")


@in_loop
async def test_a_cancelled_acquire_leaves_no_request_behind() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c, c.lock("a"):
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until(lambda: engine.waiting("a") == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert engine.waiting("a") == 0


@in_loop
async def test_an_acquire_that_is_cancelled_as_it_is_granted_gives_the_lock_back() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        engine.grants = False
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until(lambda: engine.waiting("a") == 1)
        engine.grants = True
        engine.serve("a")
        assert await c.locked("a")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not await c.locked("a")


@in_loop
async def test_a_cancelled_release_frees_the_lock_all_the_same() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:

        async def work() -> None:
            async with c.lock("a"):
                engine.may_release.clear()

        task = asyncio.create_task(work())
        await until(lambda: not engine.may_release.is_set())
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        engine.may_release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await c.locked("a")


@in_loop
async def test_a_grant_that_came_too_late_is_not_used() -> None:
    engine = MemoryEngine()
    engine.grants = False
    async with coordinator(engine) as c:
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until(lambda: engine.waiting("a") == 1)
        engine.grants = True
        engine.serve("a")
        engine.lose("a")
        held = await waiting
        assert held is not None
        assert (held.token, held.valid) == (2, True)


@in_loop
async def test_a_coordinator_works_only_where_it_was_opened() -> None:
    c = coordinator(MemoryEngine())
    with pytest.raises(MisuseError, match="not open"):
        await c.lock("a").acquire()
    async with c:
        with pytest.raises(MisuseError, match="open already"):
            await c.open()

        def elsewhere() -> None:
            with pytest.raises(MisuseError, match="another event loop"):
                asyncio.run(c.holders("a"))

        await asyncio.to_thread(elsewhere)
    with pytest.raises(MisuseError, match="not open"):
        await c.holders("a")


@in_loop
async def test_after_a_fork_every_use_in_the_child_fails_loudly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with coordinator(MemoryEngine()) as c:
        lock = c.lock("a")
        held = await lock.acquire()
        assert held is not None
        with monkeypatch.context() as child:
            child.setattr(system, "pid", lambda: 1)
            with pytest.raises(MisuseError, match="fork"):
                held.ensure()
            with pytest.raises(MisuseError, match="fork"):
                _ = held.valid
            for use in (held.release, lock.release, c.lock("b").acquire, c.close):
                with pytest.raises(MisuseError, match="fork"):
                    await use()
        assert held.valid


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "1 to 255"),
        ("x" * 256, "got 256"),
        ("a\tb", "at position 2 cannot be printed"),
        ("a ", "remove the leading or trailing space"),
    ],
)
@in_loop
async def test_a_bad_name_is_refused_with_the_character_named(name: str, complaint: str) -> None:
    async with coordinator(MemoryEngine()) as c:
        with pytest.raises(UsageError, match=complaint):
            c.lock(name)
        with pytest.raises(UsageError, match=complaint):
            await c.holders(name)


@in_loop
async def test_times_that_make_no_sense_are_refused() -> None:
    async with coordinator(MemoryEngine()) as c:
        wrong: tuple[Any, ...] = (-1, float("nan"), "5")
        for timeout in wrong:
            with pytest.raises(UsageError, match="timeout"):
                c.lock("a", timeout=timeout)
            with pytest.raises(UsageError, match="timeout"):
                await c.lock("a").acquire(timeout=timeout)
        with pytest.raises(UsageError, match="lease"):
            c.lock("a", lease=0)
