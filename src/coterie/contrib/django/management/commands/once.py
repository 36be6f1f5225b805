"""`manage.py once`: run a management command once per period, on whichever machine comes first."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

import coterie.sync
from coterie.errors import CoterieError, NotDue
from coterie.locks.duration import duration


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Run a management command once per period; `COTERIE_URL` says where the locks are."""

    help = (
        "Run a management command once per period, however many machines start it:"
        " manage.py once nightly --every 1d --at 02:00 --zone Europe/Berlin -- clearsessions"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the options of `coterie once` that say when, and the command behind them."""
        parser.add_argument("name", help="of the job, and of its lock")
        parser.add_argument("--url", help="where the locks are; default: COTERIE_URL")
        parser.add_argument("--every", help="length of a period, such as 1d")
        parser.add_argument("--at", help="time of day at which it begins, such as 02:00")
        parser.add_argument("--zone", help="time zone of --at; default: UTC")
        parser.add_argument("--period", help="the period by hand, in place of --every")
        parser.add_argument("--attempts", type=int, default=1, help="how often it may be begun")
        parser.add_argument("--wait", help="for a run that goes on; default: until the next period")
        parser.add_argument("command", nargs="+", help="to run, after --, and its arguments")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command if a period is due."""
        command = options["command"]
        if command[0] == "--":  # as Python 3.13 leaves it there
            command = command[1:]
        wait = options["wait"]
        try:
            with (
                coterie.sync.connect(options["url"]) as c,
                c.once(
                    options["name"],
                    options["period"],
                    every=options["every"],
                    at=options["at"],
                    zone=options["zone"],
                    attempts=options["attempts"],
                    timeout=None if wait is None else duration(wait),
                ),
            ):
                call_command(*command)
        except NotDue as error:
            if options["verbosity"] > 1:
                self.stderr.write(str(error))
        except CoterieError as error:
            raise CommandError(str(error), returncode=error.exit_status) from None
