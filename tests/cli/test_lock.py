"""`coterie lock` from outside: exit statuses, signals, the child's surroundings, loss."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cli import run
from coterie.errors import UsageError
from coterie.locks.duration import duration
from tests.processes import (
    BOUND_SECONDS,
    COTERIE,
    Directory,
    directory,
    is_running,
    kill,
    line,
    until,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

# Prints the signals that it gets, by name, and ends at TERM.
LISTENER = """
import signal, sys
def tell(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(42)
for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), tell)
print("listening", flush=True)
while True:
    signal.pause()
"""


class FullCommand(Directory):
    """A lock directory whose commands get an option as only the full command reads it."""

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        if arguments[0] == "lock":
            arguments = ("lock", "-E", "+75", *arguments[1:])
        return super().start(*arguments, **options)


@pytest.fixture(params=[Directory, FullCommand])
def locks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Directory]:
    """A directory in which `coterie lock` takes the shortcut where it can, or never."""
    opened = request.param(tmp_path / "locks")
    try:
        yield opened
    finally:
        opened.end()


@pytest.fixture
def held(locks: Directory) -> subprocess.Popen[str]:
    """A process that holds the lock `a` until its input ends."""
    holder = locks.start("lock", "a")
    assert line(holder).startswith("a ")
    return holder


def listener(locks: Directory, *options: str) -> subprocess.Popen[str]:
    process = locks.start("lock", *options, "a", "--", sys.executable, "-c", LISTENER)
    assert line(process) == "listening"
    return process


@pytest.mark.parametrize("status", [0, 7, 75])
def test_the_exit_status_of_the_child_is_kept(locks: Directory, status: int) -> None:
    assert locks.run("lock", "a", "sh", "-c", f"exit {status}").returncode == status


def test_a_child_that_a_signal_killed_is_told_of_as_shells_do(locks: Directory) -> None:
    assert locks.run("lock", "a", "sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_what_cannot_be_started_is_told_of_as_shells_do(locks: Directory, tmp_path: Path) -> None:
    missing = locks.run("lock", "a", "no-such-program")
    assert (missing.returncode, "no-such-program" in missing.stderr) == (127, True)
    (tmp_path / "script").touch(mode=0o644)
    assert locks.run("lock", "a", str(tmp_path / "script")).returncode == 126


def test_the_child_gets_its_arguments_streams_and_token(locks: Directory) -> None:
    script = 'read line; echo "$line|$1|$2"; echo talk >&2; env | grep ^COTERIE_'
    process = locks.start("lock", "a/b", "--", "sh", "-c", script, "sh", "-n", "two words")
    stdout, stderr = process.communicate("from stdin\n", timeout=BOUND_SECONDS)
    first, *environment = stdout.splitlines()
    assert first == "from stdin|-n|two words"
    assert stderr == "talk\n"
    facts = dict(text.split("=", 1) for text in environment)
    assert facts["COTERIE_LOCK"] == "a/b"
    assert int(facts["COTERIE_TOKEN"]) > 0
    assert float(facts["COTERIE_WAITED"]) >= 0


def test_a_text_for_the_shell_may_stand_before_or_after_the_name(locks: Directory) -> None:
    assert locks.run("lock", "-c", "exit 3", "a").returncode == 3
    assert locks.run("lock", "a", "-c", "exit 4").returncode == 4


def test_a_lock_that_is_not_to_be_had_in_time(
    locks: Directory, held: subprocess.Popen[str], tmp_path: Path
) -> None:
    touch = ("touch", str(tmp_path / "ran"))
    for options, status in (
        (("-n",), 75),
        (("-w", "10ms"), 75),
        (("-n", "-E", "5"), 5),
        (("-n", "--also", "a", "b"), 75),
    ):
        name = () if "b" in options else ("a",)
        outcome = locks.run("lock", *options, *name, *touch)
        assert outcome.returncode == status
        assert "not obtained" in outcome.stderr
        assert f":{held.pid};" in outcome.stderr
    assert not (tmp_path / "ran").exists(), "the command ran without the lock"


def test_several_holders_shared_holders_and_more_than_one_lock(locks: Directory) -> None:
    first = locks.start("lock", "-k", "2", "s")
    assert line(first).startswith("s/permit-1 ")
    second = locks.start("lock", "-k", "2", "s")
    assert line(second).startswith("s/permit-2 ")
    assert locks.run("lock", "-n", "-k", "2", "s", "true").returncode == 75
    reader = locks.start("lock", "-s", "r")
    assert line(reader).startswith("r ")
    assert locks.run("lock", "-n", "-s", "r", "true").returncode == 0
    assert locks.run("lock", "-n", "r", "true").returncode == 75
    both = locks.run("lock", "--also", "x", "y", "sh", "-c", "echo $COTERIE_LOCK $COTERIE_TOKEN")
    names, tokens = both.stdout.split()
    assert names == "y,x"
    assert len(tokens.split(",")) == 2


def test_without_a_command_it_holds_until_the_end_of_input_or_a_signal(locks: Directory) -> None:
    for end in ("input", signal.SIGTERM, signal.SIGINT):
        holder = locks.start("lock", "a")
        assert line(holder).startswith("a ")
        assert locks.run("lock", "-n", "a", "true").returncode == 75
        if isinstance(end, signal.Signals):
            holder.send_signal(end)
        holder.communicate(timeout=BOUND_SECONDS)
        assert holder.returncode == 0
        assert locks.holders("a") == []


def test_signals_are_forwarded_and_the_lock_is_kept_until_the_child_ends(locks: Directory) -> None:
    process = listener(locks)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        process.send_signal(getattr(signal, name))
        assert line(process) == name
        assert len(locks.holders("a")) == 1
    process.send_signal(signal.SIGTERM)
    assert line(process) == "SIGTERM"
    assert process.wait(BOUND_SECONDS) == 42


def test_a_signal_reaches_everything_that_the_command_has_started(locks: Directory) -> None:
    process = locks.start("lock", "a", "-c", "sleep 1000 & echo $!; wait")
    sleeper = int(line(process))
    process.send_signal(signal.SIGTERM)
    assert process.wait(BOUND_SECONDS) == 128 + signal.SIGTERM
    until(lambda: not is_running(sleeper))


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_withdraws_the_request(locks: Directory, number: int) -> None:
    waiter = locks.start("lock", "a", "true")
    until(lambda: locks.waiters("a"))
    waiter.send_signal(number)
    assert waiter.wait(BOUND_SECONDS) == 130
    assert locks.waiters("a") == []


def lose(locks: Directory) -> None:
    shutil.rmtree(locks.folder)


def test_on_loss_the_child_is_asked_to_end(locks: Directory) -> None:
    process = listener(locks)
    lose(locks)
    assert line(process) == "SIGTERM"
    _, stderr = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 79
    assert "lost" in stderr


def test_on_loss_a_child_that_does_not_end_is_killed_with_its_group(locks: Directory) -> None:
    script = (
        "trap '' TERM; (trap '' TERM; echo $$ up; exec sleep 1000) & wait; wait; exec sleep 1000"
    )
    process = locks.start("lock", "--kill-after", "50ms", "a", "sh", "-c", script)
    child = int(line(process).split()[0])
    lose(locks)
    process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 79
    until(lambda: not is_running(child))


def test_on_loss_it_kills_at_once_or_not_at_all_if_told_so(locks: Directory) -> None:
    killed = listener(locks, "--on-lost", "kill", "--kill-after", "1h")
    lose(locks)
    stdout, _ = killed.communicate(timeout=BOUND_SECONDS)
    assert (stdout, killed.returncode) == ("", 79)
    script = "echo up; read line; echo done"
    spared = locks.start("lock", "--on-lost", "ignore", "a", "sh", "-c", script)
    assert line(spared) == "up"
    lose(locks)
    stdout, _ = spared.communicate("\n", timeout=BOUND_SECONDS)
    assert (stdout, spared.returncode) == ("done\n", 79)


def test_if_it_is_killed_the_lock_stays_taken_until_the_command_has_ended(
    locks: Directory,
) -> None:
    process = locks.start("lock", "a", "sh", "-c", "echo up; read line; echo done")
    assert line(process) == "up"
    kill(process)
    assert locks.run("lock", "-n", "a", "true").returncode == 75
    waiter = locks.start("lock", "a")
    until(lambda: locks.waiters("a"))
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    stdin.write("\n")
    stdin.flush()
    assert stdout.readline() == "done\n"
    assert line(waiter).startswith("a ")


def test_what_the_command_leaves_in_the_background_does_not_keep_the_lock(
    locks: Directory,
) -> None:
    outcome = locks.run("lock", "a", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    try:
        assert locks.run("lock", "-n", "a", "true").returncode == 0
    finally:
        os.kill(int(outcome.stdout), signal.SIGKILL)


@contextlib.contextmanager
def on_terminal(locks: Directory, *program: str) -> Iterator[tuple[int, int]]:
    """Run `coterie lock a` with a terminal of its own; gives its id and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(locks.environment)
        os.execv(COTERIE[0], [*COTERIE, "lock", "a", "--", *program])  # noqa: S606 - no shell
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)


