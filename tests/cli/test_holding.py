"""What becomes of a program whose lock has a lease that is not renewed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from coterie.cli import holding
from coterie.cli.holding import Conduct, hold
from coterie.errors import LockLost
from tests.coordinator.memory import MemoryEngine, coordinator

if TYPE_CHECKING:
    from pathlib import Path

LEASE_SECONDS = 2.0


def run_until_lost(monkeypatch: pytest.MonkeyPatch, script: str, kill_after: float) -> float:
    """Run a script under a lease; give how much of the lease was left when it had ended."""
    engine = MemoryEngine()
    engine.lease_seconds = LEASE_SECONDS
    monkeypatch.setattr(holding, "connect", lambda _: coordinator(engine))
    began = time.monotonic()
    conduct = Conduct(("sh", "-c", script), "term", kill_after)
    with pytest.raises(LockLost, match="could not be renewed"):
        hold(None, lambda c: c.lock("a"), conduct)
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
