"""Steps of one turn share a sync, and nothing leaves before what it rests on is on disk."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cluster.runtime import host as runtime_host
from coterie.cluster.runtime.host import Host
from coterie.cluster.store import own_site
from coterie.errors import Conflict, OutcomeUnknown, Unavailable
from coterie.process import Entered
from coterie.transactions.schemes.scheduler import EVERYTHING
from coterie.transactions.schemes.span import Span
from tests.cluster.local_cluster import until
from tests.cluster.store_cluster import configured, fill, keys_at, running, total, transfer
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from coterie.process import Outbox
    from coterie.transactions.store.executor import Soon

A, B = keys_at(1, 8), keys_at(2, 8)


class Desk:
    """A process whose disk and links are lists; each step appends, saves or only speaks."""

    messages = Entered

    def __init__(self, kind: type[Host] = Host) -> None:
        self.steps: list[str] = []
        self.left: list[int] = []  # the steps that have spoken, in order
        self.disk: list[int] = []  # the steps whose records are there
        self.saved = -1  # the last step that the value there knows of
        self.appends = 0
        self.room = True
        self.failed = False
        self._written: list[int] = []  # and not synced
        self._done: Callable[[OSError | None], None] | None = None  # of a sync under way
        self.host = kind(
            self,
            self._send,
            lambda _: None,
            me=1,
            storage=self,
            log=self,
            on_disk_failure=lambda _: None,
        )

    def start(self, out: Outbox[Any]) -> None:
        raise AssertionError("the test takes all steps")

    def receive(self, sender: int, message: Any, out: Outbox[Any]) -> None:
        raise AssertionError("the test takes all steps")

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        raise AssertionError("the test takes all steps")

    def down(self, peer: int, out: Outbox[Any]) -> None:
        raise AssertionError("the test takes all steps")

    def load(self) -> tuple[bytes, list[bytes]]:
        return b"", []

    def step(self, kind: str) -> None:
        number = len(self.steps)
        self.steps.append(kind)

        def handler(out: Outbox[Any]) -> None:
            out.send(2, number)
            if kind == "append":
                out.append(b"%d" % number)
            elif kind == "save":
                out.save(b"%d" % number)
            elif kind == "both":
                out.save(b"%d" % (number - 1))
                out.append(b"%d" % number)

        self.host.step(handler)

    def _send(self, to: int, number: int) -> None:
        """2.8 a: whatever this step and those before it have appended is on disk."""
        assert not self.left or self.left[-1] < number, "one has overtaken another"
        self.left.append(number)
        for step, kind in enumerate(self.steps[: number + 1]):
            if kind in ("append", "both"):
                assert step <= self.saved or step in self.disk, f"{number} rests on {step}"

    def append(self, records: Sequence[bytes]) -> None:
        assert self._done is None, "one frame at a time"
        if not self.room and len(self.steps) % 2:
            self.failed = True
            raise OSError("no room")
        self.appends += 1
        self._written = [int(record) for record in records]
        assert self._written, "nothing to write"
        assert all(number > self.saved for number in self._written), "the value knows of them"

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        self._done = done
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self.wait)  # two turns, if nothing waits for it

    def wait(self) -> None:
        if self._done is None:
            return
        done, self._done = self._done, None
        if self.room:
            self.disk += self._written
            done(None)
        else:
            self.failed = True
            done(OSError("no disk"))

    def save(self, value: bytes) -> None:
        assert not self.failed, "a disk that has failed is left alone"
        assert self._done is None, "the value takes the place of what is being synced"
        self.saved = int(value)

    async def idle(self) -> None:
        """Wait until nothing waits for the disk."""
        await asyncio.sleep(0)  # what this turn has gathered is on its way
        while self._done is not None:  # noqa: ASYNC110 - the turns are what is waited for
            await asyncio.sleep(0)


async def storm(seed: int, kind: type[Host] = Host) -> Desk:
    """Take steps of all sorts in some turns, in half of the runs until the disk fails."""
    dice = random.Random(seed)
    desk = Desk(kind)
    desk.room = not seed % 2
    for _ in range(dice.randrange(1, 20)):
        desk.step(dice.choice(["append", "append", "speak", "save", "both"]))
        if dice.random() < 0.3:
            await asyncio.sleep(0)
    await desk.idle()
    return desk


def test_nothing_leaves_before_what_it_rests_on_and_everything_leaves_in_order() -> None:
    async def main() -> None:
        for seed in range(200):
            desk = await storm(seed)
            if not seed % 2:
                assert desk.left == list(range(len(desk.steps)))

    asyncio.run(main())


MUTANTS = {
    "a later step overtakes": (
        "out.durable or self._gathered is not None or self._on_its_way is not None", "out.durable"
    ),
    "a later step overtakes what is on its way": (" or self._on_its_way is not None:\n            if out", ":\n            if out"),
    "one that comes later leaves with what is on its way": ("if gathered is None and not out.durable", "if self._on_its_way is not None and not out.durable"),
    "a record leaves with what is on its way": ("if gathered is None and not out.durable", "if gathered is None"),
    "two frames are on their way": ("if self._on_its_way is not None or self._gathered is None:", "if self._gathered is None:"),
    "it leaves at once as well": ("self._gather(out)\n                return\n            self.sync", "self._gather(out)\n            self.sync"),
    "what comes with a value is not appended": ("if out.appended:\n", "if False:\n"),
    "a value overtakes what was appended": ("self.sync()  # the value", "pass  # the value"),
    "a disk that has failed is written again": ("self.failed or out.to_save is None", "out.to_save is None"),
    "some records are left out": ("in out.appended:", "in out.appended[: self._gathered_bytes == 0]:"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_each_rule_of_gathering_is_needed(name: str) -> None:
    kind = broken_class(Host, *MUTANTS[name])

    async def main() -> None:
        for seed in range(200):
            await storm(seed, kind)

    with pytest.raises(AssertionError):
        asyncio.run(main())


def test_steps_of_one_turn_are_one_append_and_steps_of_two_are_two() -> None:
    async def main() -> None:
        desk = Desk()
        for _ in range(5):
            desk.step("append")
        await asyncio.sleep(0)
        assert desk.left == []
        await desk.idle()
        assert (desk.appends, desk.left) == (1, [0, 1, 2, 3, 4])
        desk.step("append")
        await desk.idle()
        assert desk.appends == 2

    asyncio.run(main())


def test_what_comes_while_a_sync_is_under_way_shares_the_next_one() -> None:
    """But what appends nothing, and has seen nothing later, leaves with the one under way."""

    async def main() -> None:
        desk = Desk()
        desk.step("append")
        await asyncio.sleep(0)
        for kind in ("speak", "append", "append", "speak"):
            desk.step(kind)
        assert desk.left == []
        desk.wait()
        assert desk.left == [0, 1]
        await desk.idle()
        assert (desk.appends, desk.left) == (2, [0, 1, 2, 3, 4])

    asyncio.run(main())


def test_a_step_that_appends_nothing_waits_for_nothing() -> None:
    async def main() -> None:
        desk = Desk()
        desk.step("speak")
        assert desk.left == [0]

    asyncio.run(main())


def test_much_is_not_gathered_until_the_end_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_host, "GATHERED_BYTES_MAX", 3)

    async def main() -> None:
        desk = Desk()
        for _ in range(8):
            desk.step("append")
        assert desk.left == list(range(8))
        assert desk.appends == 2

    asyncio.run(main())


# Real sites


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take note of every sync of a file or directory."""
    made: list[int] = []
    sync: Callable[[int], None] = os.fsync

    def noted(descriptor: int) -> None:
        made.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return made


