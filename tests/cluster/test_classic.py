"""Algorithms of the catalogue over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.algorithms.mutex.permission.centralized import coordinator_of
from coterie.catalogue import algorithms
from coterie.cluster.classic.engine import ClassicEngine
from coterie.cluster.classic.node import Classic, Program, choose
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from coterie.locks.internals import engine_of
from coterie.process import Mutex
from tests.cluster.local_cluster import document, until, url_of
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from coterie.cluster.membership.config import Config

pytestmark = pytest.mark.usefixtures("open_and_guarded")

CLASSICS = [
    name
    for name, entry in algorithms().items()
    if issubclass(entry.process, Mutex) and name != "leased"
]


@contextlib.asynccontextmanager
async def members(config: Config) -> AsyncIterator[list[locks.Coordinator]]:
    """Run all nodes of a configuration here."""
    async with contextlib.AsyncExitStack() as stack:
        taking = []
        for member in config.membership.members:
            joined = join(config, node=member.name)
            taking.append(await stack.enter_async_context(joined))
        yield taking


def fail(failure: coterie.Unavailable) -> None:
    raise failure


def node_of(coordinator: locks.Coordinator) -> Classic:
    engine = engine_of(coordinator)
    assert isinstance(engine, ClassicEngine)
    return engine.node


def run_turns(config: Config, turns: int) -> list[int]:
    """Let everybody enter so often; gives who entered, in order."""
    entered: list[int] = []
    inside = 0

    async def enter(coordinator: locks.Coordinator, number: int) -> None:
        nonlocal inside
        for _ in range(turns):
            async with coordinator.lock("x") as held:
                inside += 1
                assert inside == 1
                assert held.valid
                entered.append(number)
                await asyncio.sleep(0)
                inside -= 1

    async def main() -> None:
        async with asyncio.timeout(20), members(config) as taking:
            await asyncio.gather(*(enter(one, number) for number, one in enumerate(taking)))

    asyncio.run(main())
    return entered


@pytest.mark.parametrize("name", CLASSICS)
def test_every_mutex_of_the_catalogue_runs_over_sockets(name: str) -> None:
    config = convert(document(4, algorithm=name))
    entered = run_turns(config, turns=5)
    assert sorted(entered) == sorted(list(range(4)) * 5)


def test_a_process_that_has_all_votes_takes_locks_of_its_own() -> None:
    config = convert(document(3, algorithm="weighted", parameters={"votes": "3,1,1"}))
    assert sorted(run_turns(config, turns=3)) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("variant", ["silent", "denied", "failover"])
def test_each_lock_has_a_coordinator_of_its_own(
    monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    config = convert(document(4, algorithm="centralized", variant=variant))

    async def main() -> set[int]:
        chosen: set[int] = set()
        async with members(config) as taking:
            for number in range(20):
                name = f"lock-{number}"
                for member in taking:
                    async with member.lock(name):
                        pass
                processes = [node_of(member).process(name).seat.process for member in taking]
                coordinators = {process.coordinator for process in processes}  # type: ignore[attr-defined]
                assert coordinators == {coordinator_of(name, range(1, 5))}
                chosen |= coordinators
        return chosen

    assert run(monkeypatch, main) == {1, 2, 3, 4}


def test_a_resource_in_the_file_chooses_one_coordinator_for_all() -> None:
    config = convert(document(3, algorithm="centralized", parameters={"resource": "r"}))
    assert choose(config, "x") == choose(config, "y")
    plain = convert(document(3, algorithm="centralized"))
    assert choose(plain, "x") != choose(plain, "y")


def test_who_is_denied_pauses_about_as_long_as_a_try_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fast network nobody waits for a second because somebody else was a moment earlier."""
    config = convert(document(3, algorithm="decentralized"))

    async def main() -> float:
        async with members(config) as taking:
            began = asyncio.get_running_loop().time()

            async def enter(coordinator: locks.Coordinator) -> None:
                for _ in range(5):
                    async with coordinator.lock("x"):
                        await asyncio.sleep(0)

            await asyncio.gather(*(enter(one) for one in taking))
            return asyncio.get_running_loop().time() - began

    assert run(monkeypatch, main) < 1.0


