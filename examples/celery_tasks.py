"""Celery: a task that no two workers run at the same time, and one beat among many.

A worker forks, and a connection belongs to the process that made it: so each connects for itself. Beat is a
program like any other. Start it on every machine, and one of them runs:

    coterie lock celery-beat -- celery -A celery_tasks beat
"""

from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

import coterie

app = Celery("shop", broker="memory://")
app.conf.beat_schedule = {"nightly": {"task": "celery_tasks.report", "schedule": 24 * 3600}}

c = coterie.sync.connect()  # where COTERIE_URL says; nothing is opened yet


@worker_process_init.connect  # type: ignore[untyped-decorator] # Celery has no types
def open_locks(**_: Any) -> None:
    """Connect in the worker's own process, after the fork."""
    c.open()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def close_locks(**_: Any) -> None:
    """Give everything back at once."""
    c.close()


@app.task(name="celery_tasks.report", autoretry_for=(coterie.AcquireTimeout,), retry_backoff=True)  # type: ignore[untyped-decorator]
@c.lock("report", timeout=5)
def report() -> int:
    """Write the report with the token, so that the database refuses one that was overtaken."""
    token = coterie.current_token()
    assert token is not None
    return token
