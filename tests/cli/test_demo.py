"""The demonstration as a user starts it: real nodes, real workers, and nothing left behind."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEMO = [sys.executable, "-m", "coterie", "demo"]
CLAIMS = (
    "never stuck",
    "tokens strictly grow",
    "nothing lost",
    "late write refused",
    "no other process failed",
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Let the demo make its files where they can be looked for, and mistake no cluster for its own."""
    strange = {"COTERIE_URL": "coterie://127.0.0.1:1", "COTERIE_SECRET": "of another cluster"}
    return {**os.environ, **strange, "TMPDIR": str(tmp_path), "TERM": "xterm"}


def processes_of(folder: Path) -> list[str]:
    """List the processes that were started with files in that folder."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_is_left_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(DEMO, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for claim in CLAIMS:
        assert re.search(f"^yes  {claim} ", done.stdout, re.MULTILINE), done.stdout
    reported = re.search(r"([\d,]+) entries reported, ([\d,]+) lines in the file", done.stdout)
    assert reported is not None
    assert reported[1] == reported[2]
    assert "writes refused by the fence" in done.stdout
    assert "n2 dead  n3 up  n4 stopped  n5 up" in done.stderr
    assert "\x1b" not in done.stderr
    assert "coterie tour" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_it_is_left_with_nothing_either(
    number: signal.Signals, environment: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(DEMO, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "workers start" in line)
        started = processes_of(tmp_path)
        process.send_signal(number)
        process.communicate()
    assert len(started) >= 5
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


@pytest.mark.usefixtures("adopting")
def test_who_kills_it_is_left_without_processes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Also without those that are stopped at that moment and cannot see that their input ends."""
    with subprocess.Popen(DEMO, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "workers start" in line)
        started = processes_of(tmp_path)
        node = next(line for line in started if "--node n3" in line)
        os.kill(int(node.split()[0]), signal.SIGSTOP)
        process.kill()
        process.communicate()
    assert len(started) >= 5
    until(lambda: processes_of(tmp_path) == [])


def test_on_a_terminal_the_picture_is_drawn_in_place(environment: dict[str, str]) -> None:
    size = {"LINES": "30", "COLUMNS": "100"}
    controller, terminal = pty.openpty()
    with subprocess.Popen(DEMO, env=environment | size, stderr=terminal) as process:
        os.close(terminal)
        shown = ""
        for text in texts(controller):
            shown += text
            if re.search(r"w1  \S*holds", shown) and process.poll() is None:
                process.send_signal(signal.SIGINT)
                break
        shown += "".join(texts(controller))
    os.close(controller)
    assert re.search(r"n5  \S*up", shown)
    assert re.search(r"\x1b\[\d+F", shown)
    assert shown.rstrip().endswith("\x1b[?25h")
    assert process.returncode == 130


def texts(controller: int) -> Iterator[str]:
    """Read from a terminal until its other end is closed."""
    while True:
        try:
            data = os.read(controller, 4096)
        except OSError:  # how Linux says that the other end is closed
            return
        if not data:
            return
        yield data.decode(errors="replace")
