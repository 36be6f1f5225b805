"""What a driver has between `start` and `stop`: a coordinator, and what is held by it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import tooz
from tooz import coordination

import coterie.sync
from coterie.contrib.tooz.thread_hold import ThreadHold, take
from coterie.errors import AcquireTimeout, CoterieError, MisuseError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise the errors of coterie as those that programs on tooz expect."""
    try:
        yield
    except Unavailable as error:
        raise coordination.ToozConnectionError(str(error)) from error
    except AcquireTimeout as error:
        raise coordination.OperationTimedOut(str(error)) from error
    except CoterieError as error:
        raise tooz.ToozError(str(error)) from error


class OpenCoordinator:
    """A coordinator that is open, and the holds that end with it."""

    def __init__(self, url: str) -> None:
        """Connect."""
        self.c = coterie.sync.connect(url)
        self.c.open()
        self._lock = threading.Lock()
        self._holds: set[ThreadHold] = set()
        self._is_closed = False

    def take(
        self, name: str, *, timeout: float | None = None, shared: bool = False, note: str = ""
    ) -> ThreadHold | None:
        """Take a lock; None if that did not succeed in time."""
        hold = take(self.c.lock(name, shared=shared, note=note), timeout)
        if hold is None:
            return None
        with self._lock:
            if not self._is_closed:
                self._holds.add(hold)
                return hold
        hold.give_back()  # it may have been granted because we give back everything
        raise MisuseError(f"lock {name!r}: the driver was stopped")

    def give_back(self, hold: ThreadHold) -> bool:
        """Release what was taken here; return False if it was lost or given back before."""
        with self._lock:
            if hold not in self._holds:
                return False
            self._holds.remove(hold)
        return hold.give_back()

    def close(self) -> None:
        """Release everything and disconnect."""
        with self._lock:
            self._is_closed = True
            holds = list(self._holds)
        for hold in holds:
            with contextlib.suppress(CoterieError):  # closing gives back the others
                self.give_back(hold)
        self.c.close()
