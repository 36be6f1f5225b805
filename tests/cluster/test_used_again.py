"""A coordinator that is closed leaves nothing to this process, and may be opened again."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.membership.config import convert
from tests.cluster.local_cluster import document, running, until, url_of
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.usefixtures("open_and_guarded")

TIMES = 200
DESCRIPTORS = Path("/proc/self/fd")


async def with_each_engine(folder: Path, test: Callable[[str], Awaitable[None]]) -> None:
    await test(f"file:{folder}")
    config = convert(document(lease=20.0), folder)
    async with running(config):
        await test(url_of(config))


@in_loop
async def test_what_was_held_at_the_end_is_not_held_after_a_new_beginning(tmp_path: Path) -> None:
    async def test(url: str) -> None:
        c = coterie.connect(url)
        async with c:
            before = await c.lock("a").acquire(timeout=9)
        async with c:
            after = await c.lock("a").acquire(timeout=9)
            assert before is not None
            assert after is not None
            assert not before.valid
            assert after.valid
            assert after.token > before.token
            with pytest.raises(coterie.LockLost):
                await before.release()
            assert after.valid

    await with_each_engine(tmp_path, test)


def used() -> tuple[int, int]:
    gc.collect()
    return len(asyncio.all_tasks()), len(list(DESCRIPTORS.iterdir()))


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="descriptors are counted in /proc")
@in_loop
async def test_coming_and_going_leaves_neither_tasks_nor_descriptors(tmp_path: Path) -> None:
    async def test(url: str) -> None:
        before = used()
        for _ in range(TIMES):
            async with coterie.connect(url) as c, c.lock("a", timeout=9):
                pass
        # Not equal: what tests before this one have left may go meanwhile.
        await until(
            lambda: all(now <= then for now, then in zip(used(), before, strict=True)),
            "nodes, which are here, to let go of the last one",
        )

    await with_each_engine(tmp_path, test)
