"""The record of a job's runs, the value of its lock: JSON, and the rule by which a period is due.

A record is a value: what was asked for, when and by whom are given, and a changed record is a new one.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal, TypeAlias

import msgspec

from coterie.errors import ConfigError, UsageError
from coterie.locks.legible import one_line

FORMAT = 1
SECONDS_MAX = 3660 * 86400  # of a period
RUNS_MAX = 16  # that a record keeps
BYTES_MAX = 4096  # of a record; the oldest runs go if it would be larger
STATUS_LENGTH_MAX = 100
PROCESS_LENGTH_MAX = 100

Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""A time that calendars of all zones can show: a program that may take the lock can write any number."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Length: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=SECONDS_MAX)]

State: TypeAlias = Literal["started", "done", "failed", "interrupted", "again"]
"""How a run stands: it has begun; it has ended well; it has failed; it had begun when a later one began, and nothing was
recorded of its end; or, which is no run, an operator has asked for it once more."""

Reason: TypeAlias = Literal["done", "started", "failed", "late"]
"""Why a period is not due: it has run; it was begun and there is no attempt left; it has failed, likewise; a later
period was begun."""


class RunRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run, or the order of an operator to run a period again."""

    period: str
    attempt: Count  # from 1 on; 0 for an order
    token: Count  # of the hold in which it ran
    by: str  # a process, as people find it: host:pid
    began: Moment  # in seconds since 1970, by the clock of that process, as is `ended`
    state: State
    ended: Moment | None = None
    status: str = ""  # what it ended with, in words


class RecordHeader(msgspec.Struct, frozen=True):
    """What a record of any format begins with."""

    once: int


class OnceRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is known of a job."""

    once: int  # the format of this record
    period: str  # the latest that was begun
    starts: Count  # of this period, since it was last ordered to run again
    since: Moment  # when the first run began
    runs: tuple[RunRecord, ...]  # the latest ones, the present one last; never empty
    every: Length | None = None  # seconds; None: periods are named by hand
    at: str | None = None
    zone: str | None = None
    counts: dict[State, Count] = {}  # how many runs there were that have ended, by state
    success: Moment | None = None  # when the last run ended that ended well

    @property
    def last(self) -> RunRecord:
        """The present run, or the one before if none goes on."""
        return self.runs[-1]

    def objection(self, period: str, attempts: int) -> Reason | None:
        """Return why a period is not due; None if it is."""
        if period > self.period:
            return None
        if period < self.period:
            return "late"
        state = self.last.state
        if state == "done":
            return "done"
        if self.starts < attempts:
            return None
        return "failed" if state == "failed" else "started"

    def ended(self, state: Literal["done", "failed"], status: str, now: float) -> OnceRecord:
        """Return the record after the end of the present run."""
        assert self.last.state == "started", "it ends once"
        run = msgspec.structs.replace(
            self.last, state=state, ended=now, status=legible_status(status)
        )
        return msgspec.structs.replace(
            self,
            runs=(*self.runs[:-1], run),
            counts=_one_more(self.counts, state),
            success=now if state == "done" else self.success,
        )

    def again(self, token: int, by: str, now: float) -> OnceRecord:
        """Return the record after an operator has ordered the latest period to run again."""
        runs, counts = self.closed()
        order = RunRecord(self.period, 0, token, by[:PROCESS_LENGTH_MAX], now, "again")
        return msgspec.structs.replace(self, starts=0, runs=(*runs, order), counts=counts)

    def closed(self) -> tuple[tuple[RunRecord, ...], dict[State, int]]:
        """Return runs and counts when another holder comes: a run whose end is unknown was interrupted."""
        if self.last.state != "started":
            return self.runs, self.counts
        broken = msgspec.structs.replace(self.last, state="interrupted")
        return (*self.runs[:-1], broken), _one_more(self.counts, "interrupted")


def started(record: OnceRecord | None, period: str, token: int, by: str, now: float) -> OnceRecord:
    """Return the record of a run that begins."""
    starts = record.starts + 1 if record is not None and period == record.period else 1
    run = RunRecord(period, starts, token, by[:PROCESS_LENGTH_MAX], now, "started")
    if record is None:
        return OnceRecord(FORMAT, period, starts, now, (run,))
    runs, counts = record.closed()
    return msgspec.structs.replace(
        record, period=period, starts=starts, runs=(*runs, run), counts=counts
    )


def encode(record: OnceRecord) -> bytes:
    """Return the value of the job's lock, without the oldest runs if there are too many."""
    runs = record.runs[-RUNS_MAX:]
    while True:
        data = msgspec.json.encode(msgspec.structs.replace(record, runs=runs))
        if len(data) <= BYTES_MAX or len(runs) == 1:
            return data
        runs = runs[1:]


def decode(name: str, data: bytes) -> OnceRecord:
    """Return the record in the value of a lock; raise `UsageError` if that is no record."""
    record = None
    with contextlib.suppress(msgspec.MsgspecError):
        if _header_decoder.decode(data).once > FORMAT:
            raise ConfigError(
                f"the record of {name!r} was written by a later version of coterie: use that here, too"
            )
        record = _decoder.decode(data)
    if record is None or not record.runs:
        raise UsageError(
            f"the value of lock {name!r} is no record of runs, so another program uses it for something else:"
            " choose another name for the job"
        )
    return record


def legible_status(status: str) -> str:
    """Return what a run ended with as one line of bounded length."""
    return one_line(status)[:STATUS_LENGTH_MAX]


def _one_more(counts: dict[State, int], state: State) -> dict[State, int]:
    return {**counts, state: counts.get(state, 0) + 1}


_decoder = msgspec.json.Decoder(OnceRecord)
_header_decoder = msgspec.json.Decoder(RecordHeader)
