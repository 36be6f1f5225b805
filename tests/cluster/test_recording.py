"""A live cluster of a classic algorithm is recorded, and fresh processes do the same again."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cli import run as run_command
from coterie.cluster.classic.order import NodePart, merge
from coterie.cluster.classic.record import RecordedCluster, record_cluster
from coterie.cluster.classic.tape import RECORDS_MAX, Recording
from coterie.cluster.membership.config import convert, load
from coterie.diagram.lifelines import LaneCondition, history
from coterie.lab.play.trials.recorded import show_recorded
from coterie.lab.scenario.replay import replay
from coterie.trace import AnyRecord, Called, Delivered, Sent, Started, parse_trace
from tests.cluster.local_cluster import document
from tests.cluster.test_classic import members

if TYPE_CHECKING:
    from pathlib import Path

    from coterie import locks
    from coterie.cluster.membership.config import Config


def recorded(config: Config, *, used_before: bool = False, seconds: float = 0.2) -> RecordedCluster:
    """Record a cluster in which each node takes the lock again and again, from the first tick on."""
    begun = asyncio.Event()
    over = asyncio.Event()

    async def enter(coordinator: locks.Coordinator) -> None:
        await begun.wait()
        while not over.is_set():
            async with coordinator.lock("x"):
                await asyncio.sleep(0)

    async def main() -> RecordedCluster:
        async with asyncio.timeout(30), members(config) as taking:
            if used_before:
                async with taking[0].lock("x"):
                    pass
            async with asyncio.TaskGroup() as group:
                for one in taking:
                    group.create_task(enter(one))
                found = await record_cluster(
                    config.membership, config.security, seconds, lambda _: begun.set()
                )
                over.set()
            return found

    return asyncio.run(main())


@pytest.mark.parametrize("name", ["lamport", "maekawa", "token-ring", "centralized", "raymond"])
def test_what_was_recorded_is_done_again_by_fresh_processes(name: str) -> None:
    found = recorded(convert(document(3, algorithm=name)))
    assert found.locks == ["x"]
    trace = found.trace("x")
    assert sum(isinstance(record, Delivered) for record in trace.records) > 3
    replay(trace)
    replay(parse_trace(trace.to_lines()))
    assert show_recorded(trace).playable
    stays = [stay for stay in history(trace).stays if stay.condition is LaneCondition.INSIDE]
    assert all(a.end <= b.begin for a, b in itertools.pairwise(stays))


def test_a_lock_that_was_in_use_before_is_looked_at_but_not_played() -> None:
    found = recorded(convert(document(3, algorithm="ricart-agrawala")), used_before=True)
    trace = found.trace("x")
    parse_trace(trace.to_lines())  # nothing arrives that was not sent
    shown = show_recorded(trace)
    assert not shown.playable
    assert "looked at, not played" in shown.notes[-1]


def test_the_command_writes_a_trace_of_the_busiest_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = convert(document(3, algorithm="ricart-agrawala"))
    file, trace = tmp_path / "coterie.toml", tmp_path / "x.jsonl"
    nodes = [f'[nodes.{x.name}]\naddress = "{x.address}"' for x in config.membership.members]
    file.write_text("\n".join(['algorithm = "ricart-agrawala"', 'cluster = "test"', *nodes]))
    over = asyncio.Event()

    async def enter(coordinator: locks.Coordinator) -> None:
        while not over.is_set():
            async with coordinator.lock("x"):
                await asyncio.sleep(0)

    async def main() -> int:
        async with asyncio.timeout(30), members(load(file)) as taking, asyncio.TaskGroup() as group:
            for one in taking:
                group.create_task(enter(one))
            arguments = ["record", "300ms", "--url", f"coterie:{file}", "--trace", str(trace)]
            try:
                return await asyncio.to_thread(run_command, arguments)
            finally:
                over.set()

    assert asyncio.run(main()) == 0
    assert "x: " in capsys.readouterr().err
    assert parse_trace(trace.read_text()).header.title == "x on test, 0.3 s recorded"


def test_nothing_is_kept_when_the_asker_has_gone() -> None:
    config = convert(document(2, algorithm="lamport"))

    async def main() -> None:
        async with asyncio.timeout(30), members(config) as taking:
            for _ in range(6):  # more than a node records at a time
                found = await record_cluster(
                    config.membership, config.security, 0.001, lambda _: None
                )
                assert not any(node.trouble for node in found.nodes)
            async with taking[0].lock("x"):
                pass

    asyncio.run(main())


def test_a_cluster_that_is_not_there_is_said_to_be_unavailable() -> None:
    config = convert(document(2, algorithm="lamport"))
    with pytest.raises(coterie.Unavailable, match="is recorded"):
        asyncio.run(record_cluster(config.membership, config.security, 1.0, lambda _: None))


def letter(time: float, number: int) -> Sent:
    return Sent(time, number, 1, 2, ["Reply"], "Reply")


def test_an_arrival_stands_behind_its_sending_whatever_the_clocks_show() -> None:
    first: list[AnyRecord] = [Called(5.0, 1, "acquire"), letter(5.0, 7)]
    second: list[AnyRecord] = [Delivered(1.0, 7, 1, 2), Called(1.5, 2, "acquire")]
    merged = merge([NodePart(first, {2: 6}), NodePart(second, {1: 0})])
    assert merged == [
        Called(5.0, 1, "acquire"),
        Sent(5.0, 1, 1, 2, ["Reply"], "Reply"),
        Delivered(5.0, 1, 1, 2),
        Called(5.0, 2, "acquire"),
    ]


def test_what_was_under_way_at_the_beginning_is_left_out() -> None:
    arrived: list[AnyRecord] = [Delivered(1.0, 6, 1, 2), Called(2.0, 2, "acquire")]
    assert merge([NodePart([], {2: 6}), NodePart(arrived, {1: 0})]) == [Called(2.0, 2, "acquire")]


def test_what_follows_from_a_message_after_the_end_is_left_out() -> None:
    """Node 1 was asked before it sent letter 7; node 2 has answered it, and node 1 has that answer not."""
    late: list[AnyRecord] = [
        Called(1.0, 2, "acquire"),
        Delivered(2.0, 7, 1, 2),
        Called(3.0, 2, "r"),
    ]
    assert merge([NodePart([], {2: 6}), NodePart(late, {1: 0})]) == [Called(1.0, 2, "acquire")]


def test_a_recording_has_bounded_memory() -> None:
    recording = Recording()
    for _ in range(RECORDS_MAX + 3):
        recording.add("x", Started(0.0, 1))
    assert (len(recording.records), recording.left_out) == (RECORDS_MAX, 3)
    assert len(recording.take(1_000)) == 1_000
