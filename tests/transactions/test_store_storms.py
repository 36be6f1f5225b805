"""Random programs against a store, cancelled and given up at random: the checker accepts every run.

The same programs against a store without a scheme, or with mistakes of its own, are refuted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.errors import Conflict
from coterie.lab.serializability import check
from coterie.transactions import Store, Transaction
from coterie.transactions.history import TransactionOutcome, parse_history
from coterie.transactions.schemes.scheduler import Attempt, Found
from coterie.transactions.store.local import LocalExecutor
from tests.transactions.anarchy import Anarchy
from tests.transactions.jumbled import FORMS, assert_idle, jumbled, scheduler_of

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Declaration
    from coterie.transactions.store.executor import Soon

KEYS = ("a", "b", "c", "d")
SEEDS = 150


class GivenUpError(Exception):
    """What users raise to get out of a transaction."""


async def work(t: Transaction, dice: random.Random) -> None:
    """Do up to five things at random, and let others go on in between."""
    for _ in range(dice.randint(1, 5)):
        key = dice.choice(KEYS)
        match dice.randrange(8):
            case 0 | 1 | 2:
                await t.get(key, for_update=dice.random() < 0.3)
            case 3 | 4 | 5:
                await t.put(key, dice.randrange(1_000_000))
            case 6:
                await t.delete(key)
            case _:
                low, high = sorted(dice.sample([*KEYS, "e"], 2))
                await t.scan(low, high, limit=dice.choice([None, 1, 2]))
        for _ in range(dice.randrange(3)):
            await asyncio.sleep(0)
        if dice.random() < 0.02:
            raise GivenUpError
        if dice.random() < 0.02:
            t.abort()
            return


async def client(store: Store, dice: random.Random) -> None:
    for _ in range(6):
        script = dice.randrange(1 << 30)

        async def again(t: Transaction, script: int = script) -> None:
            await work(t, random.Random(f"{script}/{t.failures}"))

        with contextlib.suppress(GivenUpError, Conflict):
            await store.run(again, tries=12)


async def storm(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    tasks = [asyncio.create_task(client(store, random.Random(dice.random()))) for _ in range(4)]
    for _ in range(dice.randrange(4)):
        for _ in range(dice.randrange(50)):
            await asyncio.sleep(0)
        dice.choice(tasks).cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def run_storm(store: Store, seed: int) -> None:
    jumbled(lambda: storm(store, seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "variant"), FORMS)
def test_every_storm_is_serializable_and_leaves_nothing_behind(scheme: str, variant: str) -> None:
    """2.0 c: whoever can go on may be the next to, wherever a transaction waits."""
    committed = refused = 0
    for seed in range(SEEDS):
        store = Store(scheme, variant=variant, record=True)
        run_storm(store, seed)
        report = check(store.history())
        assert report.serializable, f"seed {seed}: {report}"
        assert_idle(store)
        committed += store.counts.committed
        refused += store.counts.refused
    assert committed > 10 * SEEDS
    assert (refused == 0) == (scheme == "conservative")


def agrees_with_real_time(store: Store, seed: int) -> bool:
    """Run a storm; tell whether its order is also that of who had ended before who began."""
    run_storm(store, seed)
    history = store.history()
    assert check(history).serializable, f"seed {seed}"
    return check(history, real_time=True).serializable is True


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "variant"), FORMS)
def test_the_order_agrees_with_real_time(scheme: str, variant: str) -> None:
    """2.0 j: in one process also by schemes that order by stamps, for stamps grow."""
    for seed in range(40):
        store = Store(scheme, variant=variant, record=True)
        assert agrees_with_real_time(store, seed), f"seed {seed}"


class Behind(LocalExecutor):
    """Every other stamp is of somebody whose clock is behind, as if there were two sites."""

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        self._time += 1
        behind = self._time % 2
        stamp = Stamp(100 + self._time - 15 * behind, 1 + behind)
        attempt = Attempt(f"T{self._time}", stamp, stamp, failures, declaration)
        self.scheduler.begin(attempt, [])
        return attempt


@pytest.mark.slow
def test_a_clock_that_is_behind_contradicts_real_time_and_nothing_else() -> None:
    """2.0 j, the other half: still serializable, but not in the order in which things happened."""
    found = 0
    for seed in range(40):
        store = Store(Behind(scheduler_of(Store("multiversion"))), record=True)
        found += not agrees_with_real_time(store, seed)
    assert found > 10


def test_the_same_seed_makes_the_same_run() -> None:
    runs = []
    for _ in range(2):
        store = Store(record=True)
        run_storm(store, 1)
        runs.append(store.history_lines())
    assert runs[0] == runs[1]
    assert len(runs[0]) > 1000


def test_the_lines_tell_the_same_as_the_history() -> None:
    for seed in range(20):
        store = Store("multiversion", record=True)
        run_storm(store, seed)
        read, told = parse_history(store.history_lines()), store.history()
        assert list(read.transactions) == list(told.transactions)
        assert check(read) == check(told)
        ends = [transaction.outcome for transaction in told.transactions.values()]
        assert (
            ends.count(TransactionOutcome.COMMITTED) <= store.counts.committed
        )  # some did nothing
        assert TransactionOutcome.UNKNOWN not in ends


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "variant"), FORMS)
def test_what_a_scheme_has_forgotten_is_told_as_it_was(scheme: str, variant: str) -> None:
    """Of a key deleted long ago nobody knows the version; the history still tells who read what."""

    async def main() -> None:
        store = Store(scheme, variant=variant, record=True)
        keys = [f"key/{number:04}" for number in range(1200)]
        remembered = []
        for _ in range(3):
            async with store.transaction() as t:
                assert await t.scan() == []
                for key in keys:
                    await t.put(key, key)
            async with store.transaction() as t:
                for key in keys:
                    await t.delete(key)
            async with store.transaction() as t:
                assert await t.get(keys[0]) is None
            remembered.append(len(list(scheduler_of(store).latest())))
        assert min(remembered) < 200
        report = check(store.history())
        assert report.serializable
        assert report.order is not None
        assert list(report.order) == [f"T{number + 1}" for number in range(9)]

    jumbled(main, seed=0)


def refuted(executors: list[LocalExecutor]) -> int:
    count = 0
    for seed, executor in enumerate(executors):
        store = Store(executor, record=True)
        run_storm(store, seed)
        count += not check(store.history()).serializable
    return count


def test_storms_without_a_scheme_are_refuted() -> None:
    assert refuted([LocalExecutor(Anarchy()) for _ in range(20)]) >= 18


class Forgetful(LocalExecutor):
    """Reads again from the scheduler what it has given to somebody else before: a cache."""

    def __init__(self) -> None:
        super().__init__(scheduler_of(Store("multiversion")))
        self.cache: dict[str, Found] = {}

    def read(self, name: str, key: str, *, update: bool = False) -> Soon[Found]:
        if key in self.cache and self.cache[key].transaction != name:
            cached = self.cache.pop(key)
            return Found(name, key, cached.value, cached.number)
        found = super().read(name, key, update=update)
        if isinstance(found, Found):
            self.cache[key] = found
        return found


def test_a_cache_in_front_of_the_scheme_is_noticed() -> None:
    assert refuted([Forgetful() for _ in range(20)]) > 10
