"""What programs saw of one lock while programs and a voter were killed and stopped, held against models.

The models are those of the suite that found what earlier lock services promised and did not keep: a
mutex, a re-entrant mutex, and a fenced one. All processes read the same clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.algorithms.mutex.lock_histories import (
    ACQUIRE,
    END,
    FENCED,
    MUTEX,
    REENTRANT,
    RELEASE,
    Call,
    complaint,
    overlap,
)
from tests.cluster.local_cluster import PATIENCE_SECONDS, Processes, processes
from tests.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("history_program.py")
ENTRIES = 5  # of everybody before the next fault


class Client:
    """A program with the file that it writes."""

    def __init__(self, cluster: Processes, name: str) -> None:
        self.name = name
        self.path = cluster.folder / f"{name}.history"
        self.path.touch()
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), cluster.url, "x", str(self.path)], stdin=subprocess.PIPE
        )

    def lines(self) -> list[list[str]]:
        text = self.path.read_text()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def count(self, word: str) -> int:
        return sum(line[0] == word for line in self.lines())

    def goes_on(self) -> None:
        """Wait until it has entered some more times."""
        enough = self.count("acquired") + ENTRIES
        until(lambda: self.count("acquired") >= enough)

    def stop_inside(self) -> None:
        """Stop it while it knows that it holds the lock."""
        while True:
            os.kill(self.process.pid, signal.SIGSTOP)
            os.waitpid(self.process.pid, os.WUNTRACED)
            if (seen := self.lines())[-1][0] == "valid":
                return
            os.kill(self.process.pid, signal.SIGCONT)
            until(lambda: len(self.lines()) > len(seen))

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0


@contextlib.contextmanager
def clients(cluster: Processes) -> Iterator[list[Client]]:
    started = [Client(cluster, name) for name in ("first", "second", "third")]
    try:
        yield started
    finally:
        for client in started:
            client.kill()
            if client.process.stdin is not None:
                client.process.stdin.close()


class Story:
    """The calls of one client, and the times in which it held for certain."""

    def __init__(self, client: Client) -> None:
        self.calls: list[Call] = []
        self.holds: list[tuple[str, float, float]] = []
        self._client = client.name
        self._depth = 0
        self._called = 0.0
        self._pending = ""
        self._seen: list[tuple[float, float]] = []  # when `valid` said yes in this hold
        for word, *values in client.lines():
            self._take(word, *map(float, values))
        self._end_unfinished()

    def _take(self, word: str, time: float, more: float = 0.0) -> None:
        if word == "valid":
            self._seen.append((time, more))
        elif word in (ACQUIRE, RELEASE):
            self._called, self._pending = time, word
        elif word == "acquired":
            self._depth += 1
            self._add(ACQUIRE, self._called, time, int(more))
        elif word == "released":
            self._depth -= 1
            self._add(RELEASE, self._called, time)
            self._end_hold_if(not self._depth)
        elif word == "lost":
            self._add(END, self._last_seen(), time)
            self._end_hold_if(True)
        else:
            assert word == "failed", word
            self._pending = ""

    def _add(self, kind: str, called: float, returned: float, token: int = 0) -> None:
        self.calls.append(Call(self._client, kind, called, returned, token))
        self._pending = ""

    def _last_seen(self) -> float:
        return self._seen[-1][0] if self._seen else self._called

    def _end_hold_if(self, over: bool) -> None:
        if over:
            if self._seen:
                self.holds.append((self._client, self._seen[0][1], self._seen[-1][0]))
            self._depth, self._seen = 0, []

    def _end_unfinished(self) -> None:
        """What was called when the client was killed never returned, and its hold ends some time."""
        last = self._last_seen()
        unfinished = self._depth or self._pending
        if self._pending:
            self.calls.append(Call(self._client, self._pending, self._called))
        if unfinished:
            self.calls.append(Call(self._client, END, last))
        self._end_hold_if(True)


def outermost(calls: list[Call]) -> list[Call]:
    """Leave out what happens within a hold: for a mutex that is nothing."""
    depth, kept = 0, []
    for call in calls:
        if call.kind == ACQUIRE:
            depth += 1
        if depth == 1 or call.kind == END:
            kept.append(call)
        if call.kind != ACQUIRE:
            depth = 0 if call.kind == END else depth - 1
    return kept


def believed_longer(calls: list[Call]) -> list[Call]:
    """Pretend that whoever lost the lock had held it until it was told so."""
    return [
        call._replace(called=call.returned)
        if call.kind == END and call.returned < float("inf")
        else call
        for call in calls
    ]


def test_what_clients_see_is_a_mutex_whoever_is_killed_or_stopped(tmp_path: Path) -> None:
    with processes(tmp_path) as cluster, clients(cluster) as programs:
        first, second, third = programs
        for client in programs:
            client.goes_on()
        first.stop_inside()
        first.kill()
        second.goes_on()
        programs.append(fourth := Client(cluster, "fourth"))
        cluster.kill("b")
        for client in (second, third, fourth):
            client.goes_on()
        second.stop_inside()
        third.goes_on()
        second.go_on()
        until(lambda: second.count("lost"))
        for client in (second, third, fourth):
            client.goes_on()
            client.end()
        stories = [Story(client) for client in programs]

    history = [call for story in stories for call in story.calls]
    assert not complaint(history, REENTRANT)
    assert not complaint(history, FENCED)
    assert not complaint([call for story in stories for call in outermost(story.calls)], MUTEX)
    assert not overlap([hold for story in stories for hold in story.holds])
    assert complaint(believed_longer(history), REENTRANT), "a hold that outlives its lease is seen"
