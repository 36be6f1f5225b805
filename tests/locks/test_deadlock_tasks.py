"""Tasks of one process that wait for each other: noticed before others are asked, on any engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from coterie.errors import DeadlockDetected
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.deadlocks.waits import Waits
from tests.harness import broken_class
from tests.locks.memory import MemoryEngine, coordinator, in_loop, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie import Coordinator
    from coterie.locks import Acquirable
    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner


class Stage:
    """Tasks that hold something, and then want something else."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.c: Coordinator = coordinator(self.engine)
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self._wishes: dict[str, asyncio.Future[Acquirable[Any]]] = {}

    async def hold(self, name: str, *locks: str) -> None:
        """Start a task that holds these locks."""
        holds = asyncio.Event()
        wish = self._wishes[name] = asyncio.get_running_loop().create_future()
        self.tasks[name] = asyncio.create_task(self._act(locks, holds, wish), name=name)
        await holds.wait()

    async def want(self, name: str, wanted: str | Acquirable[Any]) -> None:
        """Let a task ask, and see it wait or end."""
        self._wishes[name].set_result(self.c.lock(wanted) if isinstance(wanted, str) else wanted)
        await until(lambda: self.tasks[name].done() or self.is_blocked(name))

    async def _act(
        self, locks: tuple[str, ...], holds: asyncio.Event, wish: asyncio.Future[Acquirable[Any]]
    ) -> str:
        async with self.c.lock_all(*locks):
            holds.set()
            try:
                async with await wish as held:
                    return f"had {held.name}"
            except DeadlockDetected as error:
                return f"gave way in a {error.kind} of {len(error.members)}"

    def is_blocked(self, name: str) -> bool:
        return self.engine.waits.is_blocked(self.tasks[name])

    async def outcomes(self) -> dict[str, str]:
        await asyncio.gather(*self.tasks.values())
        assert not self.engine.waits.blocked()
        assert not any(self.engine.queues.values()), "no request is left behind"
        return {name: task.result() for name, task in self.tasks.items()}


