"""Numbers of starts: each start of a process has one that no earlier start of it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.cluster.runtime.durable import replace
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def count_start(folder: Path) -> int:
    """Return how many starts a data directory has seen before this one, and count this one.

    The number is on disk before it is used: a start that crashes right after has had it.
    """
    path = folder / "incarnation"
    try:
        number = int(path.read_bytes()) + 1
    except FileNotFoundError:
        number = 0
    except ValueError:
        raise ConfigError(
            f"{path} is damaged, so the number of this start is not known; write a number there"
            " that is higher than that of any start before"
        ) from None
    replace(path, b"%d" % number)
    return number
