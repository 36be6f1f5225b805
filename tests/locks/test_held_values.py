"""What a holder meets who reads and writes the value of its lock, over an engine without a store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie import Coordinator, LockLost, NotHeld, UsageError
from coterie.locks.held import loss
from coterie.locks.value import DATA_BYTES_MAX, HeldValue, follow_value, record_of
from tests.harness import broken_class
from tests.locks.memory import MemoryEngine, in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from coterie.locks.value import Value, ValueRecord
    from tests.locks.memory import MemoryClaim


class ValueMemory(MemoryEngine):
    """Keeps values in memory; writes wait as long as `may_write` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, ValueRecord] = {}
        self.reads = 0
        self.sequences: list[int] = []
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def read_value(self, name: str, claim: MemoryClaim | None = None) -> Value | None:
        self.reads += 1
        await asyncio.sleep(0)
        record = self.records.get(name)
        return None if record is None else record.value

    async def write_value(
        self, claim: MemoryClaim, sequence: int, data: bytes | None
    ) -> Value | None:
        self.sequences.append(sequence)
        record = record_of(claim, sequence, data, "here:1")
        await self.may_write.wait()
        if not claim.valid():
            raise loss(record.name, record.token, "the lease ran out")
        self.records[record.name] = record
        return record.value

    def watch_value(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Value | None, None]:
        return follow_value(lambda: self.read_value(name), check)

    async def all_values(self) -> dict[str, Value]:
        return {}


@in_loop
async def test_a_value_is_read_once_in_a_hold() -> None:
    engine = ValueMemory()
    async with Coordinator(engine, "memory:") as c:
        async with c.lock("a") as held:
            assert await held.read() is None
            assert await held.read() is None
            await held.write(b"1")
            written = await held.read()
            assert written is not None
            assert (written.data, written.version) == (b"1", (held.token, 1))
            await held.delete()
            assert await held.read() is None
        assert engine.reads == 1
        async with c.lock("a") as held:
            await held.read()
        assert engine.reads == 2


async def writes_have_their_order(kind: type[HeldValue] = HeldValue) -> bool:
    """Let a first write be slow, and its task be cancelled; the second must not overtake it."""
    engine = ValueMemory()
    async with Coordinator(engine, "memory:") as c, c.lock("a") as held:
        value = kind(engine, engine.queues["a"][0], held.ensure)  # type: ignore[arg-type]
        engine.may_write.clear()
        first = asyncio.create_task(value.write(b"1"))
        await asyncio.sleep(0.01)
        first.cancel()
        second = asyncio.create_task(value.write(b"2"))
        await asyncio.sleep(0.01)
        in_turn = engine.sequences == [1]
        engine.may_write.set()
        await second
        in_turn = in_turn and first.cancelled() and engine.sequences == [1, 2]
        found = await value.read()
        return in_turn and found is not None and found.data == b"2"


@in_loop
async def test_a_write_is_done_to_the_end_before_the_next_one() -> None:
    assert await writes_have_their_order()


async def a_read_sees_the_loss(kind: type[HeldValue] = HeldValue) -> bool:
    engine = ValueMemory()
    async with Coordinator(engine, "memory:") as c:
        held = await c.lock("a").acquire()
        assert held is not None
        value = kind(engine, engine.queues["a"][0], held.ensure)  # type: ignore[arg-type]
        reading = asyncio.create_task(value.read())
        await asyncio.sleep(0)
        engine.lose("a", noticed=False)
        try:
            await reading
        except LockLost:
            return True
        return False


@in_loop
async def test_what_was_read_as_the_hold_ended_is_not_returned() -> None:
    assert await a_read_sees_the_loss()


async def what_failed_is_asked_for(kind: type[HeldValue] = HeldValue) -> bool:
    """Let a write fail: what is stored now is known to the store alone."""

    class Failing(ValueMemory):
        async def write_value(
            self, claim: MemoryClaim, sequence: int, data: bytes | None
        ) -> Value | None:
            written = await super().write_value(claim, sequence, data)
            if sequence == 1:
                raise OSError("no answer")
            return written

    engine = Failing()
    async with Coordinator(engine, "memory:") as c, c.lock("a") as held:
        value = kind(engine, engine.queues["a"][0], held.ensure)  # type: ignore[arg-type]
        await value.read()
        with pytest.raises(OSError, match="no answer"):
            await value.write(b"1")
        found = await value.read()
        return found is not None and found.data == b"1"


