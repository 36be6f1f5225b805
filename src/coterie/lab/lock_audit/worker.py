"""A program of an audit: takes the lock again and again, and notes what the library says.

It is run as `python -m coterie.lab.lock_audit.worker`, and ends when its input does: then the audit has ended.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coterie.lab.lock_audit.adapter import LockPlace, load_adapter
from coterie.lab.lock_audit.notes import (
    ASKED,
    BY_ITSELF,
    BY_QUESTION,
    BY_RELEASE,
    CONFIRMED,
    ENTERED,
    FAILED,
    LEFT,
    STILL,
    TOLD,
    NoteWriter,
)

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import Adapter, AuditedLock

NAME = "audited"
HOLDS = (0.01, 0.01, 0.03, 0.25, 0.5)  # in leases; short ones for many turns, long ones for faults
STEP_SECONDS = 0.005
PAUSE_SECONDS_MAX = 0.05  # between turns
RETRY_SECONDS = 0.1


class Settings(msgspec.Struct, frozen=True):
    """What a program is told."""

    target: str
    place: LockPlace
    number: int
    notes: str  # the file
    turn_of: str  # a file with the numbers of the programs that go on while all others rest
    seed: int
    lease: float  # seconds


class Worker:
    """Takes turns."""

    def __init__(self, settings: Settings, adapter: Adapter) -> None:
        """Prepare."""
        self._settings = settings
        self._adapter = adapter
        self._notes = NoteWriter(settings.notes, os.getpid())
        self._draw = random.Random(settings.seed)
        self._turn = 0

    def run(self) -> None:
        """Take turns for good; after an error with a new lock and a new connection."""
        while True:
            lock = None
            try:
                lock = self._adapter.make(self._settings.place, NAME)
                while True:
                    self._rest()
                    self._take(lock)
            except Exception as error:  # noqa: BLE001 - a library may raise anything
                at = time.monotonic()
                if self._turn == 0:  # it could not be made: the audit wants to know why
                    self._turn = 1
                    self._notes.add(1, ASKED, at)
                self._notes.add(self._turn, FAILED, at, text=f"{type(error).__name__}: {error}")
            close = getattr(lock, "close", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    close()
            time.sleep(RETRY_SECONDS)

    def _rest(self) -> None:
        time.sleep(self._draw.random() * PAUSE_SECONDS_MAX)
        while True:
            try:
                chosen = Path(self._settings.turn_of).read_text(encoding="utf-8").split()
            except FileNotFoundError:
                return
            if str(self._settings.number) in chosen:
                return
            time.sleep(STEP_SECONDS)

    def _take(self, lock: AuditedLock) -> None:
        self._turn += 1
        self._notes.add(self._turn, ASKED, time.monotonic())
        if lock.acquire() in (False, None):
            self._notes.add(self._turn, FAILED, time.monotonic())
            time.sleep(STEP_SECONDS)
            return
        entered = time.monotonic()
        self._notes.add(self._turn, ENTERED, entered, token=getattr(lock, "token", None))
        try:
            self._stay(lock, entered)
        finally:
            self._leave(lock)

    def _stay(self, lock: AuditedLock, entered: float) -> None:
        """Stay inside for a while; in half of the turns ask the server after each step."""
        until = entered + self._draw.choice(HOLDS) * self._settings.lease
        ask = getattr(lock, "ask", None) if self._draw.random() < 1 / 2 else None
        held = getattr(lock, "held", None)
        while True:
            at = time.monotonic()  # before the question: at this moment it was held if it is now
            if held is not None and not held():
                self._tell(BY_ITSELF)
                return
            self._notes.add(self._turn, STILL, at)
            if ask is not None:
                at = time.monotonic()
                try:
                    is_ours = ask()
                except Exception as error:
                    self._tell(BY_QUESTION, error)
                    raise
                if not is_ours:
                    self._tell(BY_QUESTION)
                    return
                self._notes.add(self._turn, CONFIRMED, at)
            if time.monotonic() > until:
                return
            time.sleep(STEP_SECONDS)

    def _leave(self, lock: AuditedLock) -> None:
        held = getattr(lock, "held", None)
        if held is not None and not held():
            self._tell(BY_ITSELF)
        try:
            if lock.release() is False:
                self._tell(BY_RELEASE)
        except Exception as error:
            self._tell(BY_RELEASE, error)
            raise
        finally:
            self._notes.add(self._turn, LEFT, time.monotonic())

    def _tell(self, how: str, error: Exception | None = None) -> None:
        text = f"{type(error).__name__}: {error}" if error else ""
        self._notes.add(self._turn, TOLD, time.monotonic(), how=how, text=text)


def end_with_input() -> None:
    """End this process when its input ends."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Run the program that the arguments describe."""
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    threading.Thread(target=end_with_input, daemon=True).start()
    Worker(settings, load_adapter(settings.target)).run()


if __name__ == "__main__":
    main()
