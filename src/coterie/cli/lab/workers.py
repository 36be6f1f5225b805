"""Processes that run the trials of a campaign, and end with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection


@contextlib.contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Run worker processes that end at once with an interrupt, and with this process.

    A pool by itself waits for everything that was handed to it, and outlives a parent that is
    killed. So each worker holds the reading end of a pipe, and ends when no process can write any
    more: that is, when this one closes its end or dies.
    """
    reading, writing = multiprocessing.Pipe(duplex=False)
    with (
        writing,
        reading,
        ProcessPoolExecutor(jobs, initializer=_follow, initargs=(reading, writing)) as executor,
    ):
        try:
            _start(executor)
            yield executor
        except BaseException:
            writing.close()
            raise


def _start(executor: ProcessPoolExecutor) -> None:
    """Start the workers; an interrupt waits until that is done.

    One that comes while a process is forked is lost, or leaves the pool half made.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        executor.submit(int).result()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _follow(reading: Connection, writing: Connection) -> None:
    """Prepare a worker: let it end when the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    writing.close()

    def end() -> None:
        with contextlib.suppress(EOFError, OSError):
            reading.recv_bytes()
        os._exit(1)  # a trial may take minutes, and nothing of it is of use any more

    threading.Thread(target=end, daemon=True).start()
