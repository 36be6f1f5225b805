"""The recipes for frameworks in `examples/`, run with the frameworks."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import os
import queue
import subprocess
import sys
from concurrent.futures import Future
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import coterie
import coterie.sync
from coterie.lab.simulate import TrialBuilder, campaign
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from coterie.testing import WallClock

BOUND_SECONDS = 20
EXAMPLES = Path(__file__).parents[1] / "examples"


def recipe(name: str) -> ModuleType:
    """Import an example anew: its coordinator belongs to the locks of this test."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_command_of_django_runs_once(coterie_file: str) -> None:
    from django.conf import settings  # noqa: PLC0415 - configured first
    from django.core.management import CommandError, call_command  # noqa: PLC0415 - as above

    if not settings.configured:
        settings.configure()
    command, printed = recipe("django_command").Command(), io.StringIO()
    call_command(command, stdout=printed)
    assert "rebuilding with token" in printed.getvalue()
    with (
        coterie.sync.connect(coterie_file) as c,
        c.lock("rebuild-index"),
        pytest.raises(CommandError, match="it is held by") as refused,
    ):
        call_command(command, stdout=printed)
    assert refused.value.returncode == 75


@pytest.mark.usefixtures("coterie_file")
def test_one_process_of_fastapi_leads_and_a_request_is_handled_once() -> None:
    from fastapi import HTTPException  # noqa: PLC0415 - takes long to import

    module = recipe("fastapi_app")

    async def use() -> None:
        async with module.app.router.lifespan_context(module.app), coterie.connect() as other:
            assert (await module.make_invoice(17))["order"] == 17
            async with other.lock("invoice:17"):
                with pytest.raises(HTTPException, match="it is held by") as refused:
                    await module.make_invoice(17)
            assert refused.value.status_code == 409
            while not module.rounds:  # noqa: ASYNC110 - the example has no event for it
                await asyncio.sleep(0)
            assert [leader.token for leader in await other.holders("rounds")] == module.rounds
        async with coterie.connect() as other:
            assert not await other.locked("rounds")

    asyncio.run(use())


@pytest.mark.usefixtures("coterie_file")
def test_a_task_of_celery_holds_its_lock() -> None:
    module = recipe("celery_tasks")
    module.app.conf.task_always_eager = True
    module.open_locks()
    try:
        first, second = (module.report.delay().get() for _ in range(2))
        assert first < second
    finally:
        module.close_locks()


@pytest.mark.usefixtures("coterie_file")
def test_a_job_of_apscheduler_runs_once_a_night_on_two_machines(coterie_clock: WallClock) -> None:
    from apscheduler.events import (  # noqa: PLC0415 - beside its use
        EVENT_JOB_EXECUTED,
        JobExecutionEvent,
    )
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - as above

    machines = [recipe("apscheduler_jobs") for _ in range(2)]
    returned: queue.Queue[str | None] = queue.Queue()

    def note(event: JobExecutionEvent) -> None:
        returned.put(event.retval)

    scheduler = BackgroundScheduler(timezone=UTC)
    scheduler.add_listener(note, EVENT_JOB_EXECUTED)
    scheduler.start()
    try:
        for night in ("2026-11-17", "2026-11-18"):
            coterie_clock.set(f"{night} 03:00")
            for machine, expected in zip(machines, (night, None), strict=True):
                with machine.c:
                    scheduler.add_job(machine.nightly)
                    assert returned.get(timeout=BOUND_SECONDS) == expected
                coterie_clock.move(1)
    finally:
        scheduler.shutdown()
    assert [machine.done for machine in machines] == [["2026-11-17", "2026-11-18"], []]


@in_loop
async def test_the_address_of_the_leader_is_found(tmp_path: Path) -> None:
    module = recipe("leader_address")
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:

        async def serve(_: int) -> None:
            await asyncio.Event().wait()

        finding = asyncio.create_task(module.find_leader(bob))
        for address in ("10.0.0.7:8000", "10.0.0.8:8000"):
            leading = asyncio.create_task(module.lead(ann, address, serve))
            assert await finding == address
            leading.cancel()
            await asyncio.wait([leading])
            finding = asyncio.create_task(module.find_leader(bob))
        finding.cancel()


