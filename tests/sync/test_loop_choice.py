"""The event loop in the thread of a coordinator is uvloop's where that is installed."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from coterie.sync.loop import Loop
from coterie.system.aio import new_event_loop

if TYPE_CHECKING:
    import pytest


class FastLoop(asyncio.SelectorEventLoop):
    """Stands for that of uvloop."""


def test_it_is_that_of_uvloop_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=FastLoop))
    loop = Loop()

    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(loop.run(running), FastLoop)
    loop.stop()


def test_it_is_that_of_asyncio_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("asyncio.")
