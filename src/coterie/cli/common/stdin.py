"""The end of standard input: how a program learns that its parent has ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_end_of_input(callback: Callable[[], object]) -> None:
    """Call back in the event loop when stdin ends.

    A thread reads, since stdin may be a file, which no event loop can wait for.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 65536):
                pass
        with contextlib.suppress(RuntimeError):  # the loop may be closed by then
            loop.call_soon_threadsafe(callback)

    threading.Thread(target=read, daemon=True).start()
