"""Processes of one program, forked or spawned: each connects for itself when it starts.

A coordinator that was open before a fork belongs to the parent: its child cannot use it by mistake. The same
holds for the workers of gunicorn (hook post_fork) and uWSGI (decorator postfork).
"""

import multiprocessing
import sys
from pathlib import Path

import coterie

c = coterie.sync.connect()


def start() -> None:
    """Connect; the end of the process gives everything back."""
    c.open()


@c.lock("ledger", timeout=60)
def append(path: str) -> None:
    """Add a line to a file, with the next number: without the lock two would write the same."""
    file = Path(path)
    lines = file.read_text().splitlines() if file.exists() else []
    file.write_text("".join(f"{line}\n" for line in [*lines, str(len(lines) + 1)]))


def main(path: str) -> None:
    """Let four processes write forty lines."""
    with multiprocessing.Pool(4, initializer=start) as pool:
        pool.map(append, [path] * 40, chunksize=1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "ledger.txt")
