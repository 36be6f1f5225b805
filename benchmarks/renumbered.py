"""What new addresses of all nodes cost the programs: python -m benchmarks.renumbered [--rounds N] [--lease S] [--pause S].

Nodes are processes of `coterie serve` on loopback. Two programs take one lock in turns, and a third holds another lock
all the time; their URL names all addresses. In each round all three nodes get new addresses, first one after the other,
each recorded by a command, then all at once, recorded by one. What is printed are the longest times without an entry.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.changes import PROGRAMS, read, using
from coterie.cluster.admin.status import HEALTHY
from coterie.cluster.membership.ports import free_ports
from coterie.testing.nodes import write_document
from tests.cluster.local_cluster import Processes, processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.changes import Entries

NAMES = "abc"
SETTLED_SECONDS = 1.0


class Move(NamedTuple):
    """Some nodes that got new addresses."""

    kind: str
    began: float
    up: float  # when the programs were back at all nodes
    ended: float  # when the addresses were recorded


def move(cluster: Processes, addresses: Iterator[str], names: Sequence[str], kind: str) -> Move:
    """Stop nodes, start them at new addresses, and record these."""
    began = time.monotonic()
    for name in names:
        cluster.stop(name)
        cluster.document["nodes"][name] = {"address": next(addresses)}
    write_document(cluster.document, cluster.folder)
    cluster.start(*names)
    present = {name: cluster.document["nodes"][name]["address"] for name in NAMES}
    cluster.url = "coterie://" + ",".join(present.values())
    cluster.wait(
        lambda state: (
            state.health == HEALTHY
            and all(node.report and len(node.report.sessions) > PROGRAMS for node in state.nodes)
        ),
        "the programs to be back at all nodes",
    )
    up = time.monotonic()
    cluster.change("set", *(f"address.{name}={present[name]}" for name in names))
    ended = time.monotonic()
    time.sleep(SETTLED_SECONDS)
    return Move(kind, began, up, ended)


def report(moves: Sequence[Move], entries: Entries) -> None:
    """Print a row for each kind of move."""
    print(
        "| moved | times | seconds until all are back | seconds to record | longest gap ms, median | worst |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for kind in dict.fromkeys(each.kind for each in moves):
        mine = [each for each in moves if each.kind == kind]
        gaps = [longest_gap(entries, each) for each in mine]
        back = statistics.median(each.up - each.began for each in mine)
        recorded = statistics.median(each.ended - each.up for each in mine)
        print(
            f"| {kind} | {len(mine)} | {back:.1f} | {recorded:.1f} | {statistics.median(gaps):.0f} |"
            f" {max(gaps):.0f} |"
        )
    order = "rising" if entries.is_rising else "NOT rising"
    print(f"\n{len(entries.times):,} entries, {entries.lost} lost; tokens {order}")


def longest_gap(entries: Entries, moved: Move) -> float:
    """Return the longest time without an entry during a move, in milliseconds."""
    during = [
        moved.began,
        *(t for t in entries.times if moved.began < t < moved.ended),
        moved.ended,
    ]
    return 1000 * max(after - before for before, after in itertools.pairwise(during))


def main(rounds: int, lease: float, pause: float) -> int:
    """Run all rounds."""
    with tempfile.TemporaryDirectory() as name, processes(Path(name), lease=lease) as cluster:
        cluster.wait_for_number(1)
        new = [f"127.0.0.1:{port}" for port in free_ports(2 * rounds * len(NAMES))]
        everywhere = f"{cluster.url},{','.join(new)}"
        path, addresses = Path(name) / "entries", iter(new)
        holder = cluster.program("hold", "y", url=everywhere)
        holder.read()
        moves: list[Move] = []
        with using(everywhere, path, pause):
            time.sleep(SETTLED_SECONDS)
            for number in range(1, rounds + 1):
                moves += [move(cluster, addresses, each, "one node") for each in NAMES]
                moves.append(move(cluster, addresses, NAMES, "all three at once"))
                print(f"round {number} of {rounds} is done", file=sys.stderr, flush=True)
        is_held = holder.rest() == [["valid"], ["released"]]
        entries = read(path)
    report(moves, entries)
    print(f"the lock that was held all the time is {'valid' if is_held else 'LOST'} at the end")
    return 0 if is_held and entries.is_rising and not entries.lost else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.002, help="between entries of a program")
    given = parser.parse_args()
    sys.exit(main(given.rounds, given.lease, given.pause))
