"""What is too large for one frame goes in parts, or is refused before anybody hears of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.store import node as store_node
from coterie.cluster.wire import connection, handshake
from coterie.cluster.wire import peers as peering
from coterie.errors import Conflict, UsageError
from coterie.transactions.site import chunks, course
from coterie.transactions.store.values import KEY_LENGTH_MAX, VALUE_BYTES_MAX
from tests.cluster.local_cluster import until
from tests.cluster.store_cluster import configured, fill, keys_at, running

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.transactions.store.transaction import Transaction

A, B = keys_at(1, 3), keys_at(2, 40)


def test_a_scan_of_far_more_than_a_frame_carries_is_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame above the limit would end the link, and the next one as well."""
    monkeypatch.setattr(handshake, "FRAME_BYTES_MAX", 2000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["b"], B)
            await until(lambda: not sites.unsettled(), "everything to be settled")
            before = sites.messages()
            async with sites["a"].transaction() as transaction:
                assert await transaction.scan() == [(key, 100) for key in sorted(B)]
                assert await transaction.scan(limit=30) == [(key, 100) for key in sorted(B)[:30]]
            assert sites.messages() - before > 12, "in parts"
            assert sites["a"].counts.refused == 0

    asyncio.run(main())


def test_a_scan_of_many_megabytes_comes_whole(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path, lease=2.0)
        async with asyncio.timeout(60), running(config) as sites:
            for key in B[:4]:
                async with sites["b"].transaction() as transaction:
                    await transaction.put(key, "x" * 5_000_000)
            async with sites["a"].transaction() as transaction:
                found = await transaction.scan()
            assert [(key, len(value)) for key, value in found] == [
                (key, 5_000_000) for key in sorted(B[:4])
            ]

    asyncio.run(main())


def test_the_largest_value_under_the_longest_key_goes_to_another_site_and_back(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        config = configured(tmp_path, 2, lease=2.0)
        largest = b"x" * (VALUE_BYTES_MAX - 5)  # with its head just as much as may be
        async with asyncio.timeout(60), running(config) as sites:
            keys = [letter * KEY_LENGTH_MAX for letter in "\U0001f511\U0001f512"]
            for key in keys:  # wherever they are: each goes over the link once
                async with sites["a"].transaction() as transaction:
                    await transaction.put(key, largest)
                with pytest.raises(UsageError, match="cannot be stored"):
                    async with sites["a"].transaction() as transaction:
                        await transaction.put(key, largest + b"x")
            async with sites["b"].transaction() as transaction:
                assert [await transaction.get(key) for key in keys] == [largest] * 2

    asyncio.run(main())


def test_too_much_for_one_transaction_is_told_and_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course, "WRITTEN_BYTES_MAX", 1000)
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        for key in (A[0], *B[:3]):
            await transaction.put(key, "x" * 300)

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            with pytest.raises(
                UsageError, match=r"at most 1,000 go to disk at once; use several transactions"
            ):
                await sites["a"].run(work)
            assert attempts == 1
            await until(lambda: not sites.unsettled(), "everything to end")
            async with sites["c"].transaction() as transaction:
                assert await transaction.scan() == []

    asyncio.run(main())


def test_what_should_not_be_sent_at_once_does_not_end_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], B[:1])
            monkeypatch.setattr(store_node, "CONTENT_BYTES_MAX", 500)
            with pytest.raises(Conflict, match="does not answer"):
                async with sites["a"].transaction() as transaction:
                    await transaction.put(B[0], "x" * 1000)
            await fill(sites["a"], B[:1])

    asyncio.run(main())
    assert "site a cannot send 1,0" in caplog.text


def test_more_than_a_connection_takes_at_once_waits_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that is sent too much looks like one that does not read, and is cut off each time."""
    monkeypatch.setattr(connection, "BACKLOG_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(peering, "WINDOW_BYTES", 250_000)

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:

            async def put(key: str) -> None:
                async with sites["a"].transaction() as transaction:
                    await transaction.put(key, b"x" * 200_000)

            await asyncio.gather(*map(put, B))
            assert sites["a"].counts.committed == len(B)
            assert sites["a"].counts.refused == 0

    asyncio.run(main())
