"""What a store promises under every scheme: the rules that all schemes have in common."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.clocks import Stamp
from coterie.errors import Conflict, MisuseError, OutcomeUnknown, UsageError
from coterie.transactions import Span, Store, Transaction
from coterie.transactions.schemes.multiversion import Multiversion
from coterie.transactions.schemes.scheduler import EVERYTHING
from coterie.transactions.store.local import LocalExecutor
from tests.transactions.anarchy import Anarchy
from tests.transactions.jumbled import FORMS, assert_idle, jumbled, scheduler_of

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Attempt, Declaration

every_form = pytest.mark.parametrize(("scheme", "variant"), FORMS)


@every_form
def test_values_are_copies(scheme: str, variant: str) -> None:
    """2.0 a: a list that was read and changed changes nothing in the store."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        basket = ["apple"]
        async with store.transaction() as t:
            await t.put("basket", basket)
            basket.append("brick")
        async with store.transaction() as t:
            (await t.get("basket")).append("worm")
            t.abort()
        async with store.transaction() as t:
            assert await t.get("basket") == ["apple"]

    asyncio.run(main())


@every_form
def test_a_transaction_sees_its_own_writes_and_deletions(scheme: str, variant: str) -> None:
    """2.0 b: in reads and in scans, and nobody sees them before."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        async with store.transaction() as t:
            await t.put("b", 2)
        async with store.transaction() as t:
            await t.put("a", 1)
            assert await t.get("a") == 1
            await t.delete("b")
            assert await t.get("b", "gone") == "gone"
            assert await t.scan("a", "z") == [("a", 1)]
            await t.put("b", 3)
            await t.put("c", None)
            assert await t.scan() == [("a", 1), ("b", 3), ("c", None)]
            assert await t.scan(limit=2) == [("a", 1), ("b", 3)]
            await t.delete("a")
            assert await t.scan(limit=1) == [("b", 3)]
        async with store.transaction() as t:
            assert await t.scan() == [("b", 3), ("c", None)]

    asyncio.run(main())


@every_form
def test_counting_in_fifty_tasks_ends_at_fifty(scheme: str, variant: str) -> None:
    """2.0 e: a retry runs the function again; to replay what it wrote would lose updates."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        calls = 0

        async def count(t: Transaction) -> int:
            nonlocal calls
            calls += 1
            number: int = await t.get("counter", 0)
            await asyncio.sleep(0)
            await t.put("counter", number + 1)
            return number + 1

        numbers = await asyncio.gather(*(store.run(count) for _ in range(50)))
        assert sorted(numbers) == list(range(1, 51))
        async with store.transaction() as t:
            assert await t.get("counter") == 50
        assert store.counts.committed == 51
        assert store.counts.refused == store.counts.repeated == calls - 50
        assert_idle(store)

    jumbled(main, seed=1)


@every_form
def test_of_two_who_see_a_key_missing_and_insert_it_one_commits(scheme: str, variant: str) -> None:
    """2.0 h: what is absent is read like anything else."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        outcomes = await asyncio.gather(
            *(insert(store, value) for value in (1, 2)), return_exceptions=True
        )
        assert outcomes.count("inserted") == 1
        assert isinstance(outcomes[outcomes[0] == "inserted"], Conflict | str)
        assert_idle(store)

    async def insert(store: Store, value: int) -> str:
        async with store.transaction() as t:
            if await t.get("k") is not None:
                return "there already"
            await asyncio.sleep(0)
            await t.put("k", value)
        return "inserted"

    for seed in range(20):
        jumbled(main, seed)


@every_form
def test_write_skew_does_not_happen(scheme: str, variant: str) -> None:
    """Both see that two are on call, and each wants to leave if the other stays: one leaves."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        async with store.transaction() as t:
            await t.put("on call/ann", True)
            await t.put("on call/bob", True)
        outcomes = await asyncio.gather(
            *(leave(store, name) for name in ("ann", "bob")), return_exceptions=True
        )
        assert outcomes.count("left") == 1
        assert isinstance(outcomes[outcomes[0] == "left"], Conflict | str)
        async with store.transaction() as t:
            assert [there for _, there in await t.scan_prefix("on call/")].count(True) == 1

    async def leave(store: Store, name: str) -> str:
        async with store.transaction() as t:
            there = [await t.get(f"on call/{either}") for either in ("ann", "bob")]
            await asyncio.sleep(0.001)
            if there.count(True) < 2:
                return "stays"
            await t.put(f"on call/{name}", False)
        return "left"

    for seed in range(10):
        jumbled(main, seed)


