"""How long a crash keeps users out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.simulate.monitors import Section


class Outages:
    """Measures, from each crash to the next, the longest time that users wait for a free section."""

    def __init__(self) -> None:
        """Start before the first crash."""
        self.longest: list[float] = []  # one number per crash
        self._since: float | None = None  # a user waits, and none is inside

    def crashed(self, now: float, section: Section) -> None:
        """Begin to measure; a wait that goes on counts from now."""
        self.longest.append(0.0)
        self._since = None
        self.look(now, section)

    def look(self, now: float, section: Section) -> None:
        """Look where the users are, after a change."""
        if section.waiting and not section.inside:
            self._since = now if self._since is None else self._since
        elif self._since is not None:
            self.longest[-1] = max(self.longest[-1], now - self._since)
            self._since = None
