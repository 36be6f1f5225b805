"""`coterie simulate-stack`: single seeds, campaigns, what a broken promise leaves, and interrupts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cli import run
from coterie.lab.stack.workloads.catalogue import WORKLOADS
from coterie.lab.stack.workloads.locks import FirstComeFirstServed
from coterie.lab.stack.world import ViolationError, memory
from tests.processes import BOUND_SECONDS, COTERIE, children, is_running, kill, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def facts(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert run(["simulate-stack", *arguments, "-o", "json"]) == status
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_a_seed_is_the_same_run_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seed", "3", "--workload", "leaders"]
    first = facts(capsys, *words)
    assert first["violation"] == ""
    assert facts(capsys, *words) == first
    assert run(["simulate-stack", *words]) == 0
    printed = capsys.readouterr().out
    assert first["digest"] in printed
    assert all(f"fault         {fault}" in printed for fault in first["faults"])


def test_a_campaign_is_the_same_on_one_core_and_on_two(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seed", "4", "--seeds", "2", "--workload", "leaders"]
    told = facts(capsys, *words, "--jobs", "1")
    assert told == facts(capsys, *words, "--jobs", "2")
    assert (told["runs"], told["failures"], told["workloads"]) == (2, [], {"leaders": 2})
    assert run(["simulate-stack", *words]) == 0
    assert "2, 0 of them failed" in capsys.readouterr().out


class Broken(FirstComeFirstServed):
    """Programs that ask one after the other, of which more is asked than was promised."""

    def finish(self) -> None:
        raise ViolationError("order", "the last was not the first")


def test_a_campaign_that_fails_leaves_a_picture_and_the_command_that_shows_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, "line", Broken)
    monkeypatch.chdir(tmp_path)
    assert run(["simulate-stack", "--seed", "7", "--seeds", "2", "--workload", "line"]) == 1
    printed = capsys.readouterr().out
    assert "2, 2 of them failed" in printed
    command = "coterie simulate-stack --seed 7 --workload line"
    assert f"failure       {command}: order: the last was not the first" in printed
    assert f"see again     {command} --trace seed.svg" in printed
    assert (tmp_path / "stack-seed-7.svg").read_text().startswith("<svg")
    assert run([*command.split()[1:], "--trace", "seed.svg"]) == 1
    assert "violation     order: the last was not the first" in capsys.readouterr().out
    assert (tmp_path / "seed.svg").exists()


def test_a_trace_may_be_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "seed.log"
    words = ["--seed", "4", "--workload", "leaders", "--keep", "none", "--trace", str(log)]
    assert facts(capsys, *words)["faults"] == []
    assert "Hello" in log.read_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--seeds", "2", "--keep", "none"], "belong to a single seed"),
        (["--seeds", "2", "--trace", "x.svg"], "belong to a single seed"),
        (["--workload", "leaders", "--keep", "99"], "--keep takes numbers of faults from 0"),
        (["--workload", "leaders", "--keep", "one"], "--keep takes numbers of faults from 0"),
        (["--workload", "leaders", "--trace", "/none/seed.log"], "cannot write /none/seed.log"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert run(["simulate-stack", *options]) == 64
    assert text in capsys.readouterr().err


@contextlib.contextmanager
def long_campaign() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a campaign that takes hours, and wait for its two workers."""
    words = ["simulate-stack", "--seeds", "1000000", "--jobs", "2"]
    process = subprocess.Popen(
        [*COTERIE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    workers: list[int] = []
    try:
        until(lambda: len(children(process)) == 2)
        workers = children(process)
        yield process, workers
    finally:
        kill(process)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def test_an_interrupt_ends_a_campaign_its_workers_and_their_files() -> None:
    before = set(memory().glob("coterie-stack-*"))
    with long_campaign() as (process, workers):
        until(lambda: bool(set(memory().glob("coterie-stack-*")) - before))
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND_SECONDS) == 130
        assert not any(is_running(worker) for worker in workers)


def test_the_workers_of_a_campaign_end_when_it_is_killed() -> None:
    with long_campaign() as (process, workers):
        kill(process)
        until(lambda: not any(is_running(worker) for worker in workers))
