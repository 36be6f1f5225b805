"""Which processes are dead, as another process of the same kernel can prove; and what proves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.system.witness import Life, Watch, is_dead, is_near, own_life, read_life

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="nobody can say elsewhere"),
]
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="makes namespaces"
)

SAY = "import os, sys\nfrom coterie.system.witness import own_life, is_dead\nprint(own_life(), flush=True)\n"
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


class Programs:
    """Processes of a test, which are killed at its end."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self, code: str = "", prefix: Sequence[str] = ()
    ) -> tuple[subprocess.Popen[str], str]:
        """Start one that says its life and then runs the code, or reads to the end of its input."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SAY + (code or "sys.stdin.read()")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().rstrip("\n")

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def programs() -> Iterator[Programs]:
    started = Programs()
    yield started
    started.end()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def await_zombie(pid: int) -> None:
    """Wait until a child has ended, and leave it to be reaped by others."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def judge(life: str, prefix: Sequence[str] = (), before: str = "") -> str:
    """Let a process in other surroundings judge; `before` may take away its right to read modules."""
    code = f"from coterie.system.witness import is_dead, own_life\nown_life()\n{before}\nprint(is_dead({life!r}))"
    command = [*prefix, sys.executable, "-c", "import os\n" + code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def parsed(life: str) -> Life:
    read = read_life(life)
    assert read is not None
    return read


def with_start(life: str, change: int) -> str:
    whole = parsed(life)
    first = whole.processes[0]
    return str(whole._replace(processes=(first._replace(start=first.start + change),)))


# What is written and read


def test_a_life_is_read_as_it_was_written() -> None:
    life = own_life()
    assert str(parsed(life)) == life
    assert parsed(life).processes[0].pid == os.getpid()


@pytest.mark.parametrize(
    "text",
    ["", "x", "k 1 0 ", "k 1 0 5", "k 1 0 5:0", "k 1 0 0:5", "k 1 0 -5:5", "k a 0 5:5", "k 1 0 5:5:5",
     "k 1 0 5:5 6:6", "ķ 1 0 5:5", "k 1 0 " + ",".join(["5:5"] * 9), "k" * 300 + " 1 0 5:5"],
)  # fmt: skip
def test_a_text_that_is_no_life_says_nothing(text: str) -> None:
    assert read_life(text) is None
    assert is_dead(text) is None


def test_surroundings_that_are_not_ours_are_not_for_us_to_judge() -> None:
    life = parsed(own_life())
    for other in (
        life._replace(kernel="another"),
        life._replace(pid_space=life.pid_space + 1),
        life._replace(time_offset="5.0"),
    ):
        assert not is_near(str(other))
        assert is_dead(str(other)) is None


# Alive, whatever it looks like


def test_we_live_and_so_does_a_process_that_is_stopped(programs: Programs) -> None:
    process, life = programs.start()
    assert is_dead(own_life()) is False
    assert is_dead(life) is False
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert is_dead(life) is False


def test_exec_keeps_a_process_alive_whichever_thread_calls_it(programs: Programs) -> None:
    after = "import sys; print('after', flush=True); sys.stdin.read()"
    call = f"os.execv(sys.executable, [sys.executable, '-c', {after!r}])"
    from_a_thread = (
        f"import threading\nthreading.Thread(target=lambda: {call}).start()\nsys.stdin.read()"
    )
    for code in (call, from_a_thread):
        process, life = programs.start(code)
        assert line_of(process) == "after"
        assert is_dead(life) is False


def test_state_z_is_no_proof_while_another_thread_lives(programs: Programs) -> None:
    process, life = programs.start(
        "import ctypes, threading\n"
        "def go_on():\n"
        "    while open('/proc/self/stat').read().rpartition(')')[2].split()[0] != 'Z': pass\n"
        "    print('alone', flush=True)\n"
        "    os.read(0, 1)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=go_on).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    assert line_of(process) == "alone"
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert state == "Z"
    assert is_dead(life) is False
    process.communicate("x")
    assert is_dead(life) is True


def test_a_process_of_another_user_is_seen_to_live(programs: Programs) -> None:
    _, life = programs.start()
    drop = "os.setgroups([]); os.setgid(65534); os.setuid(65534)" if os.geteuid() == 0 else ""
    assert judge(life, before=drop) == "False"


# Dead


def test_a_process_is_dead_before_and_after_it_is_reaped(programs: Programs) -> None:
    process, life = programs.start()
    process.kill()
    await_zombie(process.pid)
    assert is_dead(life) is True
    process.communicate()
    assert is_dead(life) is True


def test_a_number_that_was_given_to_another_process_proves_the_death(programs: Programs) -> None:
    _, life = programs.start()
    assert is_dead(with_start(life, -1)) is True


@needs_root
def test_a_number_that_the_kernel_gives_again_proves_the_death(programs: Programs) -> None:
    if not LAST_PID.exists():
        pytest.skip("this kernel does not let us choose numbers")
    process, life = programs.start()
    process.kill()
    process.communicate()
    for _ in range(200):  # another process of the machine may be faster
        LAST_PID.write_text(str(process.pid - 1))
        again, own = programs.start()
        if again.pid == process.pid:
            break
        again.kill()
        again.communicate()
    else:
        pytest.skip("others took the number each time")
    assert is_dead(own) is False
    # It is read as alive if both began in one step of the clock, of which starting takes several.
    assert is_dead(life) is True


def test_a_number_that_is_a_thread_now_proves_the_death_if_its_start_differs() -> None:
    numbers: list[int] = []
    begun, over = threading.Event(), threading.Event()

    def run() -> None:
        numbers.append(threading.get_native_id())
        begun.set()
        over.wait()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    ours = parsed(own_life())
    of_thread = ours.processes[0]._replace(pid=numbers[0], start=1)
    assert is_dead(str(ours._replace(processes=(of_thread,)))) is True
    over.set()
    thread.join()


def test_a_program_is_dead_when_all_its_processes_are(programs: Programs) -> None:
    child, _ = programs.start()
    parent, life = programs.start(
        "child = int(sys.stdin.readline())\nprint(own_life([child]), flush=True)\nsys.stdin.read()"
    )
    assert parent.stdin is not None
    parent.stdin.write(f"{child.pid}\n")
    parent.stdin.flush()
    both = line_of(parent)
    assert [process.pid for process in parsed(both).processes] == [parent.pid, child.pid]
    parent.kill()
    parent.communicate()
    assert is_dead(life) is True
    assert is_dead(both) is False
    child.kill()
    child.communicate()
    assert is_dead(both) is True


def test_a_forked_child_has_a_life_of_its_own(programs: Programs) -> None:
    process, life = programs.start(
        "if not os.fork():\n    print(own_life(), flush=True)\nsys.stdin.read()\n"
    )
    of_child = line_of(process)
    assert of_child != life
    assert is_dead(of_child) is False
    process.kill()
    await_zombie(process.pid)
    assert is_dead(life) is True
    assert is_dead(of_child) is False
    assert not process.communicate()[0]  # which lasts until the child has ended, too


# Not for us to say: what a reader in other surroundings sees


@needs_root
@pytest.mark.parametrize("own_proc", [True, False])
def test_a_reader_in_another_pid_namespace_does_not_judge(own_proc: bool) -> None:
    prefix = ["unshare", "--fork", "--pid", *(["--mount-proc"] if own_proc else [])]
    assert judge(own_life(), prefix) == "None"


@needs_root
def test_we_do_not_judge_a_process_in_another_pid_namespace(programs: Programs) -> None:
    _, life = programs.start(prefix=["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"])
    assert parsed(life).processes[0].pid == 1
    assert is_dead(life) is None


@needs_root
def test_a_process_without_the_proc_of_its_namespace_has_no_life(programs: Programs) -> None:
    _, life = programs.start(prefix=["unshare", "--fork", "--pid", "--kill-child"])
    assert not life


@needs_root
def test_a_reader_in_another_time_namespace_does_not_judge(programs: Programs) -> None:
    prefix = ["unshare", "--time", "--boottime", "100000", "--fork"]
    life = own_life()
    assert judge(life, prefix) == "None"
    _, shifted = programs.start(prefix=prefix)
    assert parsed(shifted).time_offset != parsed(life).time_offset
    assert is_dead(shifted) is None


@needs_root
def test_a_process_whose_children_have_another_clock_neither_has_a_life_nor_judges(
    programs: Programs,
) -> None:
    """The offsets that it reads are those of its children, and its starts are shifted by its own."""
    leave = "import ctypes; assert not ctypes.CDLL(None).unshare(0x80)"
    process, _ = programs.start(
        f"{leave}\nprint(repr(own_life()), is_dead({own_life()!r}), flush=True)"
    )
    assert line_of(process) == "'' None"


@needs_root
def test_proc_that_hides_the_living_hides_no_death(programs: Programs) -> None:
    process, life = programs.start(
        "os.setuid(65534)\nprint('is another', flush=True)\nsys.stdin.read()"
    )
    assert line_of(process) == "is another"
    mount = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    hide = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    drop = "os.setgroups([]); os.setgid(1); os.setuid(1)"
    assert judge(life, hide, drop) == "None"
    process.kill()
    process.communicate()
    assert judge(life, hide, drop) == "True"


# Watching


def test_a_watch_tells_of_each_end_once(programs: Programs) -> None:
    asyncio.run(_a_watch_tells_of_each_end_once(programs))


async def _a_watch_tells_of_each_end_once(programs: Programs) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    watch = Watch(told.put_nowait)
    (first, one), (second, two), (third, three) = (programs.start() for _ in range(3))
    watch.set([one, two, three, own_life(), "no life"])
    first.kill()
    assert await told.get() == one
    second.kill()
    assert await told.get() == two
    watch.remove(three)
    watch.set([one])  # it is over already
    assert await told.get() == one
    third.kill()
    await_zombie(third.pid)
    fourth, four = programs.start()
    watch.set([four])
    fourth.kill()
    assert await told.get() == four
    assert told.empty()
    watch.close()


def test_a_watch_waits_for_all_processes_of_a_program(programs: Programs) -> None:
    asyncio.run(_a_watch_waits_for_all_processes_of_a_program(programs))


async def _a_watch_waits_for_all_processes_of_a_program(programs: Programs) -> None:
    child, _ = programs.start()
    parent, _ = programs.start(f"print(own_life([{child.pid}]), flush=True)\nsys.stdin.read()")
    life = line_of(parent)
    ended = asyncio.Event()
    watch = Watch(lambda _: ended.set())
    watch.add(life)
    await asyncio.sleep(0)
    parent.kill()
    await_zombie(parent.pid)
    for _ in range(10):  # turns, in each of which the loop looks at its descriptors
        await asyncio.sleep(0)
    assert not ended.is_set()
    child.kill()
    await ended.wait()
    watch.close()


def test_a_watch_leaves_no_descriptor_behind() -> None:
    asyncio.run(_watch_and_close())


async def _watch_and_close() -> None:
    descriptors = open_descriptors()
    watch = Watch(lambda _: None)
    other = str(parsed(own_life())._replace(kernel="another"))
    watch.set([own_life(), other])
    await asyncio.sleep(0)
    assert open_descriptors() == descriptors + 1
    watch.close()
    assert open_descriptors() == descriptors
