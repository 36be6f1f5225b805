"""Programs that use locks, each a process."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.local_cluster import PATIENCE_SECONDS

if TYPE_CHECKING:
    from typing import Self


class User:
    """One program; see `lock_user.py` for what it understands."""

    def __init__(self, url: str) -> None:
        script = Path(__file__).with_name("lock_user.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def tell(self, *words: object) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())

    def hear(self) -> dict[str, Any]:
        """Wait for the next answer."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        assert ready, "the program says nothing"
        line = self.process.stdout.readline()
        assert line, "the program ended without a word"
        found: dict[str, Any] = json.loads(line)
        return found

    def do(self, *words: object) -> dict[str, Any]:
        """Send a line, and wait for the answer."""
        self.tell(*words)
        return self.hear()

    def end(self) -> None:
        """Kill it, whatever it does."""
        self.process.kill()
        self.process.communicate()


class Users:
    """Some of them, which end with the test."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._started: list[User] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for user in self._started:
            user.end()

    def start(self, count: int) -> list[User]:
        """Start that many, and wait until all are connected."""
        made = [User(self._url) for _ in range(count)]
        self._started += made
        for user in made:
            assert user.hear() == {"ready": True}
        return made
