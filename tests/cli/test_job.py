"""What becomes of a program whose lock has a lease that is not renewed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from coterie import locks
from coterie.cli.lock import job as job_module
from coterie.cli.lock import outage
from coterie.cli.lock.guard import Guard
from coterie.cli.lock.job import hold
from coterie.cli.lock.program import Job
from coterie.errors import CoterieError, LockLost, NoQuorum, Unavailable
from tests.locks.memory import MemoryEngine

if TYPE_CHECKING:
    from pathlib import Path

LEASE_SECONDS = 2.0


def run_until_lost(monkeypatch: pytest.MonkeyPatch, script: str, kill_after: float) -> float:
    """Run a script under a lease; give how much of the lease was left when it had ended."""
    engine = MemoryEngine()
    engine.lease_seconds = LEASE_SECONDS
    monkeypatch.setattr(job_module, "connect", lambda _: locks.Coordinator(engine, "memory:"))
    began = time.monotonic()
    job = Job(("sh", "-c", script), "term", kill_after)
    with pytest.raises(LockLost, match="could not be renewed"):
        hold(None, lambda c: c.lock("a"), job)
    return LEASE_SECONDS - (time.monotonic() - began)


def test_it_is_asked_to_end_before_the_lease_has_run_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"trap 'touch {tmp_path}/asked; exit' TERM; while :; do sleep 0.01; done"
    assert run_until_lost(monkeypatch, script, kill_after=1.5) > 0
    assert (tmp_path / "asked").exists()


def test_it_is_killed_before_the_lease_has_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "trap '' TERM; while :; do sleep 0.01; done"
    assert run_until_lost(monkeypatch, script, kill_after=1.0) > 0


def test_the_guard_is_dismissed_before_another_group_can_get_the_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is while the program has ended and nobody has waited for it."""
    monkeypatch.setattr(
        job_module, "connect", lambda _: locks.Coordinator(MemoryEngine(), "memory:")
    )
    watched: list[int] = []
    unreaped: list[bool] = []
    watch, dismiss = Guard.watch, Guard.dismiss

    def watch_and_tell(guard: Guard, group: int) -> None:
        watched.append(group)
        watch(guard, group)

    def look_and_dismiss(guard: Guard) -> None:
        dismiss(guard)
        try:
            ended = os.waitid(os.P_PID, watched[0], os.WEXITED | os.WNOHANG | os.WNOWAIT)
            unreaped.append(ended is not None)
        except ChildProcessError:
            unreaped.append(False)

    monkeypatch.setattr(Guard, "watch", watch_and_tell)
    monkeypatch.setattr(Guard, "dismiss", look_and_dismiss)
    assert hold(None, lambda c: c.lock("a"), Job(("sh", "-c", "exit 7"), "term", 1.0)) == 7
    assert unreaped[0]


def test_a_program_that_cannot_be_started_leaves_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        job_module, "connect", lambda _: locks.Coordinator(MemoryEngine(), "memory:")
    )
    dismissed: list[Guard] = []
    dismiss = Guard.dismiss

    def dismiss_and_tell(guard: Guard) -> None:
        dismiss(guard)
        dismissed.append(guard)

    monkeypatch.setattr(Guard, "dismiss", dismiss_and_tell)
    job = Job(("no-such-program",), "term", 1.0)
    assert hold(None, lambda c: c.lock("a"), job) == 127
    assert len(dismissed) == 1


class Undecided(MemoryEngine):
    """Grants nothing until it was asked three times why."""

    def __init__(self) -> None:
        super().__init__()
        self.grants = False
        self.asked = 0

    def obstacle(self, name: str) -> CoterieError | None:
        self.asked += 1
        if self.asked == 3:
            self.grants = True
            self.serve(name)
        return NoQuorum(f"lock {name!r}: no quorum votes for {9 - self.asked} s")


def test_it_says_once_why_no_node_grants_the_lock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job_module, "connect", lambda _: locks.Coordinator(Undecided(), "memory:"))
    monkeypatch.setattr(job_module, "SILENT_SECONDS", 0.01)
    assert hold(None, lambda c: c.lock("a"), Job(("sh", "-c", "exit 7"), "term", 1.0)) == 7
    out, err = capsys.readouterr()
    assert (out, err) == ("", "coterie: waiting: lock 'a': no quorum votes for 8 s\n")


class Away(MemoryEngine):
    """An engine whose servers are away for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.grants = True
        self.opened = 0

    async def open(self) -> None:
        self.opened += 1
        if self.opened < 4:
            raise Unavailable("server: Connection refused")


def test_who_says_how_long_it_waits_waits_for_servers_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Away()
    monkeypatch.setattr(job_module, "connect", lambda _: locks.Coordinator(engine, "memory:"))
    monkeypatch.setattr(outage, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)
    job = Job(("sh", "-c", "exit 7"), "term", 1.0)
    assert hold(None, lambda c: c.lock("a"), job, wait=60.0) == 7
    assert engine.opened == 4
    out, err = capsys.readouterr()
    assert (out, err) == ("", "coterie: waiting: server: Connection refused\n")


@pytest.mark.parametrize(("wait", "url"), [(None, "memory:"), (0.0, "memory:"), (60.0, "file:x")])
def test_nobody_else_does(monkeypatch: pytest.MonkeyPatch, wait: float | None, url: str) -> None:
    """A mistyped address is told at once, and what fails in a directory does not pass."""
    engine = Away()
    monkeypatch.setattr(job_module, "connect", lambda _: locks.Coordinator(engine, url))
    with pytest.raises(Unavailable, match="Connection refused"):
        hold(None, lambda c: c.lock("a"), Job(("true",), "term", 1.0), wait=wait)
    assert engine.opened == 1