@in_loop
async def test_after_a_write_without_an_answer_the_store_is_asked() -> None:
    assert await what_failed_is_asked_for()


async def what_comes_late_is_void(kind: type[HeldValue] = HeldValue) -> bool:
    """Let a write have no answer and arrive after the read that follows: it must not take effect any more."""

    class Late(ValueMemory):
        late: ValueRecord | None = None

        async def write_value(
            self, claim: MemoryClaim, sequence: int, data: bytes | None
        ) -> Value | None:
            if sequence == 2:
                self.late = record_of(claim, sequence, data, "here:1")
                raise OSError("no answer")
            return await super().write_value(claim, sequence, data)

        def arrive(self) -> None:
            assert self.late is not None
            if self.records["a"].version < self.late.version:
                self.records["a"] = self.late

    engine = Late()
    async with Coordinator(engine, "memory:") as c, c.lock("a") as held:
        value = kind(engine, engine.queues["a"][0], held.ensure)  # type: ignore[arg-type]
        await value.write(b"1")
        with pytest.raises(OSError, match="no answer"):
            await value.write(b"2")
        found = await value.read()
        engine.arrive()
        return found == engine.records["a"].value and found == await value.read()


@in_loop
async def test_a_write_that_comes_after_a_read_is_void() -> None:
    assert await what_comes_late_is_void()


MUTANTS: dict[str, tuple[Callable[[type[HeldValue]], Coroutine[None, None, bool]], str, str]] = {
    "a write ends with its task": (
        writes_have_their_order,
        "await to_the_end(self._write(data))",
        "await self._write(data)",
    ),
    "two writes at a time": (
        writes_have_their_order,
        "        async with self._turn:\n            await to_the_end",
        "        async with asyncio.Lock():\n            await to_the_end",
    ),
    "a read is not judged by its end": (
        a_read_sees_the_loss,
        "self._ensure()  # else others may have written since",
        "pass",
    ),
    "a write without an answer may come late": (
        what_comes_late_is_void,
        "if self._is_doubtful:",
        "if False:",
    ),
    "a write that failed is taken for nothing": (
        what_failed_is_asked_for,
        "self._known = False  # until the outcome is",
        "pass",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    rule, old, new = MUTANTS[name]

    async def test() -> None:
        assert not await rule(broken_class(HeldValue, old, new))

    in_loop(test)()


@in_loop
async def test_who_does_not_hold_writes_nothing() -> None:
    engine = ValueMemory()
    async with Coordinator(engine, "memory:") as c:
        held = await c.lock("a").acquire()
        assert held is not None
        await held.release()
        with pytest.raises(NotHeld):
            await held.write(b"1")
        lost = await c.lock("a").acquire()
        assert lost is not None
        engine.lose("a")
        with pytest.raises(LockLost, match=r"lock 'a' \(token 2\) was lost"):
            await lost.write(b"1")
        assert not engine.records


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("text", "a value is bytes, got str: encode it first"),
        (None, "a value is bytes, got NoneType: encode it first"),
        (bytes(DATA_BYTES_MAX + 1), "at most 65536 bytes, got 65537: put the data elsewhere"),
    ],
)
def test_data_that_is_no_value_is_refused_in_one_line(data: bytes, complaint: str) -> None:
    async def test() -> None:
        async with Coordinator(ValueMemory(), "memory:") as c, c.lock("a") as held:
            with pytest.raises(UsageError, match=complaint):
                await held.write(data)
            await held.write(bytes(DATA_BYTES_MAX))

    in_loop(test)()


@in_loop
async def test_an_engine_without_values_says_so() -> None:
    complaint = "keeps no values of locks, only the locks; docs/values.md says which engines do"
    async with Coordinator(MemoryEngine(), "memory:") as c:
        with pytest.raises(UsageError, match=complaint):
            await c.read("a")
        with pytest.raises(UsageError, match=complaint):
            c.watch("a")
        async with c.lock("a") as held:
            with pytest.raises(UsageError, match=complaint):
                await held.write(b"1")