def test_transactions_at_one_site_share_syncs(tmp_path: Path, syncs: list[int]) -> None:
    """The first commits before the others have written: they wait for its sync, and share one."""

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], A)
            syncs.clear()
            await asyncio.gather(*(fill(sites["a"], [key], 7) for key in A))
            assert len(syncs) == 2
            assert sites["a"].counts.committed == 1 + len(A)

    asyncio.run(main())


def test_transactions_of_two_sites_share_syncs(tmp_path: Path, syncs: list[int]) -> None:
    """Alone each needs one at either site, and one that it waits for less: that the other knows."""

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], [*A, *B])
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            syncs.clear()
            await transfer(sites["a"], A[0], B[0])
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            assert len(syncs) == 3
            syncs.clear()
            await asyncio.gather(*(transfer(sites["a"], *pair) for pair in zip(A, B, strict=True)))
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            assert len(syncs) < 2 * len(A)
            assert await total(sites["c"]) == 1600

    asyncio.run(main())


def test_who_is_cancelled_while_its_commit_waits_for_the_disk_has_committed(tmp_path: Path) -> None:
    """2.0 d: it is decided, so the block ends well and the cancellation comes after it."""

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], [A[0]])  # and the clock is on disk
            passed = False

            async def work() -> None:
                nonlocal passed
                async with sites["a"].transaction() as transaction:
                    await transaction.put(A[0], 1)
                passed = True
                await asyncio.Event().wait()

            task = asyncio.create_task(work())
            asyncio.get_running_loop().call_soon(task.cancel)  # after its first turn
            with pytest.raises(asyncio.CancelledError):
                await task
            assert passed
            assert await total(sites["a"]) == 1

    asyncio.run(main())


