"""What a free lock costs while others of the same directory are held.

    python -m benchmarks.files.held

One program holds so many locks of other names, a second one takes and gives back free ones. CPU time of an
entry in microseconds, at best of five. fasteners has a file for each lock, so nothing grows there. It takes
a limit of open files above the largest number.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import coterie.sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

COUNTS = (0, 100, 1_000, 4_000, 12_000)
ENTRIES, ROUNDS = 200, 5
NAMES = 7  # of the free locks
SPARE_FILES = 100


def main() -> int:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < COUNTS[-1] + SPARE_FILES:
        print(f"no more than {most} files may be open: see ulimit -n -H", file=sys.stderr)
        return 69
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores; CPU µs an entry while others are held"
    )
    print(f"{'':14}" + "".join(f"{count:>10,}" for count in COUNTS))
    with tempfile.TemporaryDirectory(prefix="coterie-held-") as folder:
        url = f"file:{folder}/locks"
        with coterie.sync.connect(url) as holder, coterie.sync.connect(url) as other:
            show("coterie.sync", holder.lock, other.lock)
    lock = importlib.import_module("fasteners").InterProcessLock
    with tempfile.TemporaryDirectory(prefix="coterie-held-") as folder:
        path = Path(folder)
        show("fasteners", lambda name: lock(path / name), lambda name: lock(path / name))
    return 0


def show(
    peer: str,
    hold: Callable[[str], AbstractContextManager[object]],
    take: Callable[[str], AbstractContextManager[object]],
) -> None:
    """Print a row."""
    free = [take(f"free-{number}") for number in range(NAMES)]
    figures = []
    with ExitStack() as held:
        have = 0
        for count in COUNTS:
            for number in range(have, count):
                held.enter_context(hold(f"held-{number}"))
            have = count
            figures.append(min(microseconds(free) for _ in range(ROUNDS)))
    print(f"{peer:14}" + "".join(f"{figure:>10.1f}" for figure in figures), flush=True)


def microseconds(free: list[AbstractContextManager[object]]) -> float:
    """Return the CPU time of an entry."""
    began = time.process_time()
    for number in range(ENTRIES):
        with free[number % len(free)]:
            pass
    return (time.process_time() - began) / ENTRIES * 1e6


if __name__ == "__main__":
    sys.exit(main())
