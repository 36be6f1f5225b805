"""Which period a moment belongs to: a key that grows with time, and is the same on machines whose clocks are apart.

A period of whole days is named by its first day, in the time zone that was chosen, and any other by the moment in
which it begins, in UTC. Keys of one schedule have one shape, so they are compared as texts.

Timers fire early, and clocks of machines differ. So the period that is about to begin counts from a *slack* before its
beginning on: without that, all machines that wake a moment before 02:00 would ask for the period of yesterday, which
has run, and go home.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from coterie.errors import UsageError
from coterie.locks.duration import duration, is_number, spelled
from coterie.locks.once.record import SECONDS_MAX
from coterie.system import calendar

if TYPE_CHECKING:
    from datetime import tzinfo

DAY = 86400
SLACK_SHARE = 10  # of a period: a tenth
SLACK_SECONDS_MAX = 300.0
MONDAY = calendar.day_named(
    "1970-01-05"
)  # periods of several days are counted from it, so weeks begin on Mondays
KEY_LENGTH_MAX = 64
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


class Period(NamedTuple):
    """One period of a schedule."""

    key: str
    begin: float  # in seconds since 1970
    end: float  # when the next one begins


class Schedule:
    """How long a period is, and when it begins: a value that tells the period of any moment."""

    def __init__(self, every: float | str, at: str | None = None, zone: str | None = None) -> None:
        """Take the length of a period, the time of day at which it begins, and the zone of that time.

        Without a zone, and for periods that are not whole days, the time of day is that of UTC.
        """
        self.every = _seconds(every)
        self.at = at
        self.zone = zone
        self.slack = min(self.every / SLACK_SHARE, SLACK_SECONDS_MAX)
        self._days, rest = divmod(self.every, DAY)
        if zone is not None and (rest or not self._days):
            raise UsageError(
                f"a time zone is for periods of whole days, and every is {spelled(self.every)}: leave the zone out"
            )
        self._at_seconds = 0 if at is None else _time_of_day(at)
        self._by_days = not rest and self._days > 0
        self._zone: tzinfo = calendar.check_zone(zone)

    def __str__(self) -> str:
        """Describe it as its options do."""
        parts = [f"every {spelled(self.every)}"]
        parts += [f"at {self.at}"] if self.at else []
        parts += [f"in {self.zone}"] if self.zone else []
        return " ".join(parts)

    def period_at(self, now: float) -> Period:
        """Return the period of a moment: the last one that has begun, or begins within the slack."""
        reached = now + self.slack
        if not self._by_days:
            number = math.floor((reached - self._at_seconds) / self.every)
            return self._period(number * self.every + self._at_seconds)
        # Not the day that it is: where clocks are set back over midnight, a day has begun before it comes again.
        day = calendar.day_of(reached, self._zone) + 1
        while self._moment(day) > reached:
            day -= 1
        return self._day(day - (day - MONDAY) % self._days)

    def period_of(self, key: str) -> Period:
        """Return the period of a key; raise `UsageError` if it is none of this schedule."""
        try:
            if self._by_days:
                return self._day(calendar.day_named(key))
            return self._period(calendar.moment_named(key))
        except (ValueError, OverflowError):
            raise UsageError(f"period {key!r} is none of a job that runs {self}") from None

    def previous(self, period: Period) -> Period:
        """Return the period before one."""
        if self._by_days:
            return self._day(calendar.day_named(period.key) - self._days)
        return self._period(period.begin - self.every)

    def next(self, period: Period) -> Period:
        """Return the period after one."""
        if self._by_days:
            return self._day(calendar.day_named(period.key) + self._days)
        return self._period(period.end)

    def _day(self, day: int) -> Period:
        return Period(calendar.day_name(day), self._moment(day), self._moment(day + self._days))

    def _moment(self, day: int) -> float:
        return calendar.moment(day, self._at_seconds, self._zone)

    def _period(self, begin: float) -> Period:
        return Period(calendar.moment_name(begin), begin, begin + self.every)


def check_key(key: str) -> str:
    """Return a key that was made by hand; raise `UsageError` if it cannot be one."""
    text = str(key)
    if text != key or not (text.isprintable() and 1 <= len(text) <= KEY_LENGTH_MAX):
        raise UsageError(
            f"a period has 1 to {KEY_LENGTH_MAX} characters that can be printed, got {key!r}"
        )
    return key


def shape(key: str) -> str:
    """Return a key with one sign for all digits, and one for letters of each case: keys of one shape can be compared."""
    return "".join(
        "0" if each.isdecimal() else "A" if each.isupper() else "a" if each.islower() else each
        for each in key
    )


def _seconds(every: float | str) -> int:
    seconds = duration(every) if isinstance(every, str) else every
    if is_number(seconds) and 1 <= seconds <= SECONDS_MAX and not seconds % 1:
        return int(seconds)
    raise UsageError(
        f"a period lasts whole seconds, from 1s to {spelled(SECONDS_MAX)}, got {every!r}"
    )


def _time_of_day(text: str) -> int:
    match = TIME_OF_DAY.fullmatch(text)
    if match is None:
        raise UsageError(f"expected a time of day such as 02:00 or 14:30:15, got {text!r}")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (hours * 60 + minutes) * 60 + seconds
