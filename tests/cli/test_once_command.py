"""`coterie once` from outside: which machine runs the command, exit statuses, what operators see and do."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cli import run
from tests.processes import BOUND_SECONDS, Directory, directory, is_running, kill, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAILY = ("nightly", "--period", "2026-11-17")
LONG = "echo $$; exec sleep 1000"


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def listed(locks: Directory, *name: str) -> list[list[str]]:
    """Return the rows of the list, without its header."""
    done = locks.run("once", "--list", *name)
    assert done.returncode == 0, done.stderr
    return [row.split() for row in done.stdout.splitlines()[1:]]


def test_of_many_that_begin_at_once_one_runs_the_command(locks: Directory, tmp_path: Path) -> None:
    script = f"echo run >> {tmp_path / 'ran'}; sleep 0.2"
    crowd = [locks.start("once", *DAILY, "--", "sh", "-c", script) for _ in range(6)]
    for process in crowd:
        stdout, stderr = process.communicate(timeout=BOUND_SECONDS)
        assert (process.returncode, stdout, stderr) == (0, "", ""), "cron mails each line"
    assert locks.run("once", *DAILY, "-c", script).returncode == 0
    assert (tmp_path / "ran").read_text() == "run\n"
    assert [row[:3] for row in listed(locks)] == [["nightly", "2026-11-17", "done"]]


def test_the_command_finds_its_period_and_its_token(locks: Directory) -> None:
    script = "echo $COTERIE_LOCK $COTERIE_PERIOD $COTERIE_ATTEMPT $COTERIE_TOKEN"
    done = locks.run("once", "--period", "2026-11-17", "nightly", "--", "sh", "-c", script)
    name, period, attempt, token = done.stdout.split()
    assert (name, period, attempt) == ("nightly", "2026-11-17", "1")
    (row,) = json.loads(locks.run("once", "--list", "-o", "json").stdout)
    assert row["record"]["runs"][0]["token"] == int(token)


def test_the_status_of_the_command_is_kept_and_a_failure_is_tried_again(locks: Directory) -> None:
    def come() -> int:
        return locks.run("once", *DAILY, "--attempts", "2", "-c", "exit 7").returncode

    assert [come(), come(), come()] == [7, 7, 0]
    assert [(row[1], row[2], row[-1]) for row in listed(locks, "nightly")] == [
        ("1", "failed", "7"),
        ("2", "failed", "7"),
    ]
    assert locks.run("once", "other", "--period", "1", "--", "no-such-program").returncode == 127
    assert listed(locks, "other")[0][2] == "failed"


def test_a_job_that_has_never_run_is_none(locks: Directory) -> None:
    for options in (("--list", "a"), ("--again", "a")):
        done = locks.run("once", *options)
        assert (done.returncode, "no run of 'a' is recorded" in done.stderr) == (64, True)


def test_a_schedule_is_read_from_its_options(locks: Directory) -> None:
    schedule = ("--every", "1w", "--at", "02:00", "--zone", "Europe/Berlin")
    assert locks.run("once", "weekly", *schedule, "--", "true").returncode == 0
    (row,) = json.loads(locks.run("once", "--list", "weekly", "-o", "json").stdout)
    found = {key: row["record"][key] for key in ("every", "at", "zone")}
    assert found == {"every": 604800, "at": "02:00", "zone": "Europe/Berlin"}
    other = locks.run("once", "weekly", "--every", "1d", "--", "true")
    assert other.returncode == 64
    assert "runs every 1w at" in other.stderr


def test_machines_of_different_time_zones_name_one_period(locks: Directory) -> None:
    printed = ""
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kathmandu"):
        asked = ("once", "weekly", "--every", "1w", "--zone", "Europe/Berlin", "--", "echo", "run")
        process = locks.start(*asked, environment={"TZ": zone})
        printed += process.communicate(timeout=BOUND_SECONDS)[0]
    assert printed == "run\n"


@pytest.mark.parametrize("attempts", ["1", "2"])
def test_a_command_that_is_killed_with_its_program(locks: Directory, attempts: str) -> None:
    asked = ("once", *DAILY, "--attempts", attempts)
    first = locks.start(*asked, "--", "sh", "-c", LONG)
    job = int(line(first))
    assert locks.run("once", *DAILY, "--", "true").returncode == 0, "it is running"
    assert [row[2] for row in listed(locks)] == ["running"]
    second = locks.start(*asked, "--", "sh", "-c", "echo $COTERIE_ATTEMPT")
    if attempts == "2":
        until(lambda: locks.waiters("nightly"))
    kill(first)
    assert is_running(job), "it has the lock until it ends, too"
    os.kill(job, signal.SIGKILL)
    stdout, stderr = second.communicate(timeout=BOUND_SECONDS)
    assert (second.returncode, stdout) == (0, "2\n" if attempts == "2" else ""), stderr
    assert [row[2] for row in listed(locks)] == ["done" if attempts == "2" else "interrupted"]


def test_who_loses_the_lock_exits_with_79(locks: Directory) -> None:
    process = locks.start("once", *DAILY, "--", "sh", "-c", LONG)
    job = int(line(process))
    (locks.folder / "words").unlink()
    _, talk = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 79
    assert "lock 'nightly'" in talk
    assert not is_running(job)


def test_a_signal_reaches_the_command_and_ends_a_wait(locks: Directory) -> None:
    first = locks.start("once", *DAILY, "--attempts", "2", "--", "sh", "-c", LONG)
    line(first)
    second = locks.start("once", *DAILY, "--attempts", "2", "--", "true")
    until(lambda: locks.waiters("nightly"))
    second.send_signal(signal.SIGINT)
    assert second.wait(BOUND_SECONDS) == 130
    third = locks.run("once", *DAILY, "--attempts", "2", "-w", "10ms", "--", "true")
    assert third.returncode == 0, "it is running"
    first.send_signal(signal.SIGTERM)
    assert first.wait(BOUND_SECONDS) == 128 + signal.SIGTERM
    assert listed(locks, "nightly")[0][-1] == "143"


def test_what_is_not_as_it_should_be_is_said(locks: Directory) -> None:
    assert locks.run("once", *DAILY, "--", "true").returncode == 0
    late = locks.run("once", "nightly", "--period", "2026-11-16", "--", "true")
    assert (late.returncode, "look whether the clock" in late.stderr) == (0, True)
    holder = locks.start("lock", "other")
    line(holder)
    busy = locks.run("once", "other", "--period", "1", "-w", "0", "--", "true")
    assert (busy.returncode, f":{holder.pid};" in busy.stderr) == (75, True)


def test_an_operator_has_it_run_again(locks: Directory) -> None:
    assert locks.run("once", "--again", "nightly").returncode == 64
    running = locks.start("once", *DAILY, "--", "sh", "-c", "read line")
    until(lambda: locks.holders("nightly"))
    refused = locks.run("once", "nightly", "--again")
    assert (refused.returncode, "The job runs" in refused.stderr) == (75, True)
    running.communicate("\n", timeout=BOUND_SECONDS)
    ordered = locks.run("once", "nightly", "--again")
    assert ordered.stdout == "nightly 2026-11-17 runs when the next machine comes\n"
    for printed in ("run\n", ""):
        assert locks.run("once", *DAILY, "--", "echo", "run").stdout == printed
    assert [row[2] for row in listed(locks, "nightly")] == ["done", "again", "done"]


def test_an_operator_has_its_runs_forgotten(locks: Directory) -> None:
    """A machine whose clock was a year ahead has run it: until then all other periods are late."""
    assert locks.run("once", "nightly", "--forget").returncode == 64
    locks.run("once", "nightly", "--period", "2027-11-17", "--", "true")
    assert "or that of the other one was ahead" in locks.run("once", *DAILY, "--", "true").stderr
    assert "is forgotten" in locks.run("once", "nightly", "--forget").stdout
    assert listed(locks) == []
    assert locks.run("once", *DAILY, "--", "echo", "run").stdout == "run\n"
    with coterie.sync.connect(f"file:{locks.folder}") as c, c.lock("text") as held:
        held.write(b"row 4711")
    assert locks.run("once", "text", "--forget").returncode == 64


def test_the_status_says_whether_a_job_is_as_it_should_be(locks: Directory) -> None:
    assert locks.run("status", "once").returncode == 0
    assert not locks.folder.exists(), "it only looks"
    locks.run("once", *DAILY, "--", "true")
    good = locks.run("status", "once")
    assert (good.returncode, good.stdout) == (0, locks.run("once", "--list").stdout)
    locks.run("once", "bad", "--period", "1", "--", "false")
    assert locks.run("status", "once").returncode == 1
    assert json.loads(locks.run("status", "once", "-o", "json").stdout)[0]["condition"] == "failed"


def test_an_alert_can_look_at_the_figures(locks: Directory) -> None:
    locks.run("once", "nightly", "--every", "1d", "--", "true")
    locks.run("once", "bad", "--every", "1h", "-c", "exit 1")
    lines = locks.run("once", "--list", "-o", "prometheus").stdout.splitlines()
    assert 'coterie_once_runs_total{name="nightly",state="done"} 1' in lines
    assert 'coterie_once_runs_total{name="bad",state="failed"} 1' in lines
    assert 'coterie_once_every_seconds{name="nightly"} 86400' in lines
    assert 'coterie_once_running{name="bad"} 0' in lines
    ages = [each for each in lines if each.startswith("coterie_once_last_success_seconds{")]
    assert len(ages) == 2, "a job that has never succeeded has an age, too"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a"], "name the job and the command"),
        (["--every", "1d"], "name the job and the command"),
        (["a", "--", "true"], "say either how long a period lasts"),
        (["a", "--every", "1x", "--", "true"], "expected a duration"),
        (["a", "--every", "1d", "--at", "2", "--", "true"], "expected a time of day"),
        (["a", "--every", "1d", "-o", "json", "--", "true"], "-o belongs to --list"),
        (["--again"], "--again and --forget need the NAME"),
        (["--list", "--again", "a"], "use one of them"),
        (["--again", "--forget", "a"], "use one of them"),
        (["--list", "a", "--", "true"], "use one of them"),
    ],
)
def test_bad_usage_is_refused(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COTERIE_URL", f"file:{tmp_path}")
    assert run(["once", *arguments]) == 64
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("moment", [1e300, -1.0, 10.0**18])
@pytest.mark.parametrize("field", ["began", "ended", "since", "success"])
def test_a_record_with_a_time_that_no_calendar_has_is_none(
    tmp_path: Path, field: str, moment: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may take the lock may have written it."""
    url = f"file:{tmp_path}"
    run_record: dict[str, Any] = {
        "period": "x",
        "attempt": 1,
        "token": 1,
        "by": "host:1",
        "began": 1.0,
    }
    record: dict[str, Any] = {"once": 1, "period": "x", "starts": 1, "since": 1.0, "success": 1.0}
    record["runs"] = [run_record | {"state": "done", "ended": 2.0}]
    (record["runs"][0] if field in ("began", "ended") else record)[field] = moment
    with coterie.sync.connect(url) as c, c.lock("job") as held:
        held.write(json.dumps(record).encode())
    assert run(["once", "--list", "--url", url]) == 0, "the others are shown"
    assert run(["once", "--list", "job", "--url", url]) == 64
    assert "is no record of runs" in capsys.readouterr().err
