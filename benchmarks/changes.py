"""What a change of the voters costs the programs: python -m benchmarks.changes [--rounds N] [--lease S] [--pause S].

Nodes are processes of `coterie serve` on loopback. Two programs take one lock in turns and write down
when they have entered it; a third holds another lock all the time. After each change the same time
passes without one, and the longest times without an entry are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import coterie
from coterie.cluster.change import host, plan
from coterie.cluster.change.host import Change
from coterie.cluster.change.newcomer import identify
from coterie.cluster.change.plan import Newcomer
from coterie.cluster.change.survey import look
from coterie.cluster.url import make_visit
from coterie.cluster.wire.link import Link
from tests.cluster.local_cluster import Processes, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import msgspec

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration

LOCK = "x"
PROGRAMS = 2
SETTLED_SECONDS = 1.0  # after processes have started or ended
NO_CHANGE = "none"


# What the programs do


async def use(url: str, path: str, pause: str) -> None:
    """Take the lock again and again; write down each entry and each loss."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with coterie.connect(url) as coordinator:
        while True:
            try:
                async with coordinator.lock(LOCK) as held:
                    os.write(log, f"{time.monotonic()} {held.token}\n".encode())
            except coterie.LockLost:
                os.write(log, b"lost 0\n")
            await asyncio.sleep(float(pause))


