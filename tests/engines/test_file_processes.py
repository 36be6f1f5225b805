"""The `file:` coordinator between real processes, some of which are killed with -9."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from tests.processes import BOUND_SECONDS, Directory, directory, kill, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Takes the lock again and again. Inside it locks a mark, which fails if another is inside, and
# appends its token to a log. The mark is a lock of the process, which one that is killed loses before
# those of its descriptors.
CONTENDER = """
import fcntl, os, sys, coterie
mark = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND)
with coterie.sync.connect() as c:
    for number in range(int(sys.argv[2])):
        with c.lock("a") as held:
            fcntl.lockf(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(mark, b"%d\\n" % held.token)
            if not number:
                print("inside", flush=True)
            fcntl.lockf(mark, fcntl.LOCK_UN)
"""

# Holds a lock, forks a child that lives on, and waits to be killed.
FORKING = """
import os, sys, coterie
with coterie.sync.connect() as c, c.lock("a") as held:
    if os.fork() == 0:
        print("forked", flush=True)
        sys.stdin.readline()
        os._exit(0)
    sys.stdin.readline()
"""


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def token_of(text: str) -> int:
    name, token = text.split()
    assert name == "a"
    return int(token)


def are_waiting(locks: Directory, number: int) -> bool:
    return len(locks.waiters("a")) == number


def is_longer(log: Path, length: int) -> bool:
    return log.stat().st_size > length


def test_eight_processes_are_served_first_come_first_served(locks: Directory) -> None:
    holder = locks.start("lock", "a")
    tokens = [token_of(line(holder))]
    contenders = []
    for number in range(8):
        contenders.append(locks.start("lock", "a"))
        until(functools.partial(are_waiting, locks, number + 1))
    for before, contender in zip([holder, *contenders], contenders, strict=False):
        before.communicate(timeout=BOUND_SECONDS)
        tokens.append(token_of(line(contender)))
        assert [party.token for party in locks.holders("a")] == [tokens[-1]]
    assert tokens == sorted(set(tokens))


def test_a_killed_holder_frees_the_lock_and_its_token_is_not_used_again(locks: Directory) -> None:
    tokens = []
    for _ in range(3):
        holder = locks.start("lock", "a")
        tokens.append(token_of(line(holder)))
        waiter = locks.start("lock", "a")
        until(lambda: locks.waiters("a"))
        kill(holder)
        tokens.append(token_of(line(waiter)))
        kill(waiter)
        assert locks.holders("a") == []
    assert tokens == sorted(set(tokens))


def test_a_killed_waiter_holds_nobody_up(locks: Directory) -> None:
    holder = locks.start("lock", "a")
    line(holder)
    first = locks.start("lock", "a")
    until(lambda: len(locks.waiters("a")) == 1)
    second = locks.start("lock", "a")
    until(lambda: len(locks.waiters("a")) == 2)
    kill(first)
    until(lambda: len(locks.waiters("a")) == 1)
    assert second.poll() is None
    holder.communicate(timeout=BOUND_SECONDS)
    assert line(second).startswith("a ")


def test_two_are_never_inside_and_tokens_only_grow_while_processes_are_killed(
    locks: Directory, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    doomed = [locks.python("-c", CONTENDER, str(log), "1000000") for _ in range(4)]
    steady = [locks.python("-c", CONTENDER, str(log), "100") for _ in range(2)]
    for contender in [*doomed, *steady]:
        assert line(contender) == "inside"
    for contender in doomed:
        until(functools.partial(is_longer, log, log.stat().st_size + 400))
        assert contender.poll() is None
        kill(contender)
    for contender in steady:
        _, stderr = contender.communicate(timeout=BOUND_SECONDS)
        assert (contender.returncode, stderr) == (0, "")
    tokens = [int(text) for text in log.read_text().split()]
    assert len(tokens) >= 2 * 100 + 4
    assert tokens == sorted(set(tokens))


def test_a_forked_child_does_not_keep_the_lock_of_its_killed_parent(locks: Directory) -> None:
    parent = locks.python("-W", "ignore", "-c", FORKING)
    assert line(parent) == "forked"
    assert len(locks.holders("a")) == 1
    kill(parent)
    next_holder = locks.start("lock", "-n", "a")
    assert line(next_holder).startswith("a ")
