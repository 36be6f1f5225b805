"""Which period a moment belongs to: time zones, days of 23 and 25 hours, slack, keys by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import UsageError
from coterie.locks.once.period import Schedule, check_key, shape
from coterie.system import calendar


def moment(text: str, zone: str = "UTC") -> float:
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=ZoneInfo(zone))).timestamp()


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("schedule", "now", "key"),
    [
        # a day of UTC begins at midnight, and five minutes before
        (Schedule("1d"), "2026-11-17 23:54:59", "2026-11-17"),
        (Schedule("1d"), "2026-11-17 23:55:00", "2026-11-18"),
        (Schedule("1d", "02:00"), "2026-11-18 01:54", "2026-11-17"),
        (Schedule("1d", "02:00"), "2026-11-18 01:56", "2026-11-18"),
        (Schedule("1d", "14:30:15"), "2026-11-18 14:25:15", "2026-11-18"),
        # the day of a zone, whatever the zone of the machine
        (Schedule("1d", "02:00", BERLIN), "2026-11-18T00:56:00+00:00", "2026-11-18"),
        (Schedule("1d", "02:00", BERLIN), "2026-11-18T00:54:00+00:00", "2026-11-17"),
        (Schedule("1d", zone="Pacific/Kiritimati"), "2026-11-17T10:00:00+00:00", "2026-11-18"),
        # clocks are set forward from 02:00 to 03:00: cron runs the jobs of that hour at 03:00
        (Schedule("1d", "02:30", BERLIN), "2026-03-29T00:54:00+00:00", "2026-03-28"),
        (Schedule("1d", "02:30", BERLIN), "2026-03-29T03:00:00+02:00", "2026-03-29"),
        (Schedule("1d", "02:30", BERLIN), "2026-03-29T03:30:00+02:00", "2026-03-29"),
        (Schedule("1d", "03:30", BERLIN), "2026-03-29T03:00:00+02:00", "2026-03-28"),
        # clocks are set back from 03:00 to 02:00: the first 02:30 counts, and the second is of the same day
        (Schedule("1d", "02:30", BERLIN), "2026-10-25T02:20:00+02:00", "2026-10-24"),
        (Schedule("1d", "02:30", BERLIN), "2026-10-25T02:30:00+02:00", "2026-10-25"),
        (Schedule("1d", "02:30", BERLIN), "2026-10-25T02:10:00+01:00", "2026-10-25"),
        # back over midnight: the day that has begun goes on
        (Schedule("1d", zone="America/St_Johns"), "2006-10-29T00:00:30-02:30", "2006-10-29"),
        (Schedule("1d", zone="America/St_Johns"), "2006-10-28T23:30:00-03:30", "2006-10-29"),
        # a day that a zone left out
        (Schedule("1d", zone="Pacific/Apia"), "2011-12-29T23:00:00-10:00", "2011-12-29"),
        (Schedule("1d", zone="Pacific/Apia"), "2011-12-31T00:00:00+14:00", "2011-12-31"),
        # weeks begin on Mondays, and several days are counted from one
        (Schedule("1w"), "2026-11-15 12:00", "2026-11-09"),
        (Schedule("1w", "06:00"), "2026-11-16 06:00", "2026-11-16"),
        (Schedule("2d"), "2026-11-17 12:00", "2026-11-17"),
        (Schedule("2d"), "2026-11-18 12:00", "2026-11-17"),
        # below a day, and what is not whole days, in UTC
        (Schedule("6h"), "2026-11-17 05:54:59", "2026-11-17T00:00:00Z"),
        (Schedule("6h"), "2026-11-17 05:55", "2026-11-17T06:00:00Z"),
        (Schedule("6h", "02:00"), "2026-11-17 01:00", "2026-11-16T20:00:00Z"),
        (Schedule("10m"), "2026-11-17 00:08:59", "2026-11-17T00:00:00Z"),
        (Schedule("10m"), "2026-11-17 00:09", "2026-11-17T00:10:00Z"),
        (Schedule(90), "2026-11-17 00:01:22", "2026-11-17T00:01:30Z"),
        (Schedule("36h"), "1970-01-02 12:00", "1970-01-02T12:00:00Z"),
    ],
)
def test_the_period_of_a_moment(schedule: Schedule, now: str, key: str) -> None:
    period = schedule.period_at(moment(now))
    assert period.key == key
    assert schedule.period_of(key) == period


ZONES = st.sampled_from(
    [None, BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca"]
)
YEAR = 366 * 86400


@given(ZONES, st.integers(0, 86399), st.floats(0, 30 * YEAR), st.floats(0, 3 * 86400))
def test_keys_grow_with_time(zone: str | None, at: int, now: float, more: float) -> None:
    text = f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"
    schedule = Schedule("1d", text, zone)
    first, second = schedule.period_at(now), schedule.period_at(now + more)
    assert first.key <= second.key
    assert (first.key == second.key) == (first == second)
    assert first.begin <= now + schedule.slack < first.end
    assert schedule.next(schedule.previous(first)).key == first.key


@given(st.integers(1, 400 * 3600), st.floats(0, 30 * YEAR), st.floats(0, 3 * 86400))
def test_keys_of_any_length_grow_with_time(every: int, now: float, more: float) -> None:
    schedule = Schedule(every)
    first, second = schedule.period_at(now), schedule.period_at(now + more)
    assert first.key <= second.key
    assert first.begin <= now + schedule.slack < first.end
    assert schedule.period_of(first.key) == first


@given(st.floats(0, 30 * YEAR))
def test_machines_whose_clocks_differ_by_less_than_the_slack_agree(begin: float) -> None:
    """A timer that fires at the beginning of a period, by clocks that are apart."""
    schedule = Schedule("1d", "02:00", BERLIN)
    period = schedule.next(schedule.period_at(begin))
    keys = {schedule.period_at(period.begin + error).key for error in (-300.0, -1.0, 0.0, 300.0)}
    assert keys == {period.key}


def test_without_slack_they_would_not() -> None:
    schedule = Schedule("1d")
    midnight = moment("2026-11-17 00:00")
    assert schedule.period_at(midnight - 0.1).key == "2026-11-17"
    schedule.slack = 0.0
    assert schedule.period_at(midnight - 0.1).key == "2026-11-16"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("5x",), "expected a duration such as"),
        ((0.5,), "whole seconds, from 1s"),
        (("1500ms",), "whole seconds, from 1s"),
        ((float("nan"),), "whole seconds, from 1s"),
        (("4000d",), "whole seconds, from 1s to 3660d"),
        (("1d", "24:00"), "expected a time of day"),
        (("1d", "2:00"), "expected a time of day"),
        (("1d", "02:00", "Europe/Nowhere"), "unknown time zone 'Europe/Nowhere'"),
        (("1d", "02:00", "../../etc/passwd"), "unknown time zone"),
        (("6h", None, BERLIN), "a time zone is for periods of whole days, and every is 6h"),
        (("36h", None, BERLIN), "a time zone is for periods of whole days, and every is 36h"),
    ],
)
def test_what_is_no_schedule_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Schedule(*arguments)


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        (Schedule("1d"), "2026-11-17T00:00:00Z"),
        (Schedule("1h"), "2026-11-17"),
        (Schedule("1h"), "a"),
        (Schedule("1d"), "9999-12-31"),
        (Schedule("1d", zone=BERLIN), "0001-01-01"),
    ],
)
def test_a_key_of_another_schedule_is_refused(schedule: Schedule, key: str) -> None:
    with pytest.raises(UsageError, match="is none of a job that runs every 1"):
        schedule.period_of(key)


def test_a_schedule_is_described_as_it_is_written() -> None:
    assert str(Schedule("7d", "02:00", BERLIN)) == "every 1w at 02:00 in Europe/Berlin"
    assert str(Schedule(5400)) == "every 90m"


def test_keys_of_one_shape_can_be_compared() -> None:
    assert shape("2026-11-17") == shape("1999-01-02") == "0000-00-00"
    assert len({shape(key) for key in ("9", "10", "a", "A", "-")}) == 5
    for wrong in ("", "x" * 65, "a\nb"):
        with pytest.raises(UsageError, match="a period has 1 to 64 characters"):
            check_key(wrong)


def test_moments_have_names() -> None:
    assert calendar.local_name(moment("2026-11-17 02:00", BERLIN), calendar.check_zone(BERLIN)) == (
        "2026-11-17 02:00 CET"
    )
    assert calendar.local_name(0.0, UTC) == "1970-01-01 00:00 UTC"