def test_write_skew_is_noticed_where_nothing_is_controlled() -> None:
    """The control of the two tests above: without a scheme both get through."""

    async def main() -> None:
        store = Store(LocalExecutor(Anarchy()))
        async with store.transaction() as first, store.transaction() as second:
            for t, key in ((first, "x"), (second, "y")):
                assert await t.get("x", 0) + await t.get("y", 0) == 0
                await t.put(key, 1)
        assert store.counts.committed == 2

    asyncio.run(main())


@every_form
def test_a_transaction_belongs_to_one_task(scheme: str, variant: str) -> None:
    """2.0 i: used by several at once it raises at once, contended or not; and is not harmed."""

    async def main() -> None:
        store = Store(scheme, variant=variant)
        async with store.transaction() as t:
            await t.put("a", 1)
            outcomes = await asyncio.gather(t.get("a"), t.put("b", 2), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [MisuseError, MisuseError]
            assert "belongs to the task that began it" in str(outcomes[0])
        async with store.transaction() as t:
            assert await t.scan() == [("a", 1)]

    asyncio.run(main())


@every_form
def test_an_exception_leaves_no_trace(scheme: str, variant: str) -> None:
    async def main() -> None:
        store = Store(scheme, variant=variant)
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as t:
                await t.put("a", 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await store.run(divide)
        async with store.transaction() as t:
            assert await t.scan() == []
        assert store.counts.aborted == 2
        assert store.counts.repeated == 0
        assert_idle(store)

    async def divide(t: Transaction) -> None:
        await t.put("a", 1)
        await t.put("b", 1 // 0)

    asyncio.run(main())


@every_form
def test_whoever_saw_what_never_was_tries_again_instead_of_failing(
    scheme: str, variant: str
) -> None:
    """2.6 f: x and y are equal at all times; no reader's complaint that they differ escapes."""

    async def main() -> None:
        store = Store(scheme, variant=variant)

        async def write(t: Transaction) -> None:
            value = await t.get("x", 0) + 1
            for key in ("x", "y"):
                await t.put(key, value)
                await asyncio.sleep(0)

        async def read(t: Transaction) -> None:
            x = await t.get("x", 0)
            await asyncio.sleep(0)
            y = await t.get("y", 0)
            if x != y:
                raise ArithmeticError(f"{x} is not {y}")

        work = [write, read, read] * 5
        await asyncio.gather(*(store.run(each) for each in work))
        assert_idle(store)

    for seed in range(10):
        jumbled(main, seed)


@pytest.mark.parametrize("variant", ["parallel", "serial"])
def test_an_error_after_reading_what_never_was_is_a_conflict(variant: str) -> None:
    """2.6 f, by hand and without `run`: the error is the conflict's cause."""

    async def main() -> None:
        store = Store("optimistic", variant=variant)
        with pytest.raises(Conflict) as caught:
            await complain(store)
        assert isinstance(caught.value.__cause__, ArithmeticError)
        assert caught.value.keys == ("x",)
        assert_idle(store)

    async def complain(store: Store) -> None:
        async with store.transaction() as reader:
            await reader.get("x")
            async with store.transaction() as writer:
                await writer.put("x", 1)
            raise ArithmeticError("this cannot be")

    asyncio.run(main())


def test_a_conflict_names_the_keys_the_others_and_the_rule_and_stays() -> None:
    async def main() -> None:
        store = Store("timestamp-ordering")
        old, young = store.transaction(), store.transaction()
        with pytest.raises(Conflict) as caught:
            await overtake(old, young)
        (conflict,) = set(conflicts) | {caught.value}
        assert conflict.definite
        assert conflict.keys == ("x",)
        assert conflict.rule
        assert conflict.above is not None
        assert old.name in str(conflict)
        assert old.state == "refused"
        assert young.state == "committed"
        assert_idle(store)

    async def overtake(old: Transaction, young: Transaction) -> None:
        async with old:
            async with young:
                await young.get("x")
            for call in (old.put("x", 1), old.get("y")):
                with pytest.raises(Conflict) as caught:
                    await call
                conflicts.append(caught.value)

    conflicts: list[Conflict] = []

    asyncio.run(main())


def test_a_deadlock_names_who_was_in_the_way() -> None:
    async def main() -> None:
        store = Store()
        names: list[str] = []

        async def cross(first: str, second: str) -> None:
            async with store.transaction() as t:
                names.append(t.name)
                await t.put(first, 1)
                await asyncio.sleep(0)
                await t.put(second, 1)

        outcomes = await asyncio.gather(cross("a", "b"), cross("b", "a"), return_exceptions=True)
        (conflict,) = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(conflict, Conflict)
        victim = names[outcomes.index(conflict)]
        assert conflict.others == tuple(name for name in names if name != victim)
        assert set(conflict.keys) <= {"a", "b"}

    asyncio.run(main())


@every_form
def test_a_wait_that_the_store_cannot_see_ends_by_the_timeout(scheme: str, variant: str) -> None:
    """2.7 i: a transaction awaits a task whose transaction waits for this one."""

    async def main() -> None:
        store = Store(scheme, variant=variant, timeout=5)

        async def other() -> str:
            try:
                async with store.transaction() as t:
                    await t.put("x", 2)
            except Conflict as conflict:
                return conflict.rule
            return "not in the way"

        rule = ""
        with contextlib.suppress(Conflict):  # the other one was faster
            async with store.transaction() as t:
                await t.get("x")
                await t.put("x", 1)
                rule = await asyncio.create_task(other())
        if variant in ("detection", "wound-wait") or scheme == "conservative":
            assert rule == "waited too long"
        assert_idle(store)

    jumbled(main, seed=0)


def test_a_timeout_names_whom_it_waited_for() -> None:
    async def main() -> None:
        store = Store(timeout=0.5)
        async with store.transaction() as holder:
            await holder.put("x", 1)
            with pytest.raises(Conflict, match=f"0.5 s for x, because of {holder.name}") as caught:
                await asyncio.create_task(reading(store))
        assert caught.value.keys == ("x",)
        assert caught.value.others == (holder.name,)
        assert_idle(store)

    async def reading(store: Store) -> None:
        async with store.transaction() as t:
            await t.get("x")

    jumbled(main, seed=0)


class Spying(LocalExecutor):
    """Remembers what it was asked to begin."""

    def __init__(self) -> None:
        super().__init__(Anarchy())
        self.begun: list[tuple[Attempt, Stamp | None]] = []

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        attempt = super().begin(declaration, age=age, failures=failures, above=above)
        self.begun.append((attempt, above))
        return attempt


def test_a_further_attempt_keeps_its_age_counts_failures_and_passes_what_beat_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """2.1 h (5), 2.2 g, 2.2 h; and the log tells of it."""
    caplog.set_level(logging.DEBUG, logger="coterie.transactions")
    executor = Spying()
    failures: list[int] = []

    async def main() -> None:
        store = Store(executor)
        assert await store.run(work, reads=["x"]) == "done"
        assert store.counts.repeated == 2

    async def work(t: Transaction) -> str:
        failures.append(t.failures)
        if t.failures < 2:
            raise Conflict("somebody was faster", above=Stamp(100 + t.failures, 2))
        return "done"

    jumbled(main, seed=0)
    assert failures == [0, 1, 2]
    attempts = [attempt for attempt, _ in executor.begun]
    assert [attempt.age for attempt in attempts] == [attempts[0].stamp] * 3
    assert [attempt.failures for attempt in attempts] == [0, 1, 2]
    assert len({attempt.name for attempt in attempts}) == 3
    assert [above for _, above in executor.begun] == [None, Stamp(100, 2), Stamp(101, 2)]
    assert all(attempt.declaration.reads == (Span.of("x"),) for attempt in attempts)
    assert caplog.text.count("somebody was faster; trying again in") == 2


def test_tries_are_bounded_and_other_errors_end_them() -> None:
    calls = 0

    async def conflict(_: Transaction) -> None:
        nonlocal calls
        calls += 1
        raise Conflict("always in the way")

    async def unknown(_: Transaction) -> None:
        nonlocal calls
        calls += 1
        raise OutcomeUnknown("who knows")

    async def main() -> None:
        store = Store()
        with pytest.raises(Conflict, match="always") as caught:
            await store.run(conflict, tries=5)
        assert calls == 5
        assert caught.value.__notes__ == ["given up after 5 tries"]
        with pytest.raises(OutcomeUnknown):
            await store.run(unknown)
        assert calls == 6
        with pytest.raises(UsageError, match="tries must be at least 1, got 0"):
            await store.run(conflict, tries=0)

    jumbled(main, seed=0)


def test_pauses_grow_and_are_bounded() -> None:
    async def conflict(_: Transaction) -> None:
        times.append(asyncio.get_running_loop().time())
        raise Conflict("always in the way")

    async def main() -> None:
        with pytest.raises(Conflict):
            await Store().run(conflict, tries=200)

    times: list[float] = []
    jumbled(main, seed=0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] <= 0.001
    assert 0.032 < max(pauses) <= 0.064
    assert len(set(pauses)) == len(pauses)


def test_conservative_holds_transactions_to_what_they_declared() -> None:
    async def main() -> None:
        store = Store("conservative")
        async with store.transaction(reads=["a"], writes=[Span("m", "p")]) as t:
            await t.put("n", 1)
            assert await t.get("n") == 1  # what may be written may be read
            assert await t.get("a") is None
            with pytest.raises(MisuseError, match="q"):
                await t.put("q", 1)
            t.abort()

    asyncio.run(main())


@pytest.mark.parametrize("key", [1, None, b"a", "\ud800", ("a",)])
def test_a_key_is_a_string(key: Any) -> None:
    async def main() -> None:
        async with Store().transaction() as t:
            for call in (t.get(key), t.put(key, 1), t.delete(key), t.scan_prefix(key)):
                with pytest.raises(UsageError, match="a key must be a string, got"):
                    await call

    asyncio.run(main())


def test_what_cannot_be_stored_is_refused_in_one_line() -> None:
    async def main() -> None:
        async with Store().transaction() as t:
            for value in (object(), 1 << 70, {1j: 2}):
                with pytest.raises(UsageError, match="the value of 'k' cannot be stored: "):
                    await t.put("k", value)
            with pytest.raises(UsageError, match="limit must be at least 1, got 0"):
                await t.scan(limit=0)
            assert await t.scan("b", "a") == []

    asyncio.run(main())


def test_a_prefix_covers_what_begins_with_it_and_nothing_else() -> None:
    keys = ["a", "a/", "a/b", "a/\U0010ffff", "a0", "b", "\U0010ffff", "\U0010ffffz", "\ud7ff1"]

    async def main() -> None:
        store = Store()
        async with store.transaction() as t:
            for key in keys:
                await t.put(key, key)
        async with store.transaction() as t:
            for prefix in ("", "a", "a/", "a/\U0010ffff", "\U0010ffff", "\ud7ff", "z"):
                found = [key for key, _ in await t.scan_prefix(prefix)]
                assert found == sorted(key for key in keys if key.startswith(prefix))

    asyncio.run(main())


def test_a_transaction_is_used_inside_its_block_and_once() -> None:
    async def main() -> None:
        store = Store()
        t = store.transaction()
        with pytest.raises(MisuseError, match="no name before it begins"):
            _ = t.name
        with pytest.raises(MisuseError, match="has not begun: use `async with`"):
            await t.get("a")
        async with t:
            pass
        with pytest.raises(
            MisuseError, match=r"T\d+ has ended \(committed\): it takes no more requests"
        ):
            await t.put("a", 1)
        with pytest.raises(MisuseError, match="can begin only once"):
            async with t:
                pass
        with pytest.raises(UsageError, match="more than 0 seconds"):
            Store(timeout=0)
        with pytest.raises(MisuseError, match="record=True"):
            store.history()

    asyncio.run(main())


def test_a_store_that_is_closed_refuses_who_is_under_way_and_takes_no_more() -> None:
    async def main() -> None:
        async with Store() as store:
            with pytest.raises(Conflict, match="the store was closed"):
                await close_inside(store)
            with pytest.raises(MisuseError, match="the store is closed"):
                store.transaction()

    async def close_inside(store: Store) -> None:
        async with store.transaction() as t:
            await t.put("a", 1)
            await store.close()

    asyncio.run(main())


@pytest.mark.slow
def test_stamps_are_unique_and_grow_whatever_the_clock_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.0 g: they count beginnings; the time of day may stand still or go back."""
    monkeypatch.setattr("time.time", itertools.count(0, -1).__next__)
    executor = LocalExecutor(Anarchy())
    attempts = [executor.begin(EVERYTHING) for _ in range(100_000)]
    assert all(a.stamp < b.stamp for a, b in itertools.pairwise(attempts))
    assert len({attempt.name for attempt in attempts}) == 100_000


def test_no_request_gives_up_control_between_check_and_effect() -> None:
    """2.0 c: all of them are plain functions; only closing waits, for the disk."""
    waiting = [
        name for name, each in vars(LocalExecutor).items() if inspect.iscoroutinefunction(each)
    ]
    assert waiting == ["close"]


def test_the_store_is_at_the_top_of_the_package() -> None:
    assert coterie.Store is Store


def test_the_oldest_transaction_is_shown_with_its_task() -> None:
    """2.4 e: it is what keeps old versions from being dropped."""

    async def main() -> None:
        store = Store("multiversion")
        done = asyncio.Event()
        assert store.oldest() is None

        async def read() -> None:
            async with store.transaction() as t:
                await t.get("x")
                await done.wait()

        task = asyncio.create_task(read(), name="report")
        await asyncio.sleep(0)
        async with store.transaction() as t:
            await t.put("x", 1)
            oldest = store.oldest()
            assert oldest is not None
            assert (oldest.name, oldest.task) == ("T1", "report")
            assert oldest.seconds >= 0
        scheduler = scheduler_of(store)
        assert isinstance(scheduler, Multiversion)
        kept = scheduler.oldest()
        assert kept is not None
        assert kept.name == oldest.name
        done.set()
        await task
        assert store.oldest() is None

    asyncio.run(main())
