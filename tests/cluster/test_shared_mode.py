"""Locks of a cluster in shared mode: readers together, writers alone, all in the order they asked."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.cluster.client.metrics import participant_metrics
from coterie.locks.internals import engine_of
from coterie.telemetry.text import render
from tests.cluster.local_cluster import COTERIE, until
from tests.cluster.test_cluster_engine import World, in_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.client.engine import ClusterGroup

pytestmark = pytest.mark.usefixtures("open_and_guarded")


class Task:
    """A task that takes a lock, notes that it is inside, and stays until it is let go."""

    def __init__(self, made: World, program: int, inside: set[Task], *, shared: bool) -> None:
        self.made = made
        self.program = program
        self.shared = shared
        self.held: locks.Held | None = None
        self.inside = inside
        self._go = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        lock = self.made.programs[self.program].lock("x", shared=self.shared)
        async with lock as self.held:
            self.inside.add(self)
            assert len(self.inside) == 1 or all(task.shared for task in self.inside)
            try:
                await self._go.wait()
            finally:
                self.inside.remove(self)

    @property
    def token(self) -> int:
        assert self.held is not None
        return self.held.token

    async def enters(self) -> None:
        await until(lambda: self in self.inside or self.task.done(), "a task to enter")
        if self.task.done():
            self.task.result()

    async def leave(self) -> None:
        self._go.set()
        await self.task


class Line:
    """Makes tasks of programs that want the lock x."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.inside: set[Task] = set()
        self._numbers = itertools.count()

    def group(self, program: int) -> ClusterGroup:
        return self.made.group(program)

    async def reads(self, program: int = 0) -> Task:
        task = Task(self.made, program, self.inside, shared=True)
        await task.enters()
        return task

    async def writes(self, program: int = 0) -> Task:
        task = Task(self.made, program, self.inside, shared=False)
        await task.enters()
        return task

    async def waits(self, program: int, *, shared: bool) -> Task:
        """Let a task ask, and see that it waits, at the voters too if its process has no hold."""
        await self.hear_the_voters(program)
        before = len(self.group(program).waiting())
        task = Task(self.made, program, self.inside, shared=shared)
        await until(lambda: len(self.group(program).waiting()) == before + 1, "a task to wait")
        if before == 0 and not self.group(program).held():
            name = self.made.host(program).identity.name
            await until(lambda: self._lies_with_voters(name), "its request to arrive")
        return task

    async def hear_the_voters(self, program: int) -> None:
        """Let a program's clock follow: requests of one that has heard nothing count as older."""
        async with self.made.programs[program].lock(f"another-{next(self._numbers)}"):
            pass

    def _lies_with_voters(self, name: str) -> bool:
        ballots = [node.voting.voter.ballots.get("x") for node in self.made.nodes]
        return all(
            ballot and any(c.participant == name for c in ballot.queue) for ballot in ballots
        )

    def is_wanted(self, program: int) -> bool:
        return self.made.host(program).participant.is_wanted("x")


def in_line(test: Callable[[Line], Any], programs: int = 1, **more: Any) -> None:
    in_world(lambda made: test(Line(made)), programs=programs, **more)


def test_readers_of_several_programs_hold_a_lock_together_and_a_writer_alone() -> None:
    async def test(line: Line) -> None:
        readers = [await line.reads(program) for program in (0, 1, 2)]
        assert line.inside == set(readers)
        writer = await line.waits(0, shared=False)
        for reader in readers:
            assert writer not in line.inside
            await reader.leave()
        await writer.enters()
        assert writer.token > max(reader.token for reader in readers)
        waiting = await line.waits(1, shared=True)
        await writer.leave()
        await waiting.enters()
        assert waiting.token > writer.token
        await waiting.leave()

    in_line(test, programs=3)


