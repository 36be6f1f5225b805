"""Kill a bank with -9 again and again, and check its books each time.

    python -m benchmarks.transactions.crashes [--kills 20] [--commits 50] [--schemes A,B]

Each time the process is killed at a random moment after so many acknowledged transfers. Nothing that
was acknowledged may be lost, and no transfer may have happened by half.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from coterie.transactions.catalogue import schemes
from tests.transactions.crashing import audit, crash


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions.crashes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=20, help="of each scheme")
    parser.add_argument("--commits", type=int, default=50, help="at least, before each kill")
    parser.add_argument("--schemes", default=",".join(schemes()))
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    complaints = [
        complaint
        for scheme in options.schemes.split(",")
        for complaint in campaign(scheme, options.kills, options.commits, options.seed)
    ]
    print("\n".join(complaints) or "nothing was lost, and nothing happened by half")
    return 1 if complaints else 0


def campaign(scheme: str, kills: int, commits: int, seed: int) -> list[str]:
    """Kill a bank so often, on the same file; return what was wrong."""
    told: list[str] = []
    with tempfile.TemporaryDirectory(prefix="coterie-crashes-") as folder:
        path = Path(folder, "bank")
        for kill in range(1, kills + 1):
            told += crash(path, scheme, seed + kill, commits)
            books = asyncio.run(audit(path, scheme, told))
            if books.complaint:
                return [f"{scheme}, --seed {seed}, kill {kill}: {books.complaint}"]
            unacknowledged = books.receipts - len(told)
            text = f"{scheme}: kill {kill}, {len(told)} commits acknowledged, all there"
            print(f"{text}; {unacknowledged} others", file=sys.stderr, flush=True)
    return []


if __name__ == "__main__":
    sys.exit(main())
