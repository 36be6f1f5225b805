"""Programs that are killed while they run a job once per period: between any two lines of what they run.

    python -m tests.locks.once_kills 50 [ENGINE...]

starts a server of each engine, all that keep values if none is named, and kills programs there in 50 rounds for one attempt, for two and
for three: several in a row, each before any line. On `file` it also kills one before each line. It prints how many were killed, and
fails if a period was started too often, or an attempt was left unused.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import coterie
import coterie.locks.once.report
import coterie.sync
from coterie.locks.once.record import decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from coterie.locks.once.record import OnceRecord

WATCHED = ("/locks/once/", "/locks/value.py", "/values.py", "/value_file.py")
KEY = "2026-11-17"
SOME = 61  # lines between two kills, in the tests of each day


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


def come(job: Job, attempts: int, kill_before: int = 0) -> int | None:
    """Begin the job in another process; return how many lines that took, None if it was killed before one."""
    lines = in_child(lambda: b"%d" % _run(job, attempts, kill_before))
    return None if lines is None else int(lines)


def _run(job: Job, attempts: int, kill_before: int) -> int:
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        if event == "line":
            lines += 1
            if lines == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    with (
        coterie.sync.connect(job.url) as c,
        contextlib.suppress(coterie.NotDue),
        c.once(job.name, KEY, attempts=attempts) as run,
        job.ran.open("a") as ran,
    ):
        ran.write(f"{run.attempt} {run.token}\n")
    return lines


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


def check(job: Job, attempts: int) -> None:
    """Let programs come that nobody kills, and look at what was promised."""
    for _ in range(attempts + 1):
        assert come(job, attempts) is not None
    began = job.starts()
    assert len(began) <= attempts, f"{len(began)} starts of {job}"
    tokens = [int(token) for _, token in began]
    assert tokens == sorted(set(tokens)), "each start has a larger token"
    numbers = [int(number) for number, _ in began]
    assert numbers == sorted(set(numbers)), "each is an attempt of its own"
    record = record_of(job)
    assert len(began) <= record.starts <= attempts
    assert record.last.state == "done" or record.starts == attempts, "no attempt is left unused"


def kill_before_each_line(url: str, folder: Path, attempts: int, step: int = 1) -> int:
    """Kill a program before each line, or each so many lines; return how many were killed."""
    lines = come(Job(url, f"whole-{attempts}", folder / "whole"), attempts)
    assert lines is not None
    killed = 0
    for line in range(1, lines, step):
        job = Job(url, f"{attempts}-{line}", folder / f"{attempts}-{line}")
        # The order of lines of several threads differs a little from run to run.
        killed += come(job, attempts, line) is None
        check(job, attempts)
    return killed


def kill_at_random(url: str, folder: Path, attempts: int, rounds: int, seed: int = 1) -> int:
    """Kill several programs in a row, each before any line; return how many were killed."""
    choice, killed = random.Random(seed), 0
    lines = come(Job(url, f"any-{attempts}", folder / "any"), attempts)
    assert lines is not None
    for number in range(rounds):
        job = Job(url, f"random-{attempts}-{number}", folder / f"random-{attempts}-{number}")
        for _ in range(choice.randint(1, attempts + 1)):
            killed += come(job, attempts, choice.randint(1, lines)) is None
        check(job, attempts)
    return killed


def main(rounds: int, engines: list[str]) -> None:
    from tests.engines.conformance.suppliers import (  # noqa: PLC0415 - not in the tests of each day
        SUPPLIERS,
        VALUES,
        Missing,
    )

    for engine in engines or SUPPLIERS:
        with tempfile.TemporaryDirectory() as name, contextlib.suppress(Missing):
            folder = Path(name)
            with SUPPLIERS[engine](folder / "server") as supplier:
                if VALUES not in supplier.can:
                    continue
                for attempts in (1, 2, 3):
                    killed = kill_at_random(supplier.url(), folder, attempts, rounds)
                    if engine == "file":
                        killed += kill_before_each_line(supplier.url(), folder, attempts)
                    sys.stdout.write(f"{engine}, attempts {attempts}: {killed} were killed\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        place = Path(sys.argv[3])
        some = kill_before_each_line(f"file:{place}/locks", place, int(sys.argv[2]), step=SOME)
        sys.stdout.write(f"{some}\n")
    else:
        main(int(sys.argv[1]), sys.argv[2:])
