"""Programs that are killed while they run a job once per period: between any two lines of what they run.

    python -m tests.locks.once_kills 50 [ENGINE...]

starts a server of each engine, all that keep values if none is named, and kills 50 programs there in each step of a run, such as while
*started* is being written, each before any line of that step; for one attempt and for two. Several jobs run at once, since those that follow
a killed program mostly wait. On `file` it also kills one before each line of all. It prints how many were killed, and fails if a period was
started too often, an attempt was left unused, or the job ran another number of times than the table in docs/once.md says.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import coterie
import coterie.locks.once.report
import coterie.sync
from coterie.locks.once.record import decode
from coterie.locks.url import engine_of_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from coterie.locks.once.record import OnceRecord

ONCE, VALUE = "/locks/once/once.py", "/locks/value.py"
WATCHED = ("/locks/once/", VALUE, "/values.py", "/value_file.py")
KEY = "2026-11-17"
JOBS_AT_ONCE = 8
DISTURBED_MAX = 20  # programs in a row
ROUNDS_MAX = 20  # for one kill in a step whose lines differ from run to run

STEPS = (
    "before *started* is written",
    "while *started* is being written",
    "before the job",
    "in the job",
    "before the result is written",
    "while the result is being written",
    "after that",
)
JOB = STEPS.index("in the job")

# How often the job runs where one program is killed in that step, with one attempt and with two; of the next ones none is.
RUNS = (
    ({1}, {1}),
    ({0, 1}, {1}),  # it was written, or not; with two attempts one start may be counted in vain
    ({0}, {1}),
    ({0, 1}, {1, 2}),  # before the job has done its work, or after
    ({1}, {2}),  # it runs again
    ({1}, {1, 2}),
    ({1}, {1}),
)


class Job(NamedTuple):
    """A job of its own, and the file to which it writes when it runs."""

    url: str
    name: str
    ran: Path

    def starts(self) -> list[list[str]]:
        """Return attempt and token of each start of the job, as the job saw it."""
        with contextlib.suppress(FileNotFoundError):
            return [line.split() for line in self.ran.read_text().splitlines()]
        return []


def in_child(work: Callable[[], bytes]) -> bytes | None:
    """Do this in another process, and return what it returns; None if it was killed.

    All that speaks to a server does it there: a connection does not survive a fork.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        try:
            os.write(theirs, b"." + work())
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert text, "the program ended with an error"
    return text[1:]


class Kill(NamedTuple):
    """Where a program is killed: before a line, counted in all that it runs, or in one step of that."""

    line: int
    step: int | None = None


