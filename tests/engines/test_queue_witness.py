"""When a session that others count is buried before its lease is over, and when it is not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from coterie.engines.queue.server import SessionLost
from coterie.engines.queue.witness import Witness
from coterie.errors import Unavailable
from coterie.system.witness import ProcessStart, own_life, read_life
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd")

LEASE = 0.3
NOBODY = ProcessStart(1 << 22, 1)  # numbers of processes are below


class Graveyard:
    """A server, as a witness sees it."""

    def __init__(self) -> None:
        self.lives: dict[str, str] = {}
        self.buried: list[str] = []
        self.asked: list[Sequence[str]] = []
        self.troubles: list[Exception] = []

    async def read(self, sessions: Sequence[str]) -> dict[str, str]:
        self.asked.append(sessions)
        return {name: self.lives[name] for name in sessions if name in self.lives}

    async def bury(self, session: str, life: str) -> bool:
        if self.troubles:
            raise self.troubles.pop()
        if self.lives.get(session) != life:
            return False
        del self.lives[session]
        self.buried.append(session)
        return True


@contextlib.asynccontextmanager
async def watching(server: Graveyard, *sessions: str) -> AsyncIterator[Witness]:
    witness = Witness("a server", LEASE, server.read, server.bury)
    running = asyncio.create_task(witness.run())
    witness.look_at(sessions)
    yield witness
    witness.stop()
    await running


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def life_of(*processes: subprocess.Popen[str]) -> str:
    life = read_life(own_life([process.pid for process in processes]))
    assert life is not None
    return str(life._replace(processes=life.processes[1:]))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@in_loop
async def test_all_sessions_of_programs_that_end_are_buried(
    children: list[subprocess.Popen[str]],
) -> None:
    ann, bob = children
    server = Graveyard()
    server.lives = {"a": life_of(ann), "b": life_of(bob), "a too": life_of(ann)}
    async with watching(server, "a", "b", "a too", "nobody knows"):
        await until(lambda: bool(server.asked))
        kill(ann)
        await until(lambda: len(server.buried) == 2)
        assert {*server.buried} == {"a", "a too"}
        kill(bob)
        await until(lambda: len(server.buried) == 3)
    assert sorted(server.asked[0]) == ["a", "a too", "b", "nobody knows"]


@in_loop
async def test_one_that_was_dead_before_is_buried(children: list[subprocess.Popen[str]]) -> None:
    server = Graveyard()
    server.lives["a"] = life_of(children[0])
    kill(children[0])
    async with watching(server, "a"):
        await until(lambda: server.buried == ["a"])


@in_loop
async def test_one_that_says_its_life_late_is_buried(children: list[subprocess.Popen[str]]) -> None:
    server = Graveyard()
    async with watching(server, "a"):
        await until(lambda: bool(server.asked))
        server.lives["a"] = life_of(children[0])
        kill(children[0])
        await until(lambda: server.buried == ["a"])


@in_loop
async def test_a_program_lives_on_in_children_that_it_has_got_meanwhile(
    children: list[subprocess.Popen[str]],
) -> None:
    parent, child = children
    server = Graveyard()
    server.lives["a"] = life_of(parent)
    async with watching(server, "a"):
        await until(lambda: bool(server.asked))
        server.lives["a"] = life_of(parent, child)
        kill(parent)
        await until(lambda: len(server.asked) > 1)
        assert not server.buried
        kill(child)
        await until(lambda: server.buried == ["a"])


@in_loop
async def test_a_program_that_is_stopped_or_of_another_kernel_is_not_dead(
    children: list[subprocess.Popen[str]],
) -> None:
    ann, bob = children
    server = Graveyard()
    far = read_life(life_of(ann))
    assert far is not None
    server.lives = {"stopped": life_of(ann), "dead": life_of(bob)}
    server.lives["far"] = str(far._replace(kernel="another", processes=(NOBODY,)))
    server.lives["other space"] = str(far._replace(pid_space=1, processes=(NOBODY,)))
    server.lives["nonsense"] = "is dead"
    async with watching(server, *server.lives):
        await until(lambda: bool(server.asked))
        os.kill(ann.pid, signal.SIGSTOP)
        kill(bob)
        await until(lambda: bool(server.buried))
        await asyncio.sleep(LEASE)
        assert server.buried == ["dead"]


@in_loop
async def test_a_removal_that_fails_is_tried_again(children: list[subprocess.Popen[str]]) -> None:
    server = Graveyard()
    server.troubles = [Unavailable("no answer"), Unavailable("no answer")]
    server.lives["a"] = life_of(children[0])
    kill(children[0])
    async with watching(server, "a"):
        await until(lambda: server.buried == ["a"])


@in_loop
async def test_one_that_is_waited_for_no_more_is_left_alone(
    children: list[subprocess.Popen[str]],
) -> None:
    ann, bob = children
    server = Graveyard()
    server.lives = {"a": life_of(ann), "b": life_of(bob)}
    async with watching(server, "a", "b") as witness:
        await until(lambda: bool(server.asked))
        witness.look_at(["b"])
        kill(ann)
        kill(bob)
        await until(lambda: bool(server.buried))
        assert server.buried == ["b"]


@in_loop
async def test_it_ends_with_the_session(children: list[subprocess.Popen[str]]) -> None:
    server = Graveyard()
    server.troubles = [SessionLost("it is over")]
    server.lives["a"] = life_of(children[0])
    kill(children[0])
    witness = Witness("a server", LEASE, server.read, server.bury)
    witness.look_at(["a"])
    await witness.run()
    assert not server.buried
