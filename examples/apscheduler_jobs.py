"""APScheduler: every machine has the schedule, and one of them runs the job of each night."""

from datetime import UTC, datetime

from apscheduler.schedulers.background import BackgroundScheduler

import coterie

c = coterie.sync.connect()
done: list[str] = []


@c.once("nightly", every="1d", at="03:00")
def nightly(run: coterie.sync.Run) -> str:
    """Do what is to be done once a night; where another machine has begun it, the call returns None."""
    done.append(run.period)
    return run.period


def main() -> None:
    """Run the schedule until Enter is pressed."""
    with c:
        scheduler = BackgroundScheduler(timezone=UTC)
        scheduler.add_job(nightly, "cron", hour=3, id="nightly", next_run_time=datetime.now(UTC))
        scheduler.start()
        try:
            input("Enter ends it\n")
        finally:
            scheduler.shutdown()


if __name__ == "__main__":
    main()
