"""Deadlocks over several programs of a real cluster: nodes and programs talk over sockets."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.client.metrics import participant_metrics
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from coterie.errors import DeadlockDetected
from coterie.locks.deadlocks import search as deadlocks
from coterie.locks.deadlocks.collection import Suspicion
from coterie.locks.internals import engine_of
from coterie.locks.leases import blockers
from coterie.locks.leases.owner_query import OwnerQuery
from coterie.telemetry.text import render
from tests.cluster.local_cluster import document, running, until, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from coterie.cluster.client.engine import ClusterGroup
    from coterie.cluster.node import Node
    from coterie.locks import Acquirable
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.leases.frames import AskOwner, OwnerReport

pytestmark = pytest.mark.usefixtures("open_and_guarded")

QUESTIONS = ("FindOwners", "Owners", "AskOwner", "OwnerReport")


class Program:
    """A program connected to the cluster, whose task holds one thing and then wants another."""

    def __init__(self, c: locks.Coordinator) -> None:
        self.c = c
        engine = engine_of(c)
        assert isinstance(engine, ClusterEngine)
        self.engine = engine
        self.task: asyncio.Task[str]
        self._wish: asyncio.Future[Acquirable[Any]]

    async def hold(self, *locks: str | Acquirable[Any]) -> None:
        holds = asyncio.Event()
        self._wish = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._act(locks, holds, self._wish))
        await holds.wait()

    def want(self, wanted: str | Acquirable[Any], timeout: float | None = None) -> None:
        lock = self.c.lock(wanted, timeout=timeout) if isinstance(wanted, str) else wanted
        self._wish.set_result(lock)

    async def waits(self) -> None:
        await until(lambda: self.engine.waits.is_blocked(self.task), "the task to wait")

    async def _act(
        self,
        locks: tuple[str | Acquirable[Any], ...],
        holds: asyncio.Event,
        wish: asyncio.Future[Acquirable[Any]],
    ) -> str:
        async with self.c.lock_all(*locks):
            holds.set()
            try:
                # Not by `async with`, which asks for the holders when it gives up.
                held = await (await wish).acquire()
            except DeadlockDetected as error:
                return f"gave way in a {error.kind} of {len(error.members)}"
            if held is None:
                return "gave up"
            await held.release()
            return f"had {held.name}"

    def questions(self) -> int:
        """Count the frames that were sent to look for deadlocks."""
        return sum(self.engine.group.supply.sent[kind] for kind in QUESTIONS)


class World:
    """A running cluster and its programs."""

    def __init__(self, nodes: list[Node], programs: list[Program]) -> None:
        self.nodes = nodes
        self.programs = programs

    async def outcomes(self) -> list[str]:
        return list(await asyncio.gather(*(program.task for program in self.programs)))

    def frames(self) -> int:
        """Count all frames that were sent to look for deadlocks."""
        voted = sum(node.voting.programs.sent[kind] for node in self.nodes for kind in QUESTIONS)
        return voted + sum(program.questions() for program in self.programs)

    async def is_clean(self) -> None:
        """See that no request is left at any voter."""
        await until(
            lambda: (
                not any(
                    ballot.queue
                    for node in self.nodes
                    for ballot in node.voting.voter.ballots.values()
                )
            ),
            "all queues to be empty",
        )


@contextlib.asynccontextmanager
async def world(
    programs: int, parameters: tuple[str, ...] = (), size: int = 3, **changes: Any
) -> AsyncIterator[World]:
    config = convert(document(size, **({"lease": 5.0} | changes)))
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(config))
        url = url_of(config, *parameters)
        opened = [
            Program(await stack.enter_async_context(locks.connect(url))) for _ in range(programs)
        ]
        yield World(nodes, opened)


def in_world(
    test: Callable[[World], Awaitable[None]],
    programs: int,
    parameters: tuple[str, ...] = (),
    **changes: Any,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), world(programs, parameters, **changes) as made:
            await test(made)

    asyncio.run(main())


def test_of_two_programs_that_cross_locks_one_gives_way_and_the_other_goes_on() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        await ann.hold("a")
        await bob.hold("b")
        ann.want("b")
        await ann.waits()
        bob.want("a")
        assert sorted(await made.outcomes()) in (
            ["gave way in a cycle of 2", "had a"],
            ["gave way in a cycle of 2", "had b"],
        )
        await made.is_clean()

    in_world(test, programs=2)


@pytest.mark.parametrize(
    ("size", "changes"),
    [(5, {"policy": "quorum"}), (7, {"coterie": "plane"}), (4, {"coterie": "grid"})],
    ids=["majority", "plane", "grid"],
)
def test_the_holder_is_found_where_only_some_voters_know_it(
    size: int, changes: dict[str, Any]
) -> None:
    async def test(made: World) -> None:
        for program, lock in zip(made.programs, "abc", strict=True):
            await program.hold(lock)
        for program, lock in zip(made.programs, "bca", strict=True):
            program.want(lock)
        assert sum(outcome.startswith("gave way") for outcome in await made.outcomes()) == 1

    in_world(test, programs=3, size=size, **changes)


def test_it_is_found_while_a_node_is_down() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        await ann.hold("a")
        await bob.hold("b")
        await made.nodes[1].stop()
        ann.want("b")
        bob.want("a")
        assert sum(outcome.startswith("gave way") for outcome in await made.outcomes()) == 1

    in_world(test, programs=2)


def test_nodes_that_take_locks_themselves_are_asked_like_others() -> None:
    config = convert(document(3, lease=5.0))

    async def main() -> None:
        async with asyncio.timeout(20), contextlib.AsyncExitStack() as stack:
            joined = [
                await stack.enter_async_context(join(config, node=name, new_cluster=True))
                for name in "abc"
            ]
            made = World([], [Program(c) for c in joined])
            for program, lock in zip(made.programs, "abc", strict=True):
                await program.hold(lock)
            for program, lock in zip(made.programs, "bca", strict=True):
                program.want(lock)
            assert sum(outcome.startswith("gave way") for outcome in await made.outcomes()) == 1

    asyncio.run(main())


def test_the_error_names_the_cycle_with_owners_locks_and_tokens() -> None:
    async def test(made: World) -> None:
        ann, bob = (program.c for program in made.programs)
        caught: list[DeadlockDetected] = []
        ready = asyncio.Barrier(2)

        async def cross(c: locks.Coordinator, first: str, second: str) -> int:
            async with c.lock(first) as held:
                await ready.wait()
                try:
                    async with c.lock(second):
                        pass
                except DeadlockDetected as error:
                    caught.append(error)
                return held.token

        tokens = await asyncio.gather(cross(ann, "a", "b"), cross(bob, "b", "a"))
        (error,) = caught
        members = {member.waits_for: member for member in error.members}
        assert members["b",].holds == {"a": tokens[0]}
        assert members["a",].holds == {"b": tokens[1]}
        assert error.definite
        assert "a is held by" in str(error)
        assert "b is held by" in str(error)

    in_world(test, programs=2)


def test_a_ring_of_three_programs_takes_one_victim() -> None:
    async def test(made: World) -> None:
        for program, lock in zip(made.programs, "abc", strict=True):
            await program.hold(lock)
        for program, lock in zip(made.programs, "bca", strict=True):
            program.want(lock)
        outcomes = await made.outcomes()
        assert outcomes.count("gave way in a cycle of 3") == 1
        assert len([outcome for outcome in outcomes if outcome.startswith("had")]) == 2
        await made.is_clean()

    in_world(test, programs=3)


def test_a_cycle_through_two_tasks_of_one_program_and_another_program() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        second = Program(ann.c)
        await ann.hold("a")
        await second.hold("c")
        await bob.hold("b")
        ann.want("b")
        bob.want("c")
        second.want("a")
        outcomes = await asyncio.gather(ann.task, second.task, bob.task)
        assert outcomes.count("gave way in a cycle of 3") == 1
        await made.is_clean()

    in_world(test, programs=2)


def test_a_cycle_with_an_escape_is_no_deadlock_and_closing_it_makes_one() -> None:
    async def test(made: World) -> None:
        ann, bob, eve = made.programs
        for program, lock in zip(made.programs, "abc", strict=True):
            await program.hold(lock)
        ann.want(ann.c.lock_any("b", "c"))
        bob.want("a")
        await ann.waits()
        await bob.waits()
        searches = [program.engine.waits for program in (ann, bob)]
        await until(lambda: all(waits.searches > 1 for waits in searches), "two searches of each")
        assert not ann.task.done()
        assert not bob.task.done()
        eve.want("b")
        outcomes = await made.outcomes()
        assert len([outcome for outcome in outcomes if outcome.startswith("gave way")]) == 1
        await made.is_clean()

    in_world(test, programs=3)


def test_locks_with_leases_of_their_own_are_part_of_the_circle() -> None:
    """For each lease a program joins the cluster once more; its tasks are the same for all."""

    async def test(made: World) -> None:
        ann, bob = made.programs
        ready = asyncio.Barrier(2)

        async def cross(first: locks.Lock, second: locks.Lock) -> str:
            async with first:
                await ready.wait()
                try:
                    async with second:
                        return "had"
                except DeadlockDetected:
                    return "gave way"

        outcomes = await asyncio.gather(
            cross(ann.c.lock("a", lease=0.7), ann.c.lock("b")),
            cross(bob.c.lock("b"), bob.c.lock("a", lease=0.8)),
        )
        assert sorted(outcomes) == ["gave way", "had"]
        await made.is_clean()

    in_world(test, programs=2)


def test_switched_off_they_wait_until_their_patience_ends() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        await ann.hold("a")
        await bob.hold("b")
        ann.want("b", timeout=0.3)
        bob.want("a", timeout=0.3)
        outcomes = await made.outcomes()
        assert "gave up" in outcomes
        assert not any(outcome.startswith("gave way") for outcome in outcomes)
        assert ann.questions() == bob.questions() == 0

    in_world(test, programs=2, parameters=("deadlock-detection=off",))


def test_the_file_and_the_url_say_whether_a_program_detects(tmp_path: Path) -> None:
    def detects(url: str) -> bool:
        return engine_of(locks.connect(url)).waits.detects

    assert detects("coterie://a:1")
    assert detects("coterie://a:1?deadlock-detection=on")
    assert not detects("coterie://a:1?deadlock-detection=off")
    with pytest.raises(
        coterie.UsageError, match="deadlock-detection must be on or off, got 'maybe'"
    ):
        locks.connect("coterie://a:1?deadlock-detection=maybe")
    path = tmp_path / "coterie.toml"
    path.write_text('[nodes.a]\naddress = "127.0.0.1:1"\n')
    assert detects(f"coterie:{path}")
    path.write_text('deadlock-detection = false\n[nodes.a]\naddress = "127.0.0.1:1"\n')
    assert not detects(f"coterie:{path}")
    assert not engine_of(join(path, node="a")).waits.detects


def test_whoever_does_not_detect_is_not_chosen() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        deaf = ann.engine.waits
        deaf.detects = False
        deaf.clock = lambda: 1 << 60  # by far the youngest
        await ann.hold("a")
        await bob.hold("b")
        ann.want("b")
        bob.want("a")
        assert await made.outcomes() == ["had b", "gave way in a cycle of 2"]

    in_world(test, programs=2)


def test_one_that_has_waited_long_is_woken_by_the_search_that_closes_the_circle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The victim would not search again for minutes; the last to wait finds it, and it wakes up."""

    async def test(made: World) -> None:
        ann, bob = made.programs
        ann.engine.waits.clock = lambda: 1 << 60  # the youngest, by a clock that runs ahead
        await ann.hold("a")
        await bob.hold("b")
        with monkeypatch.context() as patience:
            patience.setattr(deadlocks, "FIRST_PAUSE_SECONDS", 600.0)
            ann.want("b")
            await ann.waits()
        bob.want("a")
        assert await made.outcomes() == ["gave way in a cycle of 2", "had a"]
        assert ann.engine.waits.searches == 1

    in_world(test, programs=2)


