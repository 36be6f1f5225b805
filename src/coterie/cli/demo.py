"""`coterie demo`: a lock that survives dead nodes, shown with real processes in a few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli import demo_worker
from coterie.cli.common.output import print_table
from coterie.cli.common.signals import Signals
from coterie.cli.demo_worker import Entry, Ledger
from coterie.cluster.admin.status import HEALTHY, inspect
from coterie.cluster.client.access import Visit
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.security import Security
from coterie.errors import Unavailable
from coterie.testing.nodes import (
    NodeProcess,
    last_line,
    local_document,
    node_names,
    own_environment,
    url_of,
    write_document,
)

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Sequence

NODES = 5
WORKERS = 4
LEASE_SECONDS = 2.0
START_SECONDS_MAX = 12.0
VOTE_SECONDS = 0.05  # between two looks whether the nodes vote
PHASE_SECONDS = 2.0
PATIENCE_SECONDS = 6.0  # for what takes a lease at most on a machine that is not busy
LOOK_SECONDS = 0.02
FIRST_PHASE = 2  # before it nodes and workers start
INTERRUPTED = 130
INTRODUCTION = f"""\
{NODES} nodes on this machine grant one lock, with a lease of {LEASE_SECONDS:g} s. {WORKERS} workers compete for it;
while it holds the lock, a worker reads the last number in a file, works, and writes the next one.
"""
TRY_NEXT = """
Try next:
  coterie lock nightly -- echo mine    hold a lock while a command runs, on this machine
  coterie serve --dev 3                a cluster of your own to try things on
  coterie status --web                 locks, waits and deadlocks, live in the browser
  coterie lab                          play an algorithm by hand, and see where each move leads
  coterie tour                         the classic algorithms measured, verified and broken"""


@click.command("demo")
def command() -> int:
    """Show a lock that survives dead nodes.

    Five nodes and four workers run as processes on this machine; one node is killed, one is
    stopped, and then a worker that holds the lock. Takes less than half a minute and leaves nothing
    behind. Exits with 0 if nothing was lost, 1 otherwise.
    """
    click.echo(INTRODUCTION, err=True)
    return asyncio.run(_interruptible())


async def _interruptible() -> int:
    with Signals().handled():
        try:
            verdict = await _show()
        except asyncio.CancelledError:
            return INTERRUPTED
    _print(verdict)
    click.echo(TRY_NEXT, err=True)
    return 0 if verdict.holds else 1


async def _show() -> Verdict:
    state = DemoState()
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as path:
        async with child_processes(Path(path)) as children, Display(state).shown():
            return await perform(state, children)


def _print(verdict: Verdict) -> None:
    header = ["what happened", "entries", "longest gap"]
    rows = [[title, entries, f"{gap:.2f} s"] for title, entries, gap in verdict.passages]
    print_table(header, rows)
    click.echo()
    for finding in verdict.findings:
        answer = "yes" if finding.holds else "NO "
        click.echo(f"{answer}  {finding.claim:23}  {finding.evidence}")


# The processes: those that the demonstration starts end with it

# Reads process ids until its input ends, which happens when we end; then resumes all of them, so that
# a stopped process sees that its own input has ended, too.
RESUME_AT_THE_END = 'all=; while read -r pid; do all="$all $pid"; done; kill -CONT $all'


class Children:
    """Starts nodes and workers as processes; `child_processes` makes one and ends them all."""

    def __init__(self, folder: Path, resumer: Process) -> None:
        """Keep their files in that folder, and name each to the process that resumes them."""
        self.folder = folder
        self._resumer = resumer
        self._nodes: list[NodeProcess] = []
        self._workers: list[Process] = []

    def start_node(self, name: str, file: Path) -> NodeProcess:
        """Run a node of a new cluster."""
        flags = ("--config", str(file), "--new-cluster", "--quiet")
        node = NodeProcess(name, self._log(name), *flags)
        self._nodes.append(node)
        self._resume_at_the_end(node.pid)
        return node

    async def start_worker(self, name: str, url: str) -> Worker:
        """Run a worker; Ctrl-C reaches us and not it, and its input ends when we do."""
        arguments = ("-P", "-m", demo_worker.__name__, name, url, str(self.folder))
        with self._log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=own_environment(),
                process_group=0,
            )
        self._workers.append(process)
        self._resume_at_the_end(process.pid)
        return Worker(name, process)

    def last_words(self, name: str) -> str:
        """Return the last line that a process has written to stderr."""
        return last_line(self._log(name))

    async def kill_all(self) -> None:
        """Kill every process, also those that are stopped, and wait until they have ended."""
        for node in self._nodes:
            node.kill()
        for process in (self._resumer, *self._workers):
            send(process, signal.SIGKILL)
            await process.wait()

    def _resume_at_the_end(self, pid: int) -> None:
        assert self._resumer.stdin is not None
        self._resumer.stdin.write(b"%d\n" % pid)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextlib.asynccontextmanager
async def child_processes(folder: Path) -> AsyncIterator[Children]:
    """Let the body start processes; none of them is left at its end."""
    resumer = await asyncio.create_subprocess_exec(
        "sh", "-c", RESUME_AT_THE_END, stdin=PIPE, stderr=DEVNULL, process_group=0
    )
    children = Children(folder, resumer)
    try:
        yield children
    finally:
        await children.kill_all()


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended: the verdict finds out which ones did."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


async def start_nodes(children: Children, state: DemoState) -> str:
    """Start a new cluster, wait until all of its nodes vote, and return its URL; else raise `Unavailable`."""
    document = local_document(node_names(NODES), cluster="demo", lease=LEASE_SECONDS, data="data")
    file = write_document(document, children.folder)
    nodes = [children.start_node(name, file) for name in document["nodes"]]
    config = convert(document)
    addresses = [member.address for member in config.membership.members]
    visit = Visit(addresses, config.membership.cluster, Security())
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            await _until_all_vote(nodes, visit)
    except TimeoutError:
        raise Unavailable(
            f"the nodes did not start to vote within {START_SECONDS_MAX:g} s"
        ) from None
    state.addresses = {node.name: str(at) for node, at in zip(nodes, addresses, strict=True)}
    state.nodes += nodes
    return url_of(config)


async def _until_all_vote(nodes: Sequence[NodeProcess], visit: Visit) -> None:
    while True:
        for node in nodes:
            if node.condition == "dead":
                raise Unavailable(f"node {node.name} ended: {node.last_words()}")
        with contextlib.suppress(Unavailable):
            if (await inspect(visit, locks=False)).health == HEALTHY:
                return
        await asyncio.sleep(VOTE_SECONDS)


class Worker:
    """A worker process, seen from outside: what it prints about itself."""

    def __init__(self, name: str, process: Process) -> None:
        """Read what it prints until it ends."""
        self.name = name
        self.process = process
        self.condition = "starts"
        self.token = 0  # of its last hold
        self.written: list[int] = []  # tokens of the entries that it reports
        self.refused: list[int] = []
        self._listening = asyncio.ensure_future(self._listen())

    def stop_inside(self) -> None:
        """Make it stop in the middle of its next entry."""
        send(self.process, signal.SIGUSR1)

    def go_on(self) -> None:
        """Resume it; to the worker no time has passed."""
        send(self.process, signal.SIGCONT)

    def finish(self) -> None:
        """Make it end after its current entry."""
        send(self.process, signal.SIGTERM)

    @property
    def ended(self) -> bool:
        """Whether it has ended and all of its output was read."""
        return self.process.returncode is not None and self._listening.done()

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, *numbers = line.decode().split()
            self._hear(word, *map(int, numbers))
        self.condition = "ended"

    def _hear(self, word: str, token: int = 0) -> None:
        if word == "holds":
            self.token = token
        elif word == "wrote":
            self.written.append(token)
        elif word == "refused":
            self.refused.append(token)
        self.condition = "stopped" if word == "stops" else word


# What the display shows and the verdict judges


class Phase(NamedTuple):
    """A phase of the demonstration; it lasts until the next one begins."""

    title: str
    began_at: float  # by `time.monotonic()`


@dataclass
class DemoState:
    """What the display shows and the verdict judges."""

    began_at: float = field(default_factory=time.monotonic)
    nodes: list[NodeProcess] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)  # of nodes
    workers: list[Worker] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def begin(self, title: str) -> None:
        """Begin the next phase."""
        self.phases.append(Phase(title, time.monotonic()))

    @property
    def entries(self) -> int:
        """How many entries the workers have reported so far."""
        return sum(len(worker.written) for worker in self.workers)

    @property
    def holder(self) -> Worker | None:
        """The worker that holds the lock, according to what the workers print.

        A stopped worker believes that it holds until it wakes up; the largest token is right.
        """
        latest = max(self.workers, key=lambda worker: worker.token, default=None)
        return latest if latest and latest.condition in ("holds", "stopped") else None


# The phases: which process is killed or stopped, and when


async def perform(state: DemoState, children: Children) -> Verdict:
    """Run all phases, and judge what the ledger and the workers say."""
    state.begin(f"{NODES} nodes start")
    url = await start_nodes(children, state)
    state.begin(f"{WORKERS} workers start")
    for number in range(1, WORKERS + 1):
        state.workers.append(await children.start_worker(f"w{number}", url))
    await _until(lambda: all(worker.written for worker in state.workers))
    await _fail_nodes(state)
    await _stop_a_holder(state)
    for worker in state.workers:
        worker.finish()
    await _until(lambda: all(worker.ended for worker in state.workers))
    return judge(state, Ledger(children.folder).entries(), children.last_words)


async def _fail_nodes(state: DemoState) -> None:
    _, second, _, fourth, _ = state.nodes
    state.begin("all nodes vote")
    await _go_on_for(state, PHASE_SECONDS)
    second.kill()
    state.begin(f"{second.name} is killed (SIGKILL)")
    await _go_on_for(state, PHASE_SECONDS)
    fourth.stop()
    state.begin(f"{fourth.name} is stopped as well (SIGSTOP)")
    await _go_on_for(state, LEASE_SECONDS + PHASE_SECONDS / 2)
    fourth.go_on()
    state.begin(f"{fourth.name} goes on (SIGCONT)")
    await _go_on_for(state, PHASE_SECONDS)


async def _stop_a_holder(state: DemoState) -> None:
    """Stop a worker between its last look at the lock and its write, for longer than its lease."""
    late = state.workers[2]
    state.begin(f"{late.name} is stopped while it holds the lock")
    late.stop_inside()
    await _until(lambda: late.condition == "stopped")
    await _until(lambda: _overtaken(late, state))
    state.begin(f"the others have gone on without {late.name}")
    await _go_on_for(state, PHASE_SECONDS / 2)
    late.go_on()
    state.begin(f"{late.name} goes on, and writes too late")
    await _until(lambda: late.refused or late.process.returncode is not None)
    await _go_on_for(state, PHASE_SECONDS / 2)


def _overtaken(late: Worker, state: DemoState) -> bool:
    return any(worker.written and worker.written[-1] > late.token for worker in state.workers)


async def _go_on_for(state: DemoState, seconds: float) -> None:
    """Wait, and longer if no worker has entered since."""
    before = state.entries
    deadline = time.monotonic() + seconds
    await _until(lambda: time.monotonic() >= deadline)
    await _until(lambda: state.entries > before)


async def _until(condition: Callable[[], object]) -> None:
    """Wait for a condition up to a limit: the verdict finds what has not happened."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - clocks set no event
        await asyncio.sleep(LOOK_SECONDS)