def test_parameters_are_passed_on_and_part_of_the_digest() -> None:
    star = convert(document(4, algorithm="raymond", parameters={"tree": "star"}))
    chain = convert(document(4, algorithm="raymond", parameters={"tree": "chain"}))
    assert len(run_turns(star, turns=2)) == 8
    assert star.membership.digest != chain.membership.digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "remond"}, "did you mean 'raymond'"),
        ({"algorithm": "raymond", "parameters": {"three": "star"}}, "did you mean 'tree'"),
        ({"algorithm": "raymond", "variant": "fast"}, "unknown variant of raymond: 'fast'"),
    ],
)
def test_what_makes_no_sense_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(coterie.ConfigError, match=message):
        convert(document(3, **changes))


@pytest.mark.parametrize(
    ("algorithm", "variant", "facts"),
    [
        ("raymond", "plain", "it assumes reliable links, no crash, and tolerates reordering;"),
        ("centralized", "failover", "it assumes reliable links, and tolerates reordering, crash;"),
    ],
)
def test_what_the_variant_tolerates_is_said_at_the_start(
    algorithm: str, variant: str, facts: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run_turns(convert(document(2, algorithm=algorithm, variant=variant)), turns=1)
    assert f"runs {algorithm} ({variant}): {facts}" in caplog.text


def test_messages_come_once_and_in_order_over_broken_connections() -> None:
    config = convert(document(3, algorithm="ricart-agrawala"))

    async def main() -> None:
        async with asyncio.timeout(20), members(config) as taking:

            async def enter(coordinator: locks.Coordinator) -> None:
                for _ in range(10):
                    async with coordinator.lock("x"):
                        for peer in node_of(coordinator).peers:
                            peer.abort("cut by the test")
                        await asyncio.sleep(0)

            await asyncio.gather(*(enter(one) for one in taking))

    asyncio.run(main())


def test_a_cancelled_wait_does_not_keep_the_lock() -> None:
    config = convert(document(2, algorithm="suzuki-kasami"))

    async def main() -> None:
        async with asyncio.timeout(20), members(config) as (one, other):
            async with one.lock("x"):
                assert await one.holders("x")
                assert await other.lock("x").acquire(blocking=False) is None
                waiting = asyncio.ensure_future(other.lock("x").acquire())
                await until(lambda: node_of(other).processes, "the request")
                waiting.cancel()
            async with other.lock("x"):
                pass
            async with one.lock("x"):
                pass

    asyncio.run(main())


def test_a_lost_node_is_reported_to_those_who_watch_it() -> None:
    wish = document(3, algorithm="centralized", variant="failover", lease=0.2)
    config = convert(wish | {"parameters": {"resource": ""}})  # which picks node a

    async def main() -> None:
        async with asyncio.timeout(20), contextlib.AsyncExitStack() as stack:
            coordinator = Classic(config, "a", Program(failure=fail))
            await coordinator.start()
            clients = [await stack.enter_async_context(join(config, node=name)) for name in "bc"]
            for client in clients:
                async with client.lock("x"):
                    pass
            await coordinator.stop()
            for client in clients:
                async with client.lock("x"):
                    pass

    asyncio.run(main())


def test_the_algorithm_of_1996_goes_on_after_a_crash() -> None:
    times = {"sigma": "0.05", "lambda": "0.05"}
    config = convert(document(7, algorithm="fault-tolerant", parameters=times, lease=0.2))

    async def main() -> None:
        async with asyncio.timeout(20), members(config) as taking:
            for member in taking:
                async with member.lock("x"):
                    pass
            await taking[2].close()
            for member in [*taking[:2], *taking[3:]]:
                async with member.lock("x"):
                    pass

    asyncio.run(main())


def test_programs_outside_the_nodes_are_refused() -> None:
    config = convert(document(2, algorithm="raymond"))

    async def main() -> None:
        async with members(config):
            with pytest.raises(coterie.UsageError, match="take part as one of a, b"):
                async with locks.connect(url_of(config)):
                    pass

    asyncio.run(main())


def test_the_algorithm_of_1996_declares_none_dead_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits for long asks whether the others are there, and gets an answer."""
    times = {"sigma": "0.05", "lambda": "0.05"}
    config = convert(document(3, algorithm="fault-tolerant", parameters=times))

    async def main() -> list[list[int]]:
        async with members(config) as taking:

            async def enter(coordinator: locks.Coordinator) -> None:
                async with coordinator.lock("x"):
                    await passing(5.0)  # many times T_max

            await asyncio.gather(*(enter(one) for one in taking))
            processes = [node_of(one).process("x").seat.process for one in taking]
            return [process.facts()["down"] for process in processes]

    assert run(monkeypatch, main) == [[], [], []]


def test_a_restarted_node_is_refused_and_told_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its new start has forgotten who has the token, and would let in a second process."""
    config = convert(document(3, algorithm="raymond"))
    reason = "node 'a' was restarted: raymond does not tolerate restarts; restart all nodes"

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = join(config, node="a")
            await first.open()
            others = [await stack.enter_async_context(join(config, node=name)) for name in "bc"]
            for member in (first, *others):
                async with member.lock("x"):
                    pass
            held = await others[0].lock("x").acquire()
            assert held
            await first.close()
            with pytest.raises(coterie.Unavailable, match=reason):
                await join(config, node="a").open()
            assert held.valid

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    assert f"refused: {reason}" in caplog.text, "by the others"
    assert f"node a ends: {reason}" in caplog.text


def test_a_node_of_1996_returns_where_disks_count_the_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = {"sigma": "0.05", "lambda": "0.05"}
    wish = document(3, algorithm="fault-tolerant", parameters=times, lease=0.2, data="data")
    config = convert(wish, tmp_path)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = join(config, node="a")
            await first.open()
            others = [await stack.enter_async_context(join(config, node=name)) for name in "bc"]
            for member in (first, *others):
                async with member.lock("x"):
                    pass
            async with others[0].lock("x"):
                await first.close()
                again = await stack.enter_async_context(join(config, node="a"))
                waiting = asyncio.ensure_future(again.lock("x").acquire())
                await passing(3.0)  # it is back, and in nobody's absence may it enter
                assert not waiting.done()
            held = await waiting
            assert held
            await held.release()
            for member in (again, *others):
                async with member.lock("x"), member.lock("another"):
                    pass
            processes = [node_of(one).process("x").seat.process for one in (again, *others)]
            assert [process.facts()["down"] for process in processes] == [[], [], []]

    run(monkeypatch, main)


def test_all_nodes_of_1996_start_again_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = {"sigma": "0.05", "lambda": "0.05"}
    wish = document(3, algorithm="fault-tolerant", parameters=times, lease=0.2, data="data")
    config = convert(wish, tmp_path)

    async def main() -> None:
        for _ in range(3):
            async with members(config) as taking:

                async def enter(coordinator: locks.Coordinator) -> None:
                    async with coordinator.lock("x"):
                        pass

                await asyncio.gather(*(enter(one) for one in taking))

    run(monkeypatch, main)


def test_without_a_data_directory_a_node_of_1996_is_refused_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = convert(document(3, algorithm="fault-tolerant"))

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = join(config, node="a")
            await first.open()
            for name in "bc":
                await stack.enter_async_context(join(config, node=name))
            async with first.lock("x"):
                pass
            await first.close()
            with pytest.raises(
                coterie.Unavailable, match="restarts of nodes without a data directory"
            ):
                await join(config, node="a").open()

    run(monkeypatch, main)