class Wavering(Program):
    """A program that gives up waiting when it is told to, and keeps what it has."""

    async def _act(
        self,
        locks: tuple[str | Acquirable[Any], ...],
        holds: asyncio.Event,
        wish: asyncio.Future[Acquirable[Any]],
    ) -> str:
        self.enough = asyncio.Event()
        async with self.c.lock_all(*locks):
            holds.set()
            wanted = await wish
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None) as self.patience:
                    await wanted.acquire()
            await self.enough.wait()
        return "gave up"

    def give_up(self) -> None:
        self.patience.reschedule(asyncio.get_running_loop().time())


async def phantom(made: World, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell Ann that Bob holds b and waits for a, which is over when she hears of it.

    She would be the one to give way; tell whether she does.
    """
    ann, bob = made.programs[0], Wavering(made.programs[1].c)
    ann.engine.waits.clock = lambda: 1 << 60
    await ann.hold("a")
    await bob.hold("b")
    bob.want("a")
    await bob.waits()
    hear, told = OwnerQuery.hear, asyncio.Event()
    late: list[asyncio.Task[None]] = []

    async def later(survey: OwnerQuery, answer: OwnerReport) -> None:
        await until(lambda: not bob.engine.waits.blocked(), "bob to go on")
        hear(survey, answer)

    def slowly(survey: OwnerQuery, answer: OwnerReport) -> None:
        if answer.identity == bob.engine.group.supply.identity.name and not told.is_set():
            told.set()
            bob.give_up()
            late.append(asyncio.create_task(later(survey, answer)))
        else:
            hear(survey, answer)

    monkeypatch.setattr(OwnerQuery, "hear", slowly)  # the link from Bob is slow
    ann.want("b")
    await told.wait()
    await until(lambda: ann.task.done() or ann.engine.waits.searches > 1, "the next search")
    bob.enough.set()
    await bob.task
    return (await ann.task).startswith("gave way")


def test_what_is_over_when_it_is_heard_makes_no_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(made: World) -> None:
        assert not await phantom(made, monkeypatch)

    in_world(test, programs=2)


def test_one_pass_alone_would_make_a_victim_of_what_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Suspicion, "stands", lambda *_: True)

    async def test(made: World) -> None:
        assert await phantom(made, monkeypatch)

    in_world(test, programs=2)


def test_a_lock_that_changes_hands_while_the_question_travels_makes_no_victim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The voter names Bob, who has given b to Eve when the question reaches him."""

    async def test(made: World) -> None:
        ann, bob, eve = made.programs
        ann.engine.waits.clock = lambda: 1 << 60
        await ann.hold("a")
        await bob.hold("b")
        answer, asked = blockers.report, asyncio.Event()

        def late(group: ClusterGroup, waits: Waits, question: AskOwner) -> OwnerReport:
            if group is bob.engine.group and not asked.is_set():
                asked.set()
                bob.want("y")  # he gives back b as soon as he has had y
            return answer(group, waits, question)

        monkeypatch.setattr(blockers, "report", late)
        await eve.hold("z")
        eve.want("b")
        await eve.waits()
        ann.want("b")
        assert await made.outcomes() == ["had b", "had y", "had b"]
        assert asked.is_set()
        assert ann.engine.waits.victims == 0

    in_world(test, programs=3)


def test_a_program_that_starts_again_is_not_taken_for_the_victim_it_was() -> None:
    """Nobody sends an abort that could reach the wrong one: who is gone holds nothing."""

    async def test(made: World) -> None:
        ann, bob = made.programs
        bob.engine.waits.clock = lambda: 1 << 60  # he is the one to give way
        await ann.hold("a")
        await bob.hold("b")
        bob.engine.search.stop()  # he does not get to it
        ann.want("b")
        bob.want("a")
        await until(lambda: ann.engine.waits.searches > 1, "ann to have found it twice")
        assert not ann.task.done()
        bob.task.cancel()
        await asyncio.wait({bob.task})
        await bob.c.close()
        await bob.c.open()  # under another identity
        await bob.hold("z")
        assert await ann.task == "had b"
        bob.want("a")
        assert await bob.task == "had a"

    in_world(test, programs=2)


def test_a_user_who_gives_up_while_it_is_found_leaves_no_request() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        for step in range(12):
            await ann.hold("a")
            await bob.hold("b")
            ann.want("b", timeout=0.03 + step * 0.004)
            bob.want("a")
            await asyncio.sleep(0.04 + step * 0.002)
            if step % 2:
                bob.task.cancel()
            await asyncio.wait({ann.task, bob.task})
            await made.is_clean()
            assert not ann.engine.waits.blocked()
            assert not bob.engine.waits.blocked()

    in_world(test, programs=2)


def test_a_lock_that_a_thousand_wait_for_costs_no_more_to_ask_about() -> None:
    """The voter asks its owner and not the queue; the tasks of a program search together."""

    async def wait(c: locks.Coordinator, own: str) -> None:
        async with c.lock(own), c.lock("hot"):
            pass

    async def test(made: World) -> None:
        ann, *others = made.programs
        await ann.hold("hot")
        crowd = [
            asyncio.ensure_future(wait(program.c, f"{place}-{number}"))
            for place, program in enumerate(others)
            for number in range(200)
        ]
        waits = [program.engine.waits for program in others]
        await until(lambda: sum(len(each.blocked()) for each in waits) == 1000, "a thousand")
        await until(lambda: all(each.searches > 1 for each in waits), "two searches of each")
        searches = sum(each.searches for each in waits)
        assert sum(program.questions() for program in others) <= searches, "one question each"
        assert made.frames() <= 5 * searches
        for task in crowd:
            task.cancel()
        await asyncio.wait(crowd)
        ann.want("x")
        await ann.task

    in_world(test, programs=6)


def test_a_crowd_that_holds_nothing_asks_nothing() -> None:
    """Nobody waits for one of them, so they are in no circle."""

    async def test(made: World) -> None:
        ann, bob, eve = made.programs
        await ann.hold("hot")
        crowd = [asyncio.ensure_future(bob.c.lock("hot").acquire()) for _ in range(100)]
        await eve.hold("z")
        eve.want("hot")
        await until(lambda: eve.engine.waits.searches > 1, "one who holds something to search")
        assert bob.engine.waits.searches == 0
        for task in crowd:
            task.cancel()
        await asyncio.wait(crowd)
        ann.want("x")
        await made.programs[0].task
        await eve.task

    in_world(test, programs=3)


def test_a_search_costs_two_passes_of_five_frames_for_each_lock_at_most() -> None:
    """FindOwners, Owners, AskOwner and OwnerReport twice; locks of one holder go together."""

    async def test(made: World) -> None:
        size = len(made.programs)
        for number, program in enumerate(made.programs):
            await program.hold(f"l{number}")
        for number, program in enumerate(made.programs):
            program.want(f"l{(number + 1) % size}")
        await made.outcomes()
        searches = sum(program.engine.waits.searches for program in made.programs)
        assert searches
        assert made.frames() <= 2 * 5 * size * searches

    in_world(test, programs=4)


def test_deadlocks_and_searches_are_counted() -> None:
    async def test(made: World) -> None:
        ann, bob = made.programs
        await ann.hold("a")
        await bob.hold("b")
        ann.want("b")
        bob.want("a")
        await made.outcomes()
        text = "".join(
            render(participant_metrics(program.engine.group, program.engine.waits))
            for program in (ann, bob)
        )
        counts = [
            line.split()[1] for line in text.splitlines() if line[:18] == "coterie_deadlocks_"
        ]
        assert sorted(counts) == ["0", "1"]
        assert 'kind="FindOwners"' in text

    in_world(test, programs=2)
