"""The commands of a scenario that lead through a recorded run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from coterie.catalogue import find
from coterie.errors import UsageError
from coterie.process import Channel
from coterie.trace import (
    Called,
    Crashed,
    Delivered,
    Dropped,
    Noticed,
    Paused,
    Rang,
    Repeated,
    Resumed,
    Sent,
    Started,
    Told,
    Violated,
)

if TYPE_CHECKING:
    from coterie.trace import AnyRecord, Trace


class Script:
    """The commands that lead through the records of a trace."""

    def __init__(self, trace: Trace) -> None:
        """Begin with no commands."""
        self.trace = trace
        self.commands: list[str] = []
        self.links: dict[tuple[int, int], list[Sent]] = {}
        self.begun: set[int] = set()
        self.crashed: set[int] = set()
        self.reorders = False
        self.repeated: int | None = None  # from which command on they repeat without end
        self.arrivals = [x.number for x in trace.records if isinstance(x, Delivered)]

    def write(self, record: AnyRecord) -> None:  # noqa: C901 - a case for each kind of record
        """Add the command that makes the record happen, unless it follows from the others."""
        match record:
            case Sent(_, _, sender, receiver):
                self.links.setdefault((sender, receiver), []).append(record)
            case Called(_, process, call):
                self.commands.append(f"{call} {process}")
            case Delivered(_, number):
                self.arrivals.remove(number)
                again = number in self.arrivals
                self._pick("repeat" if again else "deliver", record, keep=again)
            case Dropped():
                self._pick("drop", record)
            case Rang(_, process, timer):
                self.commands.append(f"ring {process} {timer}")
            case Noticed(_, process, peer):
                self.commands.append(
                    f"{'down' if peer in self.crashed else 'suspect'} {process} {peer}"
                )
            case Crashed(_, process):
                self.crashed.add(process)
                self.commands.append(f"crash {process}")
            case Started(_, process) if process not in self.begun:
                self.begun.add(process)
            case Started(_, process, amnesia) if amnesia:
                self.crashed.discard(process)
                self.commands.append(f"restart {process}")
            case Started() | Paused() | Resumed():
                raise UsageError("no scenario for a run in which processes pause, or keep memory")
            case Repeated():
                self.repeated = len(self.commands)
            case Told() | Violated():
                pass

    def _pick(self, verb: str, record: Delivered | Dropped, *, keep: bool = False) -> None:
        link = self.links[record.sender, record.receiver]
        place = next(i for i, sent in enumerate(link) if sent.number == record.number)
        which = f" {link[place].label}" if place else ""
        self.reorders |= bool(place) and verb != "drop"
        self.commands.append(f"{verb} {record.sender} > {record.receiver}{which}")
        if not keep:
            del link[place]

    def first_line(self) -> str:
        """Return the line that builds the processes and chooses the links."""
        header = self.trace.header
        choices = {"variant": header.variant, **header.parameters}
        if self.reorders and find(header.algorithm).channel is Channel.FIFO:
            choices["channel"] = Channel.UNORDERED.value
        if header.clock == "none" and find(header.algorithm).reads_clock:
            choices["clock"] = header.clock
        first = [header.algorithm, str(header.size)]
        first += [f"{name}={value}" for name, value in choices.items() if value]
        return shlex.join(first)

    def text(self) -> str:
        """Return the scenario, without what the commands cause; a violation is shown at the end."""
        header = self.trace.header
        title = [f"# {header.title}"] if header.title else []
        shows = any(isinstance(record, Violated) for record in self.trace.records)
        commands = self.commands.copy()
        if self.repeated is not None:
            commands.insert(self.repeated, "# from here on, again and again:")
        return "\n".join([*title, self.first_line(), *commands, *["show"] * shows])
