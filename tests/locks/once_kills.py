"""Programs that are killed while they run a job once per period: between any two lines of what they run.

    python -m tests.locks.once_kills 50

kills a program before each line, and then in 50 rounds several in a row before any line; it prints how many there were, and fails if a period was started too often or not at all.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coterie
import coterie.locks.once.report
import coterie.sync
from coterie.engines.file import values
from coterie.engines.file.directory import value_file
from coterie.locks import value
from coterie.locks.once import once, plan, record

if TYPE_CHECKING:
    from types import FrameType

WATCHED = {module.__file__ for module in (once, plan, record, value, values, value_file)}
KEY = "2026-11-17"
SOME = 41  # lines between two kills, in the tests of each day


def come(folder: Path, attempts: int, kill_before: int = 0) -> int | None:
    """Begin the job in another process; return how many lines that took, None if it was killed before one."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _run(folder, attempts, kill_before, theirs)
    os.close(theirs)
    with os.fdopen(ours) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert text, "the program ended with an error"
    return int(text)


def starts(folder: Path) -> list[list[str]]:
    """Return attempt and token of each start of the job, as the job saw it."""
    with contextlib.suppress(FileNotFoundError):
        return [line.split() for line in (folder / "ran").read_text().splitlines()]
    return []


def _run(folder: Path, attempts: int, kill_before: int, said: int) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            lines += 1
            if lines == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        threading.settrace(trace)
        with (
            coterie.sync.connect(folder / "locks") as c,
            contextlib.suppress(coterie.NotDue),
            c.once("nightly", KEY, attempts=attempts) as run,
            (folder / "ran").open("a") as ran,
        ):
            ran.write(f"{run.attempt} {run.token}\n")
        os.write(said, b"%d" % lines)
    finally:
        os._exit(0)


def check(folder: Path, attempts: int) -> None:
    """Let programs come that nobody kills, and look at what was promised."""
    for _ in range(attempts + 1):
        assert come(folder, attempts) is not None
    began = starts(folder)
    assert len(began) <= attempts, f"{len(began)} starts in {folder}"
    tokens = [int(token) for _, token in began]
    assert tokens == sorted(set(tokens)), "each start has a larger token"
    numbers = [int(number) for number, _ in began]
    assert numbers == sorted(set(numbers)), "each is an attempt of its own"
    with coterie.sync.connect(folder / "locks") as c:
        found = c.read("nightly")
    assert found is not None
    decided = record.decode("nightly", found.data)
    assert len(began) <= decided.starts <= attempts
    assert decided.last.state == "done" or decided.starts == attempts, "no attempt is left unused"


def kill_before_each_line(folder: Path, attempts: int, step: int = 1) -> int:
    """Kill a program before each line, or each so many lines; return how many were killed."""
    lines = come(folder / "whole", attempts)
    assert lines is not None
    killed = 0
    for line in range(1, lines, step):
        place = folder / str(line)
        place.mkdir()
        # The order of lines of several threads differs a little from run to run.
        killed += come(place, attempts, line) is None
        check(place, attempts)
    return killed


def kill_at_random(folder: Path, attempts: int, rounds: int, seed: int = 1) -> int:
    """Kill several programs in a row, each before any line; return how many were killed."""
    choice, killed = random.Random(seed), 0
    for number in range(rounds):
        place = folder / f"random-{number}"
        place.mkdir()
        for _ in range(choice.randint(1, attempts + 1)):
            killed += come(place, attempts, choice.randint(1, 400)) is None
        check(place, attempts)
    return killed


def main(rounds: int) -> None:
    for attempts in (1, 2, 3):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "whole").mkdir()
            killed = kill_before_each_line(folder, attempts)
            killed += kill_at_random(folder, attempts, rounds)
        sys.stdout.write(f"attempts {attempts}: {killed} programs were killed\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        some = kill_before_each_line(Path(sys.argv[3]), int(sys.argv[2]), step=SOME)
        sys.stdout.write(f"{some}\n")
    else:
        main(int(sys.argv[1]))
