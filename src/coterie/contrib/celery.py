"""Celery: a task that runs once per period, however many beats send it and however many workers get it.

@app.task(base=OnceTask, every="1d", at="02:00", zone="Europe/Berlin")
def report() -> None: ...
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from celery import Task

import coterie.sync

WAIT_SECONDS = 10.0  # for a run that goes on: a worker has other tasks to do

_run: ContextVar[coterie.sync.Run | None] = ContextVar("coterie.celery.run", default=None)


class OnceTask(Task):  # type: ignore[misc] # Celery has no types
    """A base class of tasks: one that is not due returns None. The job has the name of the task.

    A task that raises, or asks for a retry, has failed: it runs again if `attempts` says so. With `bind=True` it finds
    its run as `self.once_run`.
    """

    abstract = True
    url: str | None = None  # where the locks are, as for `coterie.connect`
    every: str | float = "1d"
    at: str | None = None
    zone: str | None = None
    attempts = 1
    catch_up = 1
    only_within: str | float | None = None

    @property
    def once_run(self) -> coterie.sync.Run:
        """The run in which the task is."""
        run = _run.get()
        assert run is not None, "a task runs in its run"
        return run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task if a period is due."""
        # A connection for each call: a worker forks, and a task that runs once a night need not keep one.
        with coterie.sync.connect(self.url) as c:
            once = c.once(
                self.name,
                every=self.every,
                at=self.at,
                zone=self.zone,
                attempts=self.attempts,
                catch_up=self.catch_up,
                only_within=self.only_within,
                timeout=WAIT_SECONDS,
            )

            @once
            def work(run: coterie.sync.Run) -> Any:
                before = _run.set(run)
                try:
                    return self.run(*args, **kwargs)
                finally:
                    _run.reset(before)

            return work()