# The display: redrawn in place on a terminal, otherwise one line a second

DRAW_SECONDS = 0.1
PLAIN_SECONDS = 1.0
LINES_MIN = 20  # less is not enough to redraw the picture in place
COLOURS = {"up": "green", "holds": "green", "dead": "red", "stopped": "yellow"}
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_REST = "\x1b[K"


class Display:
    """Shows the state of the demonstration on stderr."""

    def __init__(self, state: DemoState) -> None:
        """Find out whether stderr is a terminal."""
        self._state = state
        tall = shutil.get_terminal_size().lines >= LINES_MIN
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and tall
        self._coloured = not os.environ.get("NO_COLOR")
        self._drawn = 0  # lines that stand on the terminal
        self._announced = 0  # phases
        self._due = 0.0

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show the state while the body runs, and leave the last one on the screen."""
        showing = asyncio.ensure_future(self._show())
        try:
            yield
        finally:
            showing.cancel()
            self._refresh()
            if self._terminal:
                click.echo(SHOW_CURSOR, err=True, nl=False)

    async def _show(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(DRAW_SECONDS)

    def _refresh(self) -> None:
        if self._terminal:
            self._draw()
        else:
            self._print()

    def _draw(self) -> None:
        width, _ = shutil.get_terminal_size()
        lines = [self._colour(line[: width - 1]) + ERASE_REST for line in picture(self._state)]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        click.echo(HIDE_CURSOR + back + "\n".join(lines), err=True)
        self._drawn = max(self._drawn, len(lines))

    def _colour(self, line: str) -> str:
        if not self._coloured:
            return line
        for word, colour in COLOURS.items():
            if f" {word} " in line:
                return line.replace(f" {word} ", f" {click.style(word, fg=colour)} ", 1)
        return line

    def _print(self) -> None:
        for phase in self._state.phases[self._announced :]:
            click.echo(f"{phase.began_at - self._state.began_at:5.1f} s  {phase.title}", err=True)
            self._announced += 1
        now = time.monotonic()
        if now >= self._due and self._state.workers:
            self._due = now + PLAIN_SECONDS
            click.echo(summary(self._state), err=True)


def picture(state: DemoState) -> list[str]:
    """Return the lines that show nodes, workers and holder; their number never changes."""
    lines = [f"  {title_of(state)}", ""]
    lines += [
        f"  {node.name}  {node.condition:8}  process {node.pid:<8} {state.addresses[node.name]}"
        for node in state.nodes
    ]
    lines.append("")
    for worker in state.workers:
        token = f"token {worker.token}" if worker.condition in ("holds", "stopped") else ""
        count = f"{len(worker.written):,} entries"
        lines.append(
            f"  {worker.name}  {worker.condition:8}  process {worker.process.pid:<8} {count:14} {token}"
        )
    lines += ["", f"  {holder_of(state)}; {state.entries:,} entries so far", ""]
    return lines


def summary(state: DemoState) -> str:
    """Return the same in one line."""
    seconds = time.monotonic() - state.began_at
    nodes = "  ".join(f"{node.name} {node.condition}" for node in state.nodes)
    return f"{seconds:5.1f} s  {nodes}  {holder_of(state)}  {state.entries:,} entries"


def title_of(state: DemoState) -> str:
    """Return the title of the current phase, with the time."""
    seconds = time.monotonic() - state.began_at
    return f"{seconds:4.1f} s  {state.phases[-1].title}" if state.phases else ""


def holder_of(state: DemoState) -> str:
    """Name the worker that holds the lock, and its token."""
    holder = state.holder
    return f"{holder.name} holds with token {holder.token}" if holder else "no holder"


# The verdict: what the ledger shows, and whether the workers agree with it


class Passage(NamedTuple):
    """A phase, and how the entries went on in it."""

    title: str
    entries: int
    longest_gap: float  # in seconds, between entries of which the later one is in this phase


class Finding(NamedTuple):
    """A claim, whether it holds, and what shows it."""

    holds: bool
    claim: str
    evidence: str


class Verdict(NamedTuple):
    """The result of a demonstration."""

    passages: list[Passage]
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(finding.holds for finding in self.findings)


def judge(state: DemoState, entries: Sequence[Entry], last_words: Callable[[str], str]) -> Verdict:
    """Judge a demonstration that is over; `last_words` returns a process's last line of stderr."""
    passages = divide(state.phases, entries)[FIRST_PHASE:]
    reported = [token for worker in state.workers for token in worker.written]
    findings = [
        never_stuck(passages),
        growing(entries),
        nothing_lost(entries, reported),
        _fenced(state),
        _alive(state, last_words),
    ]
    return Verdict(passages, findings)


