"""How long somebody is willing to wait."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from coterie.errors import UsageError


@dataclass(frozen=True)
class Patience:
    """A point in time after which waiting is over; `wait` is False if it never begins."""

    deadline: float = math.inf  # by time.monotonic()
    wait: bool = True

    @classmethod
    def of(cls, timeout: float | None) -> Patience:
        """Wait that many seconds from now: None for ever, 0 not at all."""
        if timeout is None:
            return FOREVER
        check_timeout(timeout)
        return cls(time.monotonic() + timeout, wait=timeout > 0)

    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without end."""
        if self.deadline == math.inf:
            return None
        return max(0.0, self.deadline - time.monotonic())


FOREVER = Patience()
AT_ONCE = Patience(deadline=-math.inf, wait=False)


def check_timeout(timeout: float | None) -> None:
    """Refuse a time to wait that makes no sense."""
    if timeout is not None and not timeout >= 0:
        raise UsageError(f"timeout is how many seconds to wait, 0 or more or None, not {timeout!r}")


def check_ttl(ttl: float | None) -> None:
    """Refuse a lease that makes no sense."""
    if ttl is not None and not ttl > 0:
        raise UsageError(f"ttl is the length of the lease in seconds, above 0, not {ttl!r}")
