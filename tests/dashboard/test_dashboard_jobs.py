"""What the dashboard asks about jobs that run once per period."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

import coterie
import coterie.sync
from coterie.dashboard import jobs
from coterie.dashboard.app import make_app
from coterie.dashboard.monitor import Monitor
from coterie.dashboard.routes import dashboard_routes
from coterie.locks.once import report
from tests.asgi import ask

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def asked(url: str) -> list[jobs.JobRow]:
    answer = ask(make_app(dashboard_routes(Monitor(url))), "/api/cluster/jobs")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return msgspec.json.decode(answer.body, type=list[jobs.JobRow])


def test_each_job_has_its_latest_runs(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'locks'}"
    assert asked(url) == []
    assert not (tmp_path / "locks").exists()
    with coterie.sync.connect(url) as c:
        for name in ("b", "a"):
            run = c.once(name, "1", attempts=2).acquire()
            assert run is not None
            run.fail("no disk")
        assert c.once("b", "1", attempts=2).acquire() is not None  # and ends without a word
    found = asked(url)
    assert [(job.name, job.condition) for job in found] == [("a", "failed"), ("b", "interrupted")]
    assert [run.state for run in found[1].runs] == ["failed", "interrupted"]
    assert (found[0].next_begin, found[0].is_overdue) == (None, False)


def test_where_nothing_answers_there_are_none() -> None:
    assert asked("nats://127.0.0.1:1") == []


def test_many_pages_cost_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    look = report.look

    async def counted(coordinator: coterie.Coordinator) -> list[report.JobView]:
        looks.append(coordinator.url)
        return await look(coordinator)

    monkeypatch.setattr(report, "look", counted)
    app = make_app(dashboard_routes(Monitor(f"file:{tmp_path}")))
    for _ in range(3):
        ask(app, "/api/cluster/jobs")
    assert len(looks) == 1