def divide(phases: Sequence[Phase], entries: Sequence[Entry]) -> list[Passage]:
    """Return for each phase its number of entries and the longest gap before one of them."""
    ends = [phase.began_at for phase in phases[1:]] + [float("inf")]
    gaps = [(later, later.written_at - entry.written_at) for entry, later in pairwise(entries)]
    passages = []
    for phase, end in zip(phases, ends, strict=True):
        count = sum(phase.began_at <= entry.written_at < end for entry in entries)
        within = [gap for later, gap in gaps if phase.began_at <= later.written_at < end]
        passages.append(Passage(phase.title, count, max(within, default=0.0)))
    return passages


def never_stuck(passages: Sequence[Passage]) -> Finding:
    """Check that a worker entered in every phase."""
    claim = "never stuck"
    for passage in passages:
        if not passage.entries:
            return Finding(False, claim, f"no worker entered after: {passage.title}")
    longest = max(passages, key=lambda passage: passage.longest_gap)
    evidence = f"longest gap between entries {longest.longest_gap:.2f} s: {longest.title}"
    return Finding(True, claim, evidence)


def growing(entries: Sequence[Entry]) -> Finding:
    """Check that each entry has a larger token than the one before it."""
    claim = "tokens strictly grow"
    for before, after in pairwise(entries):
        if before.token >= after.token:
            evidence = f"{after.worker} wrote with {after.token} after {before.token}"
            return Finding(False, claim, evidence)
    span = f"from {entries[0].token} to {entries[-1].token}" if entries else "no entry"
    return Finding(bool(entries), claim, span)