def test_work_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    import_rows = recipe("resume").import_rows
    kept: list[str] = []

    fails = iter([False, False, True])

    def keep(row: str, _: int) -> None:
        if next(fails, False):
            raise ZeroDivisionError
        kept.append(row)

    with coterie.sync.connect(tmp_path) as c:
        with pytest.raises(ZeroDivisionError):
            import_rows(c, "12345", keep)
        assert [import_rows(c, "12345", keep), import_rows(c, "12345", keep)] == [3, 0]
    assert kept == ["1", "2", "3", "4", "5"]


def test_no_two_processes_get_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = recipe("unique_ids")
    monkeypatch.setattr(module, "BLOCK", 3)
    with coterie.sync.connect(tmp_path) as ann, coterie.sync.connect(tmp_path) as bob:
        ids = [module.Ids(ann, "orders"), module.Ids(bob, "orders")]
        numbers = [each.new() for _ in range(5) for each in ids]
    assert numbers == [1, 4, 2, 5, 3, 6, 7, 10, 8, 11]


@in_loop
async def test_each_process_works_on_a_partition_of_its_own(tmp_path: Path) -> None:
    module = recipe("partitions")
    taken: list[str] = []
    all_taken = asyncio.Event()

    async def work(name: str, _: int) -> None:
        taken.append(name)
        if len(taken) == len(module.PARTITIONS):
            all_taken.set()
        await all_taken.wait()

    async with contextlib.AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(coterie.connect(tmp_path)) for _ in module.PARTITIONS
        ]
        await asyncio.gather(*(module.work_on_free_one(c, work) for c in programs))
    assert sorted(taken) == module.PARTITIONS


@in_loop
async def test_members_obey_what_the_leader_has_written(tmp_path: Path) -> None:
    module = recipe("partitions")
    used: dict[str, list[str]] = {}
    changed = asyncio.Event()

    async def until(expected: dict[str, int]) -> None:
        while {note: len(parts) for note, parts in used.items()} != expected:
            changed.clear()
            await changed.wait()

    async with contextlib.AsyncExitStack() as stack:
        tasks = {}
        for note in ("", "ann", "bob"):
            c = await stack.enter_async_context(coterie.connect(tmp_path))

            async def use(parts: list[str], note: str = note) -> None:
                used[note] = parts
                changed.set()

            work = module.obey(c, note, use) if note else module.assign(c)
            tasks[note] = asyncio.create_task(work)
        await until({"ann": 2, "bob": 2})
        assert sorted(used["ann"] + used["bob"]) == module.PARTITIONS
        for note, expected in (("ann", {"bob": 4}), ("bob", {}), ("", {})):
            tasks[note].cancel()
            await asyncio.wait([tasks[note]])
            used.pop(note, None)
            await until(expected)


@pytest.mark.usefixtures("coterie_file")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_pool_connect_for_themselves(method: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    code = (
        "import multiprocessing, worker_pool\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method({method!r})\n"
        f"    worker_pool.main({str(ledger)!r})\n"
    )
    program = tmp_path / "program.py"
    program.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    subprocess.run(
        [sys.executable, str(program)], env=environment, check=True, timeout=BOUND_SECONDS
    )
    assert ledger.read_text().split() == [str(number) for number in range(1, 41)]


def test_a_campaign_gives_the_same_rows_on_what_stands_for_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Task:
        def __init__(self, function: Callable[..., object]) -> None:
            self.function = function

        def remote(self, *args: object) -> Task:
            outcome: Future[object] = Future()
            outcome.set_result(self.function(*args))
            self.future = lambda: outcome
            return self

    monkeypatch.setitem(sys.modules, "ray", cast("Any", SimpleNamespace(remote=Task)))
    plan = TrialBuilder(algorithm="maekawa", size=3)
    elsewhere = campaign(plan, range(20), executor=recipe("ray_campaign").RayExecutor())
    assert elsewhere.to_dicts() == campaign(plan, range(20)).to_dicts()
