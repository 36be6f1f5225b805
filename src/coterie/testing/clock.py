"""A time of day that a test sets: what a program does at 02:00, on a machine whose clock is ahead, or after a week."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self
from zoneinfo import ZoneInfo

from coterie import system
from coterie.errors import MisuseError
from coterie.locks.duration import duration

if TYPE_CHECKING:
    from types import TracebackType

    from coterie.system import System


class WallClock(system.RealSystem):
    """The time of day of this process, as coterie reads it; use it in `with`.

    It stands still until it is moved. Leases and timeouts are counted on another clock, which goes on. To play
    machines whose clocks are apart, set it before what each of them does.
    """

    def __init__(self, now: str | float | None = None, zone: str = "UTC") -> None:
        """Begin at a time such as `2026-11-17 01:59`, in that zone, or in seconds since 1970; by default at the present."""
        super().__init__()
        self._zone = ZoneInfo(zone)
        self._now = 0.0
        self._before: System | None = None
        self.set(super().wall() if now is None else now)

    def __repr__(self) -> str:
        """Show the time."""
        return f"<WallClock {datetime.fromtimestamp(self._now, self._zone):%Y-%m-%d %H:%M:%S %Z}>"

    def __enter__(self) -> Self:
        """Let this process have this time."""
        if self._before is not None:
            raise MisuseError(f"{self!r} is in use already")
        self._before = system.move_to(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the process back the time that it had."""
        assert self._before is not None, "it was entered"
        system.move_to(self._before)
        self._before = None

    def wall(self) -> float:
        """Return the time of day, in seconds since 1970."""
        return self._now

    def set(self, now: str | float) -> None:
        """Set it, also backwards: to a time such as `2026-11-17 02:00`, or to seconds since 1970.

        Of a time that comes twice, as clocks are set back, the first is meant; an offset, as in `02:30+01:00`, says which.
        """
        if isinstance(now, str):
            read = datetime.fromisoformat(now)
            now = (read if read.tzinfo else read.replace(tzinfo=self._zone)).timestamp()
        self._now = now

    def move(self, by: str | float) -> None:
        """Move it on by a duration such as `5m`, or by seconds, which may be negative."""
        self._now += duration(by) if isinstance(by, str) else by