def test_a_commit_that_waits_for_the_disk_is_too_late_to_be_called_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            executor = own_site(sites["a"])
            name = executor.begin(EVERYTHING).name
            await asyncio.sleep(0)
            executor.write(name, A[0], b"\x01")
            commit = executor.commit(name)
            assert isinstance(commit, asyncio.Future)
            assert not commit.done()
            assert not executor.abort(name)
            await commit
            assert await total(sites["a"]) == 1

    asyncio.run(main())


def test_a_refusal_that_waits_for_the_disk_is_heard_with_the_next_request(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path, store={"variant": "wound-wait"})
        async with asyncio.timeout(20), running(config) as sites:
            executor = own_site(sites["a"])
            old, young, other = (executor.begin(EVERYTHING).name for _ in range(3))
            await asyncio.sleep(0)  # the clock is on disk
            for name, key in ((young, A[0]), (other, A[1])):
                executor.write(name, key, b"1")
            commit = executor.commit(other)
            assert isinstance(commit, asyncio.Future)
            writing = executor.write(old, A[0], b"2")  # wounds the young one
            with pytest.raises(Conflict, match="in the way of an older one"):
                executor.read(young, A[2])
            assert commit.done()
            assert isinstance(writing, asyncio.Future)
            assert writing.done()
            assert executor.abort(young)
            assert executor.abort(old)

    asyncio.run(main())


def test_a_disk_that_fails_leaves_the_outcome_of_all_that_were_gathered_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            executor = own_site(sites["a"])
            names = [executor.begin(EVERYTHING).name for _ in range(3)]
            await asyncio.sleep(0)
            for name, key in zip(names, A, strict=False):
                executor.write(name, key, b"1")
            reader = executor.begin(EVERYTHING).name
            commits = [asyncio.ensure_future(soon(executor.commit(name))) for name in names]
            reading = asyncio.ensure_future(soon(executor.read(reader, A[4])))
            monkeypatch.setattr(os, "fsync", fail)
            results = await asyncio.gather(*commits, reading, return_exceptions=True)
            monkeypatch.undo()
            assert list(map(type, results)) == [OutcomeUnknown] * 3 + [Unavailable]
            with pytest.raises(Unavailable):
                await fill(sites["a"], A)

    def fail(descriptor: int) -> None:
        raise OSError(f"no disk is behind {descriptor}")

    asyncio.run(main())


async def soon(answer: Soon[Any]) -> Any:
    return await answer if isinstance(answer, asyncio.Future) else answer


def test_what_a_closing_site_has_gathered_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path)
        async with asyncio.timeout(20), running(config) as sites:
            executor = own_site(sites["a"])
            name = executor.begin(EVERYTHING).name
            await asyncio.sleep(0)
            executor.write(name, A[0], b"\x01")
            commit = executor.commit(name)
            assert isinstance(commit, asyncio.Future)
            await sites.stop("a")
            assert commit.done()
            await commit
            await sites.start("a")
            executor = own_site(sites["a"])
            name = executor.begin(EVERYTHING).name
            listed = await soon(executor.scan(name, Span.of(A[0]), None))
            assert [item.value for item in listed.items] == [b"\x01"]

    asyncio.run(main())