class Progress:
    """How far a program has come: in which step of a run it is, and before which line."""

    def __init__(self, kill: Kill | None) -> None:
        self.step = 0
        self.lines = [0] * len(STEPS)
        self._kill = kill

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count the lines of the thread that speaks to the server."""
        path = frame.f_code.co_filename
        if not any(part in path for part in WATCHED):
            return None
        if event == "line":
            name = frame.f_code.co_name
            writes = path.endswith(VALUE) and name == "_write"
            # Other functions of that module run beside the write, such as looks at the record.
            goes_on = path.endswith(ONCE) and name in ("_start", "_close")
            if (writes and self.step in (0, 4)) or (goes_on and self.step in (1, 5)):
                self.step += 1
            self.come_to_line()
        return self.trace

    def come_to_line(self) -> None:
        """Count a line, before it is run."""
        self.lines[self.step] += 1
        if self._kill is None:
            return
        line, step = self._kill
        if line == (sum(self.lines) if step is None else self.lines[step] * (step == self.step)):
            os.kill(os.getpid(), signal.SIGKILL)


def come(job: Job, attempts: int, kill: Kill | None = None) -> list[int] | None:
    """Begin the job in another process; return how many lines each step took, None if it was killed before one.

    Of a program that loses its lock, or its server, which has no time for it on a busy machine, none are returned.
    """

    def run() -> bytes:
        try:
            return " ".join(map(str, _run(job, attempts, kill))).encode()
        except (coterie.LockLost, coterie.Unavailable):
            return b""

    lines = in_child(run)
    return None if lines is None else [int(count) for count in lines.split()]


def come_to_the_end(job: Job, attempts: int) -> tuple[list[int], int]:
    """Begin it until a program has the time that it needs; return how many lines it took, and how many had not."""
    for disturbed in range(DISTURBED_MAX):
        lines = come(job, attempts)
        assert lines is not None
        if lines:
            return lines, disturbed
    raise AssertionError("this machine is too busy")


def _run(job: Job, attempts: int, kill: Kill | None) -> list[int]:
    progress = Progress(kill)
    threading.settrace(progress.trace)
    with coterie.sync.connect(job.url) as c, contextlib.suppress(coterie.NotDue):
        run = c.once(job.name, KEY, attempts=attempts).__enter__()
        progress.step = JOB
        progress.come_to_line()
        with job.ran.open("a") as ran:
            ran.write(f"{run.attempt} {run.token}\n")
        progress.come_to_line()
        progress.step += 1
        run.finish()
    return progress.lines


def record_of(job: Job) -> OnceRecord:
    """Return what is recorded."""

    def read() -> bytes:
        with coterie.sync.connect(job.url) as c:
            found = c.read(job.name)
        assert found is not None
        return found.data

    data = in_child(read)
    assert data is not None
    return decode(job.name, data)


def check(job: Job, attempts: int) -> int:
    """Let programs come that nobody kills, and look at what was promised; return how many were disturbed."""
    disturbed = sum(come_to_the_end(job, attempts)[1] for _ in range(attempts + 1))
    began = job.starts()
    assert len(began) <= attempts, f"{len(began)} starts of {job}"
    tokens = [int(token) for _, token in began]
    assert tokens == sorted(set(tokens)), "each start has a larger token"
    numbers = [int(number) for number, _ in began]
    assert numbers == sorted(set(numbers)), "each is an attempt of its own"
    record = record_of(job)
    assert len(began) <= record.starts <= attempts
    assert record.last.state == "done" or record.starts == attempts, "no attempt is left unused"
    return disturbed


def kill_before_each_line(url: str, folder: Path, attempts: int) -> int:
    """Kill a program before each line; return how many were killed."""
    lines, _ = come_to_the_end(Job(url, f"whole-{attempts}", folder / "whole"), attempts)
    killed = 0
    for line in range(1, sum(lines)):
        job = Job(url, f"{attempts}-{line}", folder / f"{attempts}-{line}")
        # The order of lines of several threads differs a little from run to run.
        killed += come(job, attempts, Kill(line)) is None
        check(job, attempts)
    return killed


def kill_in_step(url: str, folder: Path, attempts: int, step: int, rounds: int) -> int:
    """Kill programs in one step of a run, sometimes two in a row; return how many were killed."""
    choice = random.Random(f"{attempts} {step}")
    whole = f"whole-{attempts}-{step}"
    lines, _ = come_to_the_end(Job(url, whole, folder / whole), attempts)
    assert all(lines), lines
    killed = 0
    for number in range(ROUNDS_MAX * rounds):
        if killed >= rounds:
            break
        name = f"{attempts}-{step}-{number}"
        job = Job(url, name, folder / name)
        kills = [
            come(job, attempts, Kill(choice.randint(1, lines[step]), step)) is None
            for _ in range(choice.randint(1, attempts))
        ]
        killed += sum(kills)
        if not check(job, attempts) and kills == [True]:
            assert len(job.starts()) in RUNS[step][attempts - 1], (STEPS[step], job.starts())
    assert killed >= rounds, f"{STEPS[step]}: {killed}"
    return killed


def kill_in_each_step(url: str, folder: Path, engine: str, rounds: int) -> None:
    """Kill programs in each step, with one attempt and with two."""
    # What each program would have to import.
    importlib.import_module("coterie.locks.coordinator")
    with contextlib.suppress(ImportError):
        importlib.import_module("uvloop")
    engine_of_url(url)
    # Forked, as the programs are: and its processes have one thread each, so they can fork.
    with ProcessPoolExecutor(JOBS_AT_ONCE, get_context("fork")) as pool:
        counts = {
            (attempts, step): pool.submit(kill_in_step, url, folder, attempts, step, rounds)
            for attempts in (1, 2)
            for step in range(len(STEPS))
        }
        for (attempts, step), count in counts.items():
            report(f"{engine}, attempts {attempts}, {STEPS[step]}: {count.result()} were killed")


def main(rounds: int, engines: list[str]) -> None:
    from coterie.lab.servers.child import ServerMissing  # noqa: PLC0415 - not in the tests of each day
    from coterie.lab.servers.supplier import VALUES  # noqa: PLC0415 - as above
    from tests.engines.conformance.suppliers import SUPPLIERS  # noqa: PLC0415 - as above

    for engine in engines or SUPPLIERS:
        with tempfile.TemporaryDirectory() as name, contextlib.suppress(ServerMissing):
            folder = Path(name)
            with SUPPLIERS[engine](folder / "server") as supplier:
                if VALUES not in supplier.can:
                    continue
                kill_in_each_step(supplier.url(), folder, engine, rounds)
                for attempts in (1, 2) if engine == "file" else ():
                    count = kill_before_each_line(supplier.url(), folder, attempts)
                    report(f"{engine}, attempts {attempts}, each line: {count} were killed")


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        place = Path(sys.argv[3])
        locks, number = f"file:{place}/locks", int(sys.argv[2])
        counts = [kill_in_step(locks, place, number, step, 1) for step in range(len(STEPS))]
        report(str(sum(counts)))
    else:
        main(int(sys.argv[1]), sys.argv[2:])
