"""APScheduler: every machine has the schedule, and each job runs on one of them."""

from datetime import UTC, datetime

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

import coterie

c = coterie.sync.connect()
done: list[int] = []


@c.lock("nightly", timeout=0)
def nightly() -> None:
    """Do what only one may do; the others find the lock taken, and that is no error."""
    token = coterie.current_token()
    assert token is not None
    done.append(token)


def note(event: JobExecutionEvent) -> None:
    """Say why a job did not run."""
    if isinstance(event.exception, coterie.AcquireTimeout):
        print(f"{event.job_id} runs elsewhere: {event.exception}")


def main() -> None:
    """Run the schedule until Ctrl-C."""
    with c:
        scheduler = BackgroundScheduler(timezone=UTC)
        scheduler.add_listener(note, EVENT_JOB_ERROR)
        scheduler.add_job(nightly, "cron", hour=3, id="nightly", next_run_time=datetime.now(UTC))
        scheduler.start()
        try:
            input("Enter ends it\n")
        finally:
            scheduler.shutdown()


if __name__ == "__main__":
    main()