def read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        assert select.select([terminal], [], [], BOUND_SECONDS)[0], seen
        seen += os.read(terminal, 1000)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_on_a_terminal_the_child_reads_from_it_and_gets_its_keys(locks: Directory) -> None:
    script = "read x; echo got $x; read x; echo got $x; exec sleep 1000"
    with on_terminal(locks, "sh", "-c", script) as (pid, terminal):
        os.write(terminal, b"hello\n")
        read_until(terminal, b"got hello")
        os.write(terminal, b"\x1a")  # Ctrl-Z stops the child, and we follow so that a shell sees it
        assert os.WIFSTOPPED(ended(pid))
        os.kill(pid, signal.SIGCONT)
        os.write(terminal, b"again\n")
        read_until(terminal, b"got again")
        os.write(terminal, b"\x03")
        assert os.waitstatus_to_exitcode(ended(pid)) == 128 + signal.SIGINT


def ended(pid: int) -> int:
    """Wait for a process that is our child to end or stop; give its status."""
    statuses: list[int] = []

    def look() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        statuses.append(status)
        return found == pid

    until(look)
    return statuses[-1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a\tb", "true"], "at position 2 cannot be printed"),
        (["-n", "-w", "1", "a"], "exclude each other"),
        (["-s", "-k", "2", "a"], "exclude each other"),
        (["-w", "5x", "a"], "expected a duration such as 5, 5s, 250ms, 2m or 1d, got '5x'"),
        (["a", "-n", "true"], "before the name"),
        (["-c", "true", "a", "true"], "not both"),
        (["a", "-c"], "-c takes one argument"),
        (["--on-lost", "pray", "a"], "pray"),
        ([], "NAME"),
    ],
)
def test_bad_usage_is_refused_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lock", *arguments]) == 64
    stderr = capsys.readouterr().err
    assert complaint in stderr
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("5s", 5),
        ("250ms", 0.25),
        ("2m", 120),
        ("1.5h", 5400),
        ("1d", 86400),
        ("2w", 1209600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5 s", "-1", "5y", "inf"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="expected a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["lock", "a", "true"], {"asyncio", "click", "msgspec", "numpy", "pathlib", "socket"}),
        (["lock", "-w", "5s", "-s", "a", "--", "true"], {"asyncio", "click", "msgspec"}),
        (["lock", "--wait=5s", "a", "true"], {"numpy", "coterie.catalogue", "coterie.trace"}),
    ],
)
def test_the_command_starts_without_what_it_does_not_need(
    tmp_path: Path, arguments: list[str], heavy: set[str]
) -> None:
    program = (
        f"import sys; from coterie.cli import run; status = run({arguments})\n"
        f"print(status, sorted({heavy} & set(sys.modules)))"
    )
    with directory(tmp_path / "locks") as locks:
        process = locks.python("-c", program)
        assert process.communicate(timeout=BOUND_SECONDS)[0] == "0 []\n"


def test_the_shortcut_shows_who_holds_as_the_full_command_does(tmp_path: Path) -> None:
    with directory(tmp_path / "locks") as locks:
        shown = []
        for options in ((), ("--lease=1h",)):
            holder = locks.start("lock", *options, "a", "--", "sh", "-c", "echo up; read line")
            assert line(holder) == "up"
            (party,) = locks.holders("a")
            shown.append((party.owner.replace(str(holder.pid), "PID"), party.shared))
            holder.communicate(timeout=BOUND_SECONDS)
        assert shown[0] == shown[1]
