"""Threads that use a coordinator while another one ends it."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import MisuseError
from coterie.sync.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOUND_SECONDS = 20
ROUNDS = 100


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Let threads take turns so often that they meet everywhere."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_whoever_calls_while_the_loop_ends_is_told_and_not_left_waiting() -> None:
    for _ in range(ROUNDS):
        loop = Loop()
        going = threading.Barrier(4)

        def call(loop: Loop = loop, going: threading.Barrier = going) -> None:
            going.wait(BOUND_SECONDS)
            while True:
                try:
                    loop.run(lambda: asyncio.sleep(0))
                except MisuseError:
                    return

        threads = [threading.Thread(target=call, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        going.wait(BOUND_SECONDS)
        loop.stop()
        for thread in threads:
            thread.join(BOUND_SECONDS)
            assert not thread.is_alive(), "it waits for a loop that has ended"


def test_two_threads_may_close_at_the_same_time(tmp_path: Path) -> None:
    for _ in range(ROUNDS // 4):
        c = coterie.sync.connect(f"file:{tmp_path}")
        c.open()
        assert c.lock("a").acquire(timeout=BOUND_SECONDS)
        errors: list[BaseException] = []
        going = threading.Barrier(2)

        def close(
            c: coterie.sync.Coordinator = c,
            going: threading.Barrier = going,
            errors: list[BaseException] = errors,
        ) -> None:
            going.wait(BOUND_SECONDS)
            try:
                c.close()
            except BaseException as error:  # noqa: BLE001 - to be looked at below
                errors.append(error)

        threads = [threading.Thread(target=close, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_SECONDS)
            assert not thread.is_alive()
        assert errors == []


def test_a_follower_that_outlives_the_coordinator_ends_quietly(tmp_path: Path) -> None:
    with coterie.sync.connect(f"file:{tmp_path}") as c:
        leaders = c.observe("a")
        assert next(leaders) is None
    del leaders  # an error in a finalizer would be a warning, and warnings are errors
