"""What a program asks for: a schedule or a period by hand, and how often a period may be begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.errors import NotDue, UsageError
from coterie.locks.duration import duration, is_number, spelled
from coterie.locks.once.period import Schedule, check_key, shape
from coterie.locks.once.record import OnceRecord, started

if TYPE_CHECKING:
    from coterie.locks.once.period import Period
    from coterie.locks.once.record import Reason

ATTEMPTS_MAX = 1000
CATCH_UP_MAX = 1000


class Due(NamedTuple):
    """A period that is to be begun."""

    key: str
    attempt: int


class Plan:
    """When a job is due, by what a program asks for and the record of its runs."""

    def __init__(
        self,
        name: str,
        key: str | None = None,
        *,
        every: float | str | None = None,
        at: str | None = None,
        zone: str | None = None,
        attempts: int = 1,
        catch_up: int = 1,
        only_within: float | str | None = None,
    ) -> None:
        """Take what was asked for; raise `UsageError` if it makes no sense."""
        if (key is None) == (every is None):
            raise UsageError(
                f"job {name!r}: say either how long a period lasts, such as every='1d', or which period this is"
            )
        if every is None and (at or zone or catch_up != 1 or only_within is not None):
            raise UsageError(
                f"job {name!r}: at, zone, catch_up and only_within go with every, not with a period by hand"
            )
        self.name = name
        self.attempts = _count("attempts", attempts, ATTEMPTS_MAX)
        self.catch_up = _count("catch_up", catch_up, CATCH_UP_MAX)
        self.schedule = None if every is None else Schedule(every, at, zone)
        self._key = "" if key is None else check_key(key)
        self._only_within = None if only_within is None else _seconds(only_within)
        if self.catch_up > 1 and self._only_within is not None:
            raise UsageError(
                "catch_up runs periods that are over, and only_within none of them: use one"
            )

    def choose(self, record: OnceRecord | None, now: float) -> Due:
        """Return the period that is due at this moment; raise `NotDue` if none is."""
        if record is not None:
            self._check(record)
        if self.schedule is None:
            return self._due(record, self._key)
        newest = self.schedule.period_at(now)
        for period in self._missed(record, newest):
            if record is None or record.objection(period.key, self.attempts) is None:
                return self._due(record, period.key)
        due = self._due(record, newest.key)
        if self._only_within is not None and now > newest.begin + self._only_within:
            raise NotDue(
                f"job {self.name!r}: period {newest.key} began more than {spelled(self._only_within)} ago",
                period=newest.key,
                reason="over",
            )
        return due

    def begun(
        self, record: OnceRecord | None, due: Due, token: int, by: str, now: float
    ) -> OnceRecord:
        """Return the record of the run that begins now."""
        begun = started(record, due.key, token, by, now)
        schedule = self.schedule
        if schedule is None:
            return begun
        return msgspec.structs.replace(
            begun, every=schedule.every, at=schedule.at, zone=schedule.zone
        )

    def wait_seconds(self, now: float) -> float | None:
        """Return how long waiting makes sense: until the next period can be asked for; None without end."""
        if self.schedule is None:
            return None
        return max(0.0, self.schedule.period_at(now).end - self.schedule.slack - now)

    def _missed(self, record: OnceRecord | None, newest: Period) -> list[Period]:
        """Return the periods before the newest that may be run, the oldest first."""
        assert self.schedule is not None
        found: list[Period] = []
        period = newest
        while len(found) < self.catch_up - 1 and record is not None and period.key > record.period:
            period = self.schedule.previous(period)
            found.append(period)
        return found[::-1]

    def _due(self, record: OnceRecord | None, key: str) -> Due:
        if record is None:
            return Due(key, 1)
        reason = record.objection(key, self.attempts)
        if reason is not None:
            raise NotDue(
                f"job {self.name!r}: {_explanation(reason, key, record)}",
                period=key,
                reason=reason,
            )
        return Due(key, record.starts + 1 if key == record.period else 1)

    def _check(self, record: OnceRecord) -> None:
        """Raise `UsageError` if the record is one of other periods."""
        every = None if self.schedule is None else self.schedule.every
        if record.every != every:
            raise UsageError(
                f"job {self.name!r} runs {_every(record.every)} at {record.last.by}, and is asked for"
                f" {_every(every)} here: programs that use one name have to agree; give one of them another name"
            )
        if every is None and shape(self._key) != shape(record.period):
            raise UsageError(
                f"job {self.name!r}: period {self._key!r} has not the shape of {record.period!r}, its last one by"
                f" {record.last.by}, so it is not known which is later"
            )


def _explanation(reason: Reason, key: str, record: OnceRecord) -> str:
    last = record.last
    match reason:
        case "done":
            return f"period {key} is done, by {last.by}"
        case "started":
            return f"period {key} was begun by {last.by}, whose end is not recorded"
        case "failed":
            return f"period {key} has failed at {last.by}: {last.status}"
        case "late":
            return (
                f"period {key} is late, {record.period} has begun by {last.by}: look whether the clock of this"
                " machine is behind, or that of the other one was ahead"
            )


def _every(seconds: int | None) -> str:
    return "by periods that are named by hand" if seconds is None else f"every {spelled(seconds)}"


def _count(what: str, number: int, most: int) -> int:
    if number in range(1, most + 1):
        return number
    raise UsageError(f"{what} must be a number from 1 to {most}, got {number!r}")


def _seconds(given: float | str) -> float:
    seconds = duration(given) if isinstance(given, str) else given
    if is_number(seconds) and seconds > 0:
        return seconds
    raise UsageError(f"only_within must be above 0 seconds, got {given!r}")