def test_tasks_of_one_program_share_one_hold_and_its_token_without_a_message() -> None:
    async def test(line: Line) -> None:
        first = await line.reads()
        await until(lambda: line.made.host().received["Reply"] == 3, "all grants")
        sent = line.made.host().sent["Data"]
        readers = [first, *[await line.reads() for _ in range(10)]]
        assert {reader.token for reader in readers} == {first.token}
        assert line.made.host().sent["Data"] == sent
        for reader in readers:
            assert reader.held is not None
            assert reader.held.valid
            await reader.leave()
        again = await line.reads()
        assert again.token == first.token + 1, "the votes were kept, and the hold is another"
        assert line.made.host().sent["Data"] == sent
        await again.leave()

    in_line(test)


def test_no_reader_passes_a_writer_that_asked_before() -> None:
    async def test(line: Line) -> None:
        reader = await line.reads(0)
        writer = await line.waits(1, shared=False)
        await until(lambda: line.is_wanted(0), "the reader to hear of the writer")
        here, there = await line.waits(0, shared=True), await line.waits(2, shared=True)
        await reader.leave()
        await writer.enters()
        assert line.inside == {writer}
        await writer.leave()
        await here.enters()
        await there.enters()
        assert line.inside == {here, there}
        for task in (here, there):
            await task.leave()

    in_line(test, programs=3)


def test_tasks_of_one_program_are_served_in_order_those_who_share_together() -> None:
    async def test(line: Line) -> None:
        first = await line.writes()
        one, two = await line.waits(0, shared=True), await line.waits(0, shared=True)
        alone = await line.waits(0, shared=False)
        last = await line.waits(0, shared=True)
        await first.leave()
        await one.enters()
        await two.enters()
        assert line.inside == {one, two}
        await one.leave()
        assert line.inside == {two}
        await two.leave()
        await alone.enters()
        assert line.inside == {alone}
        await alone.leave()
        await last.enters()
        assert first.token < one.token == two.token < alone.token < last.token
        await last.leave()

    in_line(test)


async def give_up(task: Task) -> None:
    task.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task.task


@pytest.mark.parametrize("program", [0, 1])
def test_when_a_writer_gives_up_the_readers_behind_it_join(program: int) -> None:
    """Whether it is a task of the same program or of another."""

    async def test(line: Line) -> None:
        reader = await line.reads(0)
        writer = await line.waits(program, shared=False)
        if program:
            await until(lambda: line.is_wanted(0), "the reader to hear of the writer")
        behind = await line.waits(0, shared=True)
        await give_up(writer)
        await behind.enters()
        assert behind.token == reader.token
        for task in (behind, reader):
            await task.leave()

    in_line(test, programs=2)


@pytest.mark.parametrize("shared", [False, True])
def test_when_the_first_in_line_gives_up_the_request_changes_to_the_mode_of_the_next(
    shared: bool,
) -> None:
    async def test(line: Line) -> None:
        other = await line.writes(1)
        first = await line.waits(0, shared=shared)
        second = await line.waits(0, shared=not shared)
        await give_up(first)
        await other.leave()
        await second.enters()
        assert line.made.host(0).participant.is_shared("x") is not shared
        third = await line.waits(1, shared=False)
        assert line.inside == {second}
        await second.leave()
        await third.enters()
        await third.leave()

    in_line(test, programs=2)


def test_the_votes_of_a_writer_that_has_left_do_not_keep_readers_apart() -> None:
    """They are kept until somebody asks; a reader of the same program does not sit on them."""

    async def test(line: Line) -> None:
        await (await line.writes(0)).leave()
        here, there = await line.reads(0), await line.reads(1)
        assert line.inside == {here, there}
        for task in (here, there):
            await task.leave()

    in_line(test, programs=2)


def test_who_tries_once_joins_readers_and_stays_away_from_writers() -> None:
    async def test(line: Line) -> None:
        one, other = line.made.programs
        reader = await line.reads(0)
        for program in (one, other):
            assert await program.lock("x").acquire(blocking=False) is None
            held = await program.lock("x", shared=True).acquire(blocking=False)
            assert held
            await held.release()
        writer = await line.waits(1, shared=False)
        await until(lambda: line.is_wanted(0), "the reader to hear of the writer")
        for program in (one, other):
            assert await program.lock("x", shared=True).acquire(blocking=False) is None
        await reader.leave()
        await writer.enters()
        for program in (one, other):
            assert await program.lock("x", shared=True).acquire(blocking=False) is None
        await writer.leave()

    in_line(test, programs=2)


