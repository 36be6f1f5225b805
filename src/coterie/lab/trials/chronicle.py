"""What sites and their clients have told, put together as a history for the checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.trials.clients import Began, Wrote
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    Accepted,
    Committed,
    Found,
    Listed,
    Refused,
)
from coterie.transactions.site.events import Answered, Installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Event
    from coterie.transactions.schemes.scheduler import Name, Number, Value
    from coterie.transactions.site.events import UserAnswer


class Chronicle:
    """Makes a history of what clients and sites tell, also of what they told before a crash."""

    def __init__(self, universe: Sequence[str]) -> None:
        """Begin; a scan sees the absence of those keys that it does not list."""
        self.universe = universe
        self.lines: list[tuple[int, HistoryEvent]] = []
        self.written: dict[Name, dict[str, Value]] = {}
        self.committed: dict[Name, Number | None] = {}
        self._begun: dict[Name, int] = {}
        self._ends: dict[Name, int] = {}
        self._count = 0

    def add(self, event: Event) -> None:
        """Take note of an event."""
        self._count += 1
        match event:
            case Began(name):
                self.written[name] = {}
                self._begun[name] = self._count
            case Wrote(name, key, value):
                self._wrote(name, key, value)
            case Installed(name, number, writes):
                self.committed[name] = number
                self._begun.setdefault(name, self._count)
                told = self.written.setdefault(name, {})
                for key, value in writes:
                    if key not in told or told[key] != value:  # the crash came before
                        self._wrote(name, key, value)
            case Answered(answer):
                self._answered(answer)
            case _:
                pass

    def _wrote(self, name: Name, key: str, value: Value) -> None:
        self.written[name][key] = value
        self._line(HistoryEvent(name, "write", key, _text(value)))

    def _answered(self, answer: UserAnswer) -> None:
        name = answer.transaction
        match answer:
            case Found():
                self._saw(answer)
            case Listed(_, items, covered):
                for found in items:
                    self._saw(found)
                listed = {found.key for found in items}
                for key in self.universe:
                    if key in covered and key not in listed:
                        self._line(HistoryEvent(name, "read", key, None, BEGINNING))
            case Committed(_, number):
                self.committed[name] = number
                self._ends[name] = self._count
            case Refused():
                self._ends[name] = self._count
            case Accepted():
                pass

    def _saw(self, found: Found) -> None:
        own = found.key in self.written[found.transaction]
        version = None if own else found.number or BEGINNING
        self._line(HistoryEvent(found.transaction, "read", found.key, _text(found.value), version))

    def _line(self, line: HistoryEvent) -> None:
        self.lines.append((self._count, line))

    def history(self) -> History:
        """Return what happened; writes that no site has installed have not."""
        history = History()
        for count, line in self.lines:
            version = line.version
            if line.op == "write":  # no number is like that of a write that was never installed
                never = (*map(int, str(line.transaction).split(".")), 0)
                version = self.committed.get(str(line.transaction)) or never
            history.add(
                HistoryEvent(line.transaction, line.op, line.key, line.value, version), count
            )
        for name, transaction in list(history.transactions.items()):
            transaction.first = self._begun[str(name)]
            end = self._ends.get(str(name), self._count + 1)
            op = "commit" if name in self.committed else "abort"
            history.add(HistoryEvent(transaction.name, op), end)
        return history


def _text(value: Value) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
