"""The observers of one coordinator. Whatever they do, locks are granted and given back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.telemetry.observer import HoldObserver, Observer, Outcome

logger = logging.getLogger("coterie.locks")


class Observers:
    """Tells them all; an error of one is logged, and costs neither the lock nor the others."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Tell these, in this order."""
        self._observers = tuple(observers)

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> ObservedHold:
        """Tell them all that a lock is held."""
        holds = []
        for observer in self._observers:
            try:
                hold = observer.obtained(name, token, shared=shared, wait_seconds=wait_seconds)
                holds.append(hold)
            except Exception:
                logger.exception(
                    "%r failed to note that lock %r is held",
                    observer,
                    name,
                    extra={"event": "observer-failed"},
                )
        return ObservedHold(name, holds)

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        """Tell them all that a request ended without the lock."""
        for observer in self._observers:
            try:
                observer.missed(name, outcome, shared=shared, wait_seconds=wait_seconds)
            except Exception:
                logger.exception(
                    "%r failed to note a request for lock %r",
                    observer,
                    name,
                    extra={"event": "observer-failed"},
                )


class ObservedHold:
    """One hold, for all that want to know of its end."""

    __slots__ = ("_holds", "_name")

    def __init__(self, name: str, holds: list[HoldObserver]) -> None:
        """Remember what is to be told."""
        self._name = name
        self._holds = holds

    def end(self, *, lost: bool) -> None:
        """Tell them, once."""
        holds, self._holds = self._holds, []
        for hold in holds:
            try:
                hold.end(lost=lost)
            except Exception:
                logger.exception(
                    "%r failed to note the end of lock %r",
                    hold,
                    self._name,
                    extra={"event": "observer-failed"},
                )