def staged(play: Callable[[Stage], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test with a stage of its own."""

    async def test() -> None:
        stage = Stage()
        async with stage.c:
            await play(stage)

    return in_loop(test)


@staged
async def test_two_tasks_that_cross_locks(stage: Stage) -> None:
    await stage.hold("ann", "a")
    await stage.hold("bob", "b")
    await stage.want("ann", "b")
    await stage.want("bob", "a")
    assert await stage.outcomes() == {"ann": "had b", "bob": "gave way in a cycle of 2"}


@staged
async def test_a_ring_of_three_takes_one_victim(stage: Stage) -> None:
    for name, lock in (("ann", "a"), ("bob", "b"), ("eve", "c")):
        await stage.hold(name, lock)
    await stage.want("ann", "b")
    await stage.want("bob", "c")
    assert stage.is_blocked("ann")
    assert stage.is_blocked("bob")
    await stage.want("eve", "a")
    assert await stage.outcomes() == {
        "ann": "had b",
        "bob": "had c",
        "eve": "gave way in a cycle of 3",
    }


@staged
async def test_a_cycle_with_an_escape_is_no_deadlock_and_closing_it_makes_one(stage: Stage) -> None:
    for name, lock in (("ann", "a"), ("bob", "b"), ("eve", "c")):
        await stage.hold(name, lock)
    await stage.want("ann", stage.c.lock_any("b", "c"))
    await stage.want("bob", "a")
    assert stage.is_blocked("ann"), "eve runs and may give her c"
    assert stage.is_blocked("bob")
    await stage.want("eve", "b")
    assert await stage.outcomes() == {
        "ann": "had c",
        "bob": "had a",
        "eve": "gave way in a knot of 3",
    }


@staged
async def test_all_of_several_cross_those_who_take_them_one_by_one(stage: Stage) -> None:
    """Among themselves they never do, for they go by the order of the names."""
    await stage.hold("ann", "b")
    await stage.hold("bob", "x")
    await stage.want("bob", stage.c.lock_all("b", "a"))
    assert stage.engine.queues["a"], "bob keeps a while he waits for b"
    await stage.want("ann", "a")
    assert await stage.outcomes() == {"bob": "had b,a", "ann": "gave way in a cycle of 2"}


@staged
async def test_all_of_several_inside_any_of_several_give_back_what_they_have(stage: Stage) -> None:
    await stage.hold("bob", "y", "z")
    await stage.hold("ann", "a")
    await stage.want("bob", "a")
    await stage.want("ann", stage.c.lock_any(stage.c.lock_all("x", "y"), stage.c.lock("z")))
    assert await stage.outcomes() == {"bob": "had a", "ann": "gave way in a knot of 2"}


@staged
async def test_nested_attempts_are_one_wait_for_any_of_what_they_stand_in_line_for(
    stage: Stage,
) -> None:
    await stage.hold("bob", "y", "z")
    await stage.hold("ann", "a")
    await stage.want("ann", stage.c.lock_any(stage.c.lock_all("x", "y"), stage.c.lock("z")))
    wait = stage.engine.waits.describe(stage.tasks["ann"]).wait
    assert wait is not None
    assert sorted(wait.condition.targets()) == [Wanted("y"), Wanted("z")]
    assert wait.condition.needed == 1
    assert stage.engine.queues["x"], "it has taken x and keeps it while it waits for y"
    await stage.want("bob", "b")
    assert (await stage.outcomes())["ann"] in ("had x,y", "had z")


@staged
async def test_one_of_one_of_several_is_one_of_several(stage: Stage) -> None:
    await stage.hold("bob", "y", "z")
    await stage.hold("ann", "a")
    await stage.want("ann", stage.c.lock_any(stage.c.lock_any("y", "z")))
    await stage.want("bob", "a")
    assert await stage.outcomes() == {"ann": "had z", "bob": "gave way in a knot of 2"}


async def ask_for_an_escape(stage: Stage) -> bool:
    """Ann asks for b, where she would be stuck, and in the same breath for c; is she hurt?"""
    for name, lock in (("ann", "a"), ("bob", "b"), ("eve", "c")):
        await stage.hold(name, lock)
    await stage.want("bob", "a")
    await stage.want("ann", stage.c.lock_any("b", "c"))
    await stage.want("eve", "x")
    return (await stage.outcomes())["ann"].startswith("gave way")


async def go_on_between(stage: Stage) -> bool:
    """Ann is given x and has not asked for y yet; is she taken to wait for z alone?"""
    await stage.hold("bob", "z")
    await stage.hold("ann", "a")
    await stage.c.lock("x").acquire()
    await stage.want("ann", stage.c.lock_any(stage.c.lock_all("x", "y"), stage.c.lock("z")))
    stage.engine.lose("x")
    assert stage.engine.queues["x"][0].token, "it is hers, and she has had no turn yet"
    seems_stuck = stage.is_blocked("ann")
    await stage.want("bob", "x2")
    assert (await stage.outcomes())["ann"] == "had x,y"
    return seems_stuck


@staged
async def test_who_has_not_asked_for_all_alternatives_yet_is_not_blocked(stage: Stage) -> None:
    assert not await ask_for_an_escape(stage)


@staged
async def test_who_has_been_granted_one_of_several_is_not_blocked(stage: Stage) -> None:
    assert not await go_on_between(stage)


MUTANTS = {
    "attempts that have not asked yet are overlooked": (
        (" or len(waiter.claims) < self._attempts.get(owner, 1)", ""),
        ask_for_an_escape,
    ),
    "grants that are not taken yet are overlooked": (
        ("return not any(claim.granted.done() for claim in waiter.claims)", "return True"),
        go_on_between,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_hurts_somebody(name: str) -> None:
    (old, new), play = MUTANTS[name]
    kind = broken_class(Waits, old, new)

    async def test(stage: Stage) -> None:
        stage.engine.waits = kind("broken", stage.engine.blockers)
        assert await play(stage)

    staged(test)()


@staged
async def test_permits_are_waited_for_like_any_of_several(stage: Stage) -> None:
    await stage.hold("ann", "s/permit-1")
    await stage.hold("bob", "s/permit-2")
    await stage.hold("eve", "e")
    await stage.want("eve", stage.c.semaphore("s", 2))
    await stage.want("ann", "e")
    assert stage.is_blocked("ann"), "bob runs and may give back his permit"
    await stage.want("bob", "e")
    outcomes = await stage.outcomes()
    assert outcomes.pop("bob") == "gave way in a knot of 3"
    assert outcomes == {"ann": "had e", "eve": "had s/permit-2"}


@staged
async def test_a_wait_with_a_timeout_is_a_deadlock_as_well(stage: Stage) -> None:
    await stage.hold("ann", "a")
    await stage.hold("bob", "b")
    await stage.want("ann", stage.c.lock("b", timeout=60))
    await stage.want("bob", stage.c.lock("a", timeout=60))
    assert await stage.outcomes() == {"ann": "had b", "bob": "gave way in a cycle of 2"}


@staged
async def test_a_single_try_waits_for_nobody(stage: Stage) -> None:
    await stage.hold("ann", "a")
    async with stage.c.lock("b"):
        await stage.want("ann", "b")
        assert await stage.c.lock("a").acquire(blocking=False) is None
        assert await stage.c.lock_any("a").acquire(timeout=0) is None
    assert await stage.outcomes() == {"ann": "had b"}


@staged
async def test_locks_that_are_had_at_once_are_not_registered(stage: Stage) -> None:
    called: list[object] = []
    stage.engine.waits.begin = lambda *given: called.append(given)  # type: ignore[method-assign] # a spy
    async with stage.c.lock("a"), stage.c.lock_any("b", "c"), stage.c.lock_all("d", "e"):
        pass
    assert not called


@staged
async def test_a_wait_that_is_cancelled_leaves_nothing_and_opens_the_circle(stage: Stage) -> None:
    await stage.hold("ann", "a")
    await stage.hold("bob", "b")
    await stage.want("ann", "b")
    ann = stage.tasks.pop("ann")
    ann.cancel()
    await stage.want("bob", "a")
    await asyncio.wait({ann})
    assert await stage.outcomes() == {"bob": "had a"}


@staged
async def test_who_is_cancelled_and_chosen_in_the_same_turn_leaves_nothing(
    stage: Stage,
) -> None:
    ages = iter((2, 1))
    stage.engine.waits.clock = lambda: next(ages)
    await stage.hold("ann", "a")
    async with stage.c.lock("b"):
        await stage.want("ann", "b")
        ann, begin = stage.tasks.pop("ann"), stage.engine.waits.begin

        def cancel_and_begin(owner: Owner, claim: Claim) -> None:
            ann.cancel()  # takes effect in a later turn than the choice
            begin(owner, claim)

        stage.engine.waits.begin = cancel_and_begin  # type: ignore[method-assign] # a spy
        assert await stage.c.lock("a").acquire(), "ann was chosen, as the younger"
        assert stage.engine.waits.victims == 1
        await asyncio.wait({ann})
        assert ann.cancelled()
        await stage.c.lock("a").release()
    await stage.outcomes()


@staged
async def test_who_has_given_way_in_vain_three_times_is_spared(stage: Stage) -> None:
    """As long as another has done so less often; and once it got what it wanted, all is forgotten."""
    ages = iter(number % 2 for number in range(1, 1000))  # of the first to ask 1, of the other 0
    stage.engine.waits.clock = lambda: next(ages)
    young = asyncio.current_task()
    outcomes = []
    for _ in range(4):
        async with stage.c.lock("a"):
            await stage.hold("old", "b")
            asking = asyncio.create_task(stage.want("old", "a"))
            try:
                await stage.c.lock("b").acquire()
                outcomes.append("had")
                await stage.c.lock("b").release()
            except DeadlockDetected:
                outcomes.append("gave way")
            await asking
        await asyncio.gather(*stage.tasks.values())
    assert outcomes == ["gave way"] * 3 + ["had"]
    assert young not in stage.engine.waits.picks


async def cross(c: Coordinator, first: str, second: str, ready: asyncio.Barrier) -> str:
    async with c.lock(first):
        await ready.wait()
        try:
            async with c.lock(second):
                return "had"
        except DeadlockDetected:
            return "gave way"


@in_loop
async def test_switched_off_nobody_is_told() -> None:
    engine = MemoryEngine()
    engine.waits.detects = False
    async with coordinator(engine) as c:
        ready = asyncio.Barrier(2)
        crossing: list[Coroutine[Any, Any, str]] = [
            cross(c, "a", "b", ready),
            cross(c, "b", "a", ready),
        ]
        tasks = [asyncio.ensure_future(work) for work in crossing]
        await until(lambda: len(engine.waits.blocked()) == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