def test_tasks_that_all_try_once_to_share_a_fresh_lock_all_get_it() -> None:
    async def test(line: Line) -> None:
        program = line.made.programs[0]

        async def attempt() -> bool:
            held = await program.lock("x", shared=True).acquire(blocking=False)
            await asyncio.sleep(0)
            if held:
                await held.release()
            return bool(held)

        assert all(await asyncio.gather(*(attempt() for _ in range(5))))

    in_line(test)


def test_the_loss_of_a_hold_is_told_to_all_who_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(line: Line) -> None:
        readers = [await line.reads() for _ in range(3)]
        for node in line.made.nodes[:2]:
            await node.stop()
        for reader in readers:
            with pytest.raises(coterie.LockLost):
                await reader.task
        assert line.group(0).tally.losses == 3
        assert not line.group(0).queues

    in_line(test, virtual=monkeypatch)


def test_holders_and_waiters_are_told_with_their_modes() -> None:
    async def test(line: Line) -> None:
        c = line.made.programs[2]
        readers = [await line.reads(program) for program in (0, 0, 1)]
        writer = await line.waits(2, shared=False)
        await until(lambda: line.is_wanted(1), "the reader to hear of the writer")
        behind = await line.waits(1, shared=True)
        holders = await c.holders("x")
        assert [party.shared for party in holders] == [True, True, True]
        assert {party.token for party in holders} == {reader.token for reader in readers}
        assert sorted(party.shared for party in await c.waiters("x")) == [False, True]
        assert await c.locked("x")
        text = render(participant_metrics(line.group(0), engine_of(line.made.programs[0]).waits))
        assert "coterie_held 1\n" in text
        assert "coterie_acquisitions_total 2\n" in text
        for task in readers:
            await task.leave()
        await writer.enters()
        await writer.leave()
        await behind.enters()
        await behind.leave()

    in_line(test, programs=3)


def test_a_try_with_a_lease_of_its_own_joins_too() -> None:
    async def test(line: Line) -> None:
        reader = await line.reads(0)
        async with line.made.programs[0].lock("x", shared=True, lease=0.5) as held:
            assert held.valid
            assert reader in line.inside
        await reader.leave()

    in_line(test)


def test_shared_locks_combine() -> None:
    async def test(line: Line) -> None:
        one, other = line.made.programs
        async with (
            one.lock_all(one.lock("x", shared=True), "y"),
            other.lock_any(other.lock("x", shared=True), "y") as held,
        ):
            assert held.name == "x"

    in_line(test, programs=2)


async def command(*words: str) -> tuple[int, str]:
    """Run the command line in a process of its own; give its status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *COTERIE, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


def test_the_command_line_shares_and_status_tells_who_does() -> None:
    async def test(line: Line) -> None:
        url = line.made.programs[0].url
        reader = await line.reads(0)
        assert await command("lock", "-s", "-n", "--url", url, "x", "--", "true") == (0, "")
        assert (await command("lock", "-n", "--url", url, "x", "--", "true"))[0] == 75
        writer = await line.waits(1, shared=False)
        process = line.made.host(0).identity.label
        for view, row in (
            ("locks", ["x", process, "(shared)", str(reader.token)]),
            ("waiters", ["x", "1", process]),
        ):
            status, printed = await command("status", view, "--url", url)
            rows = [text.split() for text in printed.splitlines()]
            assert status == 0
            assert row in [words[: len(row)] for words in rows]
        await reader.leave()
        await writer.enters()
        await writer.leave()

    in_line(test, programs=2, lease=5.0)


def test_threads_share_as_tasks_do() -> None:
    async def test(line: Line) -> None:
        reader = await line.reads()

        def join() -> bool:
            with (
                coterie.sync.connect(line.made.programs[0].url) as c,
                c.lock("x", shared=True) as held,
            ):
                return held.shared and held.valid and reader in line.inside

        assert await asyncio.to_thread(join)
        await reader.leave()

    in_line(test)
