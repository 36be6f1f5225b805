"""A store with a path: what was committed is there after a restart, and the file is nobody else's."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from coterie import system
from coterie.clocks import Stamp
from coterie.errors import ConfigError, MisuseError, OutcomeUnknown, Unavailable
from coterie.lab.serializability import check
from coterie.transactions import Store, Transaction
from coterie.transactions.catalogue import schemes
from coterie.transactions.schemes.scheduler import Item
from coterie.transactions.store.log import STAMPS_AT_ONCE, Log
from coterie.transactions.store.transaction import attempt_of
from tests.transactions.disk import store_on_disk
from tests.transactions.jumbled import FORMS, assert_idle

if TYPE_CHECKING:
    from pathlib import Path

every_form = pytest.mark.parametrize(("scheme", "variant"), FORMS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def increment(t: Transaction) -> int:
    number: int = await t.get("counter", 0) + 1
    await t.put("counter", number)
    return number


@every_form
def test_what_was_committed_is_there_after_a_restart(scheme: str, variant: str, path: Path) -> None:
    """And no name and no stamp comes twice (2.8 d), nor a smaller one than any before (2.2 e)."""

    async def session(number: int) -> None:
        async with Store(scheme, variant=variant, path=path, record=True) as store:
            async with store.transaction() as t:
                assert await t.get("counter", 0) == 3 * number
                assert dict(await t.scan_prefix("kept/")) == {
                    f"kept/{earlier}": [earlier, "ä"] for earlier in range(number)
                }
                assert await t.get("deleted") is None
                await t.put(f"kept/{number}", [number, "ä"])
                await t.put("deleted", 1)
            assert await asyncio.gather(*(store.run(increment) for _ in range(3)))
            async with store.transaction() as last:
                await last.delete("deleted")
            reader = store.transaction()
            async with reader:
                await reader.get("counter")
            attempts.extend(attempt_of(each) for each in (t, last, reader))
            assert check(store.history()).serializable
            assert_idle(store)

    attempts: list[Any] = []
    for number in range(4):
        asyncio.run(session(number))
    assert len({attempt.name for attempt in attempts}) == 12
    stamps = [attempt.stamp for attempt in attempts]
    assert stamps == sorted(stamps)
    assert len(set(stamps)) == 12


def test_a_scheme_can_be_changed_between_two_runs(path: Path) -> None:
    async def session(scheme: str) -> int:
        async with Store(scheme, path=path) as store:
            await asyncio.gather(*(store.run(increment) for _ in range(5)))
            return await store.run(increment)

    schemes = list(dict.fromkeys(scheme for scheme, _ in FORMS))
    assert [asyncio.run(session(scheme)) for scheme in schemes * 2] == [
        6 * (number + 1) for number in range(2 * len(schemes))
    ]


def test_a_commit_is_flushed_to_disk_and_commits_share_the_wait(path: Path) -> None:
    """In the write-ahead mode, FULL (2) flushes at each commit of SQLite; many of ours go in one."""

    async def put(store: Store, key: str) -> None:
        async with store.transaction() as t:
            await t.put(key, key)

    async def main() -> None:
        store, disk = store_on_disk(path)
        async with store:
            assert disk.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert disk.execute("PRAGMA synchronous").fetchone() == (2,)
            await asyncio.gather(*(put(store, f"key {number}") for number in range(200)))
            async with store.transaction() as t:
                assert len(await t.scan()) == 200
        assert sum(disk.batches) == 200, "who only reads leaves nothing in the log"
        assert len(disk.batches) < 100

    asyncio.run(main())


def test_others_see_a_commit_only_when_it_is_on_disk(path: Path) -> None:
    async def main() -> None:
        store, disk = store_on_disk(path, "multiversion")
        async with store:
            async with store.transaction() as t:
                await t.put("x", 1)
            (row,) = disk.execute("SELECT key, value FROM items").fetchall()
            assert row == ("x", b"\x01")

    asyncio.run(main())


def test_stamps_are_reserved_long_before_they_are_used(path: Path) -> None:
    log = Log(path)
    assert log.recover().time == 0
    assert log.reserve(7) == 7 + STAMPS_AT_ONCE
    assert log.reserve(3) == 3 + STAMPS_AT_ONCE
    log.close()
    log = Log(path)
    assert log.recover().time == 7 + STAMPS_AT_ONCE
    log.close()


def append(log: Log, *commits: dict[str, Item]) -> None:
    """Write commits, and wait until all are on disk."""

    async def main() -> None:
        futures = [asyncio.get_running_loop().create_future() for _ in commits]
        for items, future in zip(commits, futures, strict=True):
            log.append(items, future.set_result)
        assert await asyncio.gather(*futures) == [None] * len(commits)

    asyncio.run(main())


def test_an_older_version_does_not_replace_a_newer_one(path: Path) -> None:
    """2.4 f, 2.3 e: where stamps number versions, a smaller one may commit later."""
    log = Log(path)
    append(
        log,
        {"x": Item(b"30", Stamp(30, 1)), "y": Item(None, Stamp(30, 1))},
        {"x": Item(b"20", Stamp(20, 1)), "y": Item(b"20", Stamp(20, 1))},
    )
    append(log, {"x": Item(b"30.2", Stamp(30, 2))})
    log.close()
    log = Log(path)
    assert log.recover() == ([("x", Item(b"30.2", Stamp(30, 2)))], 0)
    log.close()


@pytest.mark.parametrize("scheme", list(schemes()))
def test_whoever_was_on_the_way_to_a_broken_disk_does_not_know(scheme: str, path: Path) -> None:
    """2.0 f: unknown is not aborted. Such a transaction stays in the way; nothing more commits."""
    calls = 0

    async def put(t: Transaction) -> None:
        nonlocal calls
        calls += 1
        await t.put("x", 1)

    async def main() -> None:
        store, disk = store_on_disk(path, scheme)
        async with store:
            await store.run(increment)
            disk.broken = True
            with pytest.raises(OutcomeUnknown, match=r"T\d+ may have been .*: disk I/O") as caught:
                await store.run(put)
            assert not caught.value.definite
            assert calls == 1, "it is not tried again"
            assert store.counts.unknown == 1
            with pytest.raises(Unavailable, match="can no longer be written: disk I/O error"):
                await store.run(increment)
            with pytest.raises(Unavailable, match="can no longer be written: disk I/O error"):
                await store.run(put)
            report = check(store.history())
            assert report.serializable
            assert len(report.left_out) == 1

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["two-phase-locking", "timestamp-ordering", "multiversion"])
def test_nothing_waits_for_what_a_broken_disk_has_left_in_doubt(scheme: str, path: Path) -> None:
    """Neither what asks afterwards, nor what waits already, nor what waits for one that does."""

    async def look(t: Transaction) -> object:
        return await t.get("x")

    async def put(t: Transaction) -> None:
        await t.put("x", 1)

    async def both(t: Transaction) -> None:
        await t.put("y", 1)
        await t.get("x")

    async def main() -> None:
        store, disk = store_on_disk(path, scheme)
        async with store:
            await store.run(look)  # reserves stamps
            disk.broken = True
            disk.open.clear()
            writing = asyncio.create_task(store.run(put))
            await asyncio.to_thread(disk.reached.wait, 10)
            waiting = [asyncio.create_task(store.run(work)) for work in (look, both, both)]
            await asyncio.sleep(0)
            disk.open.set()
            with pytest.raises(OutcomeUnknown):
                await writing
            for task in (*waiting, asyncio.create_task(store.run(look))):
                with pytest.raises(Unavailable, match="can no longer be written"):
                    await task
            assert store.counts.aborted == 4

    asyncio.run(main())


def test_no_stamp_is_used_that_could_not_be_reserved(path: Path) -> None:
    async def main() -> None:
        store, disk = store_on_disk(path)
        disk.broken = True
        async with store:
            with pytest.raises(Unavailable, match="can no longer be written: disk I/O error"):
                await store.run(increment)

    asyncio.run(main())


def test_a_file_belongs_to_one_store_at_a_time(path: Path) -> None:
    async def main() -> None:
        async with Store(path=path) as store:
            await store.run(increment)
            with pytest.raises(
                ConfigError, match="is already open: one process at a time may use it"
            ):
                Store(path=path)
            program = f"import coterie; coterie.Store(path={str(path)!r})"
            other = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", program],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert other.returncode != 0
            assert "ConfigError" in other.stderr
            assert await store.run(increment) == 2
        async with Store(path=path) as store:
            assert await store.run(increment) == 3

    asyncio.run(main())


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Dear diary, " * 100)
    foreign = tmp_path / "foreign"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE mine(x)")
    connection.close()
    for path, complaint in (
        (text, "is not a store: file is not a database"),
        (foreign, "is not a store: it is the database of another program"),
        (tmp_path, "cannot be opened: unable to open"),
        (tmp_path / "nowhere" / "store", "cannot be opened: unable to open"),
    ):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(ConfigError, match=complaint) as caught:
            Store(path=path)
        assert str(path) in str(caught.value)
        assert not path.is_file() or path.read_bytes() == before


def test_a_file_of_a_later_format_or_a_damaged_one_is_refused(path: Path) -> None:
    async def main() -> None:
        async with Store(path=path) as store, store.transaction() as t:
            for number in range(2000):
                await t.put(f"key {number}", "value" * 20)

    asyncio.run(main())
    whole = path.read_bytes()
    path.write_bytes(whole[: 4096 * 3] + b"?" * (len(whole) - 4096 * 3))
    with pytest.raises(ConfigError, match=r"is damaged|is not a store"):
        Store(path=path)
    path.write_bytes(whole)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="it has format 99, and this version of coterie needs 1"):
        Store(path=path)


def test_a_store_does_not_go_through_a_fork(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Store(path=path) as store:
            await store.run(increment)
            with monkeypatch.context() as forked:
                forked.setattr(system, "pid", lambda: 1)
                with pytest.raises(MisuseError, match="was opened before a fork"):
                    await store.run(increment)
            assert await store.run(increment) == 2
            assert_idle(store)

    asyncio.run(main())


def test_a_store_can_be_used_by_one_event_loop_after_the_other(path: Path) -> None:
    store = Store(path=path)
    assert asyncio.run(store.run(increment)) == 1
    assert asyncio.run(store.run(increment)) == 2
    asyncio.run(store.close())
    asyncio.run(store.close())


def test_closing_waits_for_what_is_on_its_way_to_the_disk(path: Path) -> None:
    async def main() -> None:
        store = Store(path=path)
        tasks = [asyncio.create_task(store.run(increment)) for _ in range(5)]
        await asyncio.sleep(0)
        await store.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        acknowledged = [outcome for outcome in outcomes if isinstance(outcome, int)]
        async with Store(path=path) as again:
            assert await again.run(increment) == len(acknowledged) + 1
        assert acknowledged

    asyncio.run(main())


def test_what_an_open_finds_is_put_on_disk_before_it_is_seen(path: Path, tmp_path: Path) -> None:
    """A killed process may have written a commit to the log of SQLite, and not synced it.

    A power failure after the next start may lose that log, which the system takes for written: here
    it does, and the main file alone has the commit.
    """
    killed, lost = tmp_path / "killed", tmp_path / "lost"

    async def write() -> None:
        async with Store(path=path) as store:
            await store.run(increment)
            for end in ("", "-wal"):  # as a process leaves them that is killed now
                shutil.copy(f"{path}{end}", f"{killed}{end}")

    async def read(which: Path) -> int:
        async with Store(path=which) as store, store.transaction() as t:
            shutil.copy(which, lost)
            counter: int = await t.get("counter", 0)
            return counter

    asyncio.run(write())
    assert asyncio.run(read(killed)) == 1
    shutil.copy(lost, tmp_path / "alone")
    assert asyncio.run(read(tmp_path / "alone")) == 1