def nothing_lost(entries: Sequence[Entry], reported: Sequence[int]) -> Finding:
    """Check that every entry counts: none is missing, none was overwritten.

    Two workers inside at the same time would read the same number and write the same number.
    """
    claim = "nothing lost"
    for number, entry in enumerate(entries, 1):
        if entry.number != number:
            evidence = f"{entry.worker} wrote number {entry.number} where {number} was expected"
            return Finding(False, claim, evidence)
    agree = sorted(reported) == sorted(entry.token for entry in entries)
    evidence = f"{len(reported):,} entries reported, {len(entries):,} lines in the file"
    return Finding(agree and bool(entries), claim, evidence)


def _fenced(state: DemoState) -> Finding:
    refused = [(worker.name, token) for worker in state.workers for token in worker.refused]
    if not refused:
        return Finding(False, "late write refused", "no write came too late")
    name, token = refused[-1]
    evidence = (
        f"writes refused by the fence: {len(refused)}; the last from {name} with token {token}"
    )
    return Finding(True, "late write refused", evidence)


def _alive(state: DemoState, last_words: Callable[[str], str]) -> Finding:
    dead = [node.name for node in state.nodes if node.condition == "dead"]
    failed = [worker.name for worker in state.workers if worker.process.returncode != 0]
    evidence = f"dead nodes: {', '.join(dead)}; failed workers: {', '.join(failed) or 'none'}"
    for name in [*dead[1:], *failed][:1]:
        evidence += f"; {name}: {last_words(name)}"
    return Finding(len(dead) == 1 and not failed, "no other process failed", evidence)
