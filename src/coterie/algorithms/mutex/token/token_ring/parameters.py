"""What a user may choose about the ring: its order, and how long an idle process keeps the token."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from coterie.catalogue import unknown
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from coterie.process import ProcessId


def parse_ring(text: str, size: int) -> tuple[ProcessId, ...]:
    """Read the order of the ring: `ascending`, or every id once, such as `1,3,2`."""
    if text == "ascending":
        return tuple(range(1, size + 1))
    ids = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in ids):
        raise UsageError(unknown("ring", text, ["ascending", "ids such as 1,3,2"]))
    ring = Counter(map(int, ids))
    for process, times in ring.items():
        if not 1 <= process <= size:
            raise ConfigError(f"the ring has process {process}; there are only 1 to {size} of them")
        if times > 1:
            raise ConfigError(f"the ring has process {process} {times} times")
    for process in range(1, size + 1):
        if process not in ring:
            raise ConfigError(f"the ring lacks process {process}")
    return tuple(ring)


def parse_pause(text: str) -> float:
    """Read how long an idle process keeps the token; without a pause nothing else would happen."""
    try:
        pause = float(text)
    except ValueError:
        pause = math.nan
    if not 0 < pause < math.inf:
        raise UsageError(f"the pause must be a number of time units greater than 0, got {text!r}")
    return pause