@contextlib.contextmanager
def using(url: str, path: Path, pause: float) -> Iterator[None]:
    """Run the programs."""
    command = [sys.executable, "-m", "benchmarks.changes", "--use", url, str(path), str(pause)]
    programs = [subprocess.Popen(command) for _ in range(PROGRAMS)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


# What happens meanwhile


class Kind(NamedTuple):
    """A change: how many nodes join for it, and what is asked for, one goal after the other."""

    name: str
    joining: int
    goals: tuple[Callable[[Configuration, Sequence[Newcomer]], Goal], ...]


def replace(present: Configuration, newcomers: Sequence[Newcomer]) -> Goal:
    """Put the newcomer in the place of the oldest voter."""
    return plan.replace(present, present.members[0].name, newcomers[0])


def remove_others(present: Configuration, newcomers: Sequence[Newcomer]) -> Goal:
    """Remove all voters but the newcomers."""
    kept = {newcomer.name for newcomer in newcomers}
    return plan.remove(present, [each.name for each in present.members if each.name not in kept])


def remove_oldest(present: Configuration, _: Sequence[Newcomer]) -> Goal:
    """Remove one voter."""
    return plan.remove(present, [present.members[0].name])


def set_lease(factor: float) -> Callable[[Configuration, Sequence[Newcomer]], Goal]:
    """Make the lease longer or shorter."""

    def goal(present: Configuration, _: Sequence[Newcomer]) -> Goal:
        return plan.change_settings(present, {"lease": str(present.settings.lease * factor)})

    return goal


KINDS = (
    Kind("replace one of three", 1, (replace,)),
    Kind("add three, remove the others", 3, (plan.add, remove_others)),
    Kind("add one to three", 1, (plan.add,)),
    Kind("remove one of four", 0, (remove_oldest,)),
    Kind("double the lease", 0, (set_lease(2),)),
    Kind("halve the lease", 0, (set_lease(0.5),)),
)


class Window(NamedTuple):
    """A change, or as much time without one."""

    kind: str
    began: float
    ended: float
    messages: int


class Counted(Link):
    """A link of a changer; all of them count their messages together."""

    total = 0

    def send(self, frame: msgspec.Struct) -> None:
        """Send."""
        Counted.total += self.is_up
        super().send(frame)


class Trial:
    """A cluster whose voters are changed again and again."""

    def __init__(self, cluster: Processes) -> None:
        """Prepare."""
        self.cluster = cluster
        self.windows: list[Window] = []
        self._names = (f"n{number}" for number in itertools.count(1))
        self._running = list(cluster.document["nodes"])

    def change(self, kind: Kind) -> None:
        """Make a change, end the nodes that it has removed, and let as much time pass without one."""
        names = list(itertools.islice(self._names, kind.joining))
        self.cluster.join(*names)
        joined = [Newcomer(name, self.cluster.spares[name]) for name in names]
        self._running += names
        time.sleep(SETTLED_SECONDS)
        window = asyncio.run(self._carry_out(kind, joined))
        self.windows.append(window)
        time.sleep(SETTLED_SECONDS)
        voters = {voter.name for voter in self.cluster.standing().voters}
        for name in [name for name in self._running if name not in voters]:
            self.cluster.stop(name)
            self._running.remove(name)
        time.sleep(SETTLED_SECONDS)
        began = time.monotonic()
        time.sleep(window.ended - window.began)
        self.windows.append(Window(NO_CHANGE, began, time.monotonic(), 0))

    async def _carry_out(self, kind: Kind, joined: Sequence[Newcomer]) -> Window:
        standing = await look(make_visit(self.cluster.url))
        newcomers = [await identify(newcomer, standing) for newcomer in joined]
        before, began = Counted.total, time.monotonic()
        for goal in kind.goals:
            standing = await look(make_visit(self.cluster.url))
            wanted = goal(standing.configuration, newcomers)
            await Change(standing.membership, standing.security, wanted).run()
        return Window(kind.name, began, time.monotonic(), Counted.total - before)


# What came of it


class Entries(NamedTuple):
    """When the lock was entered, and how often it was lost."""

    times: list[float]
    lost: int
    is_rising: bool  # each token is larger than all before

    def gaps(self, window: Window) -> list[float]:
        """List the times without an entry that end in a window, in milliseconds."""
        return [
            1000 * (after - before)
            for before, after in itertools.pairwise(self.times)
            if window.began <= after <= window.ended
        ]


def read(path: Path) -> Entries:
    """Read what the programs have written."""
    lines = [line.split() for line in path.read_text().splitlines()]
    entries = [(float(when), int(token)) for when, token in lines if when != "lost"]
    tokens = [token for _, token in entries]
    rising = all(before < after for before, after in itertools.pairwise(tokens))
    return Entries([when for when, _ in entries], len(lines) - len(entries), rising)


def report(windows: Sequence[Window], entries: Entries) -> None:
    """Print a row for each kind of change, and one for the times without any."""
    print(
        "| change | seconds | messages | entries | median gap ms | 99 % | longest | longest without |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    followed = dict(zip(windows[::2], windows[1::2], strict=True))
    for kind in (*(kind.name for kind in KINDS), NO_CHANGE):
        mine = [window for window in windows if window.kind == kind]
        gaps = sorted(itertools.chain.from_iterable(entries.gaps(each) for each in mine))
        without = [max(entries.gaps(followed[each])) for each in mine if each in followed]
        seconds = statistics.median(each.ended - each.began for each in mine)
        messages = statistics.median(each.messages for each in mine)
        late = gaps[int(0.99 * len(gaps))]
        beside = f"{max(without):.1f}" if without else ""
        print(
            f"| {kind} | {seconds:.2f} | {messages:.0f} | {len(gaps)} | {statistics.median(gaps):.2f} |"
            f" {late:.1f} | {gaps[-1]:.1f} | {beside} |"
        )
    order = "rising" if entries.is_rising else "NOT rising"
    print(f"\n{len(entries.times)} entries, {entries.lost} lost; tokens {order}")


def main(rounds: int, lease: float, pause: float) -> int:
    """Run all changes as often as is asked for."""
    with tempfile.TemporaryDirectory() as name, processes(Path(name), lease=lease) as cluster:
        path = Path(name) / "entries"
        holder = cluster.program("hold", "y")
        holder.read()
        with using(cluster.url, path, pause), mock.patch.object(host, "Link", Counted):
            trial = Trial(cluster)
            for number in range(1, rounds + 1):
                for kind in KINDS:
                    trial.change(kind)
                print(f"round {number} of {rounds} is done", file=sys.stderr, flush=True)
        is_held = holder.rest() == [["valid"], ["released"]]
        entries = read(path)
    report(trial.windows, entries)
    print(f"the lock that was held all the time is {'valid' if is_held else 'LOST'} at the end")
    return 0 if is_held and entries.is_rising and not entries.lost else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--use"]:
        asyncio.run(use(*sys.argv[2:]))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.002, help="between entries of a program")
    given = parser.parse_args()
    sys.exit(main(given.rounds, given.lease, given.pause))
