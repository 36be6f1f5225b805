"""One lock that is held for a program on tooz.

With tooz any thread may release a lock, and two lock objects of one thread exclude each other. In coterie a lock
belongs to the thread that took it. So each hold has a thread of its own, which takes the lock and gives it back.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from coterie.errors import LockLost, MisuseError

if TYPE_CHECKING:
    from coterie.sync import Held, Lock


class ThreadHold:
    """A lock in the hands of a thread of its own."""

    held: Held

    def __init__(self, held: Held, ending: threading.Event, ended: Future[bool]) -> None:
        """Stand for what the thread has taken: it waits for `ending`, and then sets `ended`."""
        self.held = held
        self._ending = ending
        self._ended = ended

    @property
    def valid(self) -> bool:
        """Whether it is held now."""
        return self.held.valid

    def give_back(self) -> bool:
        """Release it; return False if it was lost or given back before."""
        if self._ending.is_set():
            return False
        self._ending.set()
        return self._ended.result()


def take(lock: Lock, timeout: float | None) -> ThreadHold | None:
    """Take a lock in a thread of its own; None if that did not succeed in time."""
    taken: Future[Held | None] = Future()
    ending = threading.Event()
    ended: Future[bool] = Future()

    def keep() -> None:
        try:
            held = lock.acquire(timeout=timeout)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits for it
            taken.set_exception(error)
            return
        taken.set_result(held)
        if held is None:
            return
        ending.wait()
        try:
            held.release()
        except (LockLost, MisuseError):  # or its coordinator was closed, which has released it
            ended.set_result(False)
        except BaseException as error:  # noqa: BLE001 - as above
            ended.set_exception(error)
        else:
            ended.set_result(True)

    threading.Thread(target=keep, name=f"coterie-tooz-{lock.name}", daemon=True).start()
    try:
        held = taken.result()
    except BaseException:
        # An interrupt, such as by Ctrl-C, reaches this thread and not the other: should that get the lock later,
        # it gives it back at once.
        ending.set()
        raise
    return None if held is None else ThreadHold(held, ending, ended)
