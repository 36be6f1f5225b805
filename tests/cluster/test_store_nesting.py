"""A task that would wait for itself is told so, wherever the key is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.store import own_site
from coterie.errors import MisuseError, OutcomeUnknown
from tests.cluster.local_cluster import until
from tests.cluster.store_cluster import configured, keys_at, running
from tests.transactions.jumbled import FORMS

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.transactions.store.transaction import Transaction

A, B = keys_at(1, 2), keys_at(2, 2)
WAITING = [form for form in FORMS if form[0] != "optimistic"]


@pytest.mark.parametrize("key", [A[0], B[0]], ids=["here", "elsewhere"])
@pytest.mark.parametrize(("scheme", "variant"), WAITING)
def test_a_task_does_not_wait_for_itself(
    scheme: str, variant: str, key: str, tmp_path: Path
) -> None:
    """2.7 i, over several sites: and nothing of either transaction has happened."""

    async def main() -> None:
        config = configured(tmp_path, store={"scheme": scheme, "variant": variant})
        async with asyncio.timeout(20), running(config) as sites:
            store = sites["a"]

            async def inner(t: Transaction) -> None:
                await t.put(key, await t.get(key, 0) + 1)

            async def outer(t: Transaction) -> None:
                await t.put(key, 1)
                await store.run(inner)

            with pytest.raises(MisuseError, match="which the same task has begun"):
                await store.run(outer)
            assert store.counts.repeated == 0
            await until(lambda: not sites.unsettled(), "everything to end")
            async with sites["b"].transaction() as t:
                assert await t.get(key) is None

    asyncio.run(main())


@pytest.mark.parametrize("keys", [A[:1], [A[0], B[0]]], ids=["here", "at two sites"])
def test_a_task_that_waits_for_itself_to_commit_has_not_committed(
    keys: list[str], tmp_path: Path
) -> None:
    """A conservative write waits for older readers when it is to commit."""

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            running(configured(tmp_path, scheme="conservative")) as sites,
        ):
            store = sites["a"]

            async def inner(t: Transaction) -> None:
                for key in keys:
                    await t.put(key, 77)

            async def outer(t: Transaction) -> None:
                for key in keys:
                    await t.get(key)
                await store.run(inner, writes=keys)

            with pytest.raises(MisuseError, match="which the same task has begun"):
                await store.run(outer, reads=keys)
            await until(lambda: not sites.unsettled(), "everything to end")
            assert not own_site(store).pending()
            async with sites["b"].transaction() as t:
                assert [await t.get(key) for key in keys] == [None for _ in keys]

    asyncio.run(main())


def test_a_commit_that_another_site_decides_is_not_called_off_for_sure(tmp_path: Path) -> None:
    """It commits there as soon as this task's other transaction has ended, so nobody can tell."""

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            running(configured(tmp_path, scheme="conservative")) as sites,
        ):
            store = sites["a"]

            async def outer(t: Transaction) -> None:
                await t.get(B[0])
                await store.run(lambda inner: inner.put(B[0], 77), writes=[B[0]])

            with pytest.raises(OutcomeUnknown, match="may yet be committed"):
                await store.run(outer, reads=[B[0]])
            await until(lambda: not sites.unsettled(), "everything to end")

    asyncio.run(main())
