"""The end of input: how a program learns that whoever started it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def at_end_of_input(callback: Callable[[], object]) -> None:
    """Call back in the event loop when stdin ends; by a thread, since stdin may be anything."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 65536):
                pass
        with contextlib.suppress(RuntimeError):  # the loop may be closed by then
            loop.call_soon_threadsafe(callback)

    threading.Thread(target=read, daemon=True).start()
