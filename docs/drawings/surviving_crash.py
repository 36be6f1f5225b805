"""The arbiter of a process inside crashes: what the rules of 1996 do then, and the repaired ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from coterie.catalogue import algorithm
from coterie.diagram.layers import Point
from coterie.diagram.legend import SAMPLE, Entry, draw_legend
from coterie.diagram.lifelines import Condition, history
from coterie.diagram.svg import ALARM, INK, PAPER, SOFT, Sheet
from coterie.simulate import Crash, Simulation, Workload, World
from coterie.trace import Called, Header, Rang
from docs.drawings.figure import BLUE, MARGIN, ORANGE, arrow, heading

if TYPE_CHECKING:
    from coterie.diagram.lifelines import History
    from coterie.trace import Trace

SETTINGS = {"coterie": "singleton", "sigma": "1", "lambda": "1", "t-max": "5"}
INSIDE, WAITER, ARBITER = 3, 2, 1
CRASH = 1.5  # the lock is on its way to 3, and the request of 2 to the arbiter
STAY = 12.5
END = 18.5
SCALE, LEFT = 37.0, 116.0
LANE, PANEL = 58.0, 262.0
BARS = {Condition.WAITING: (5.0, "#f2c46d"), Condition.INSIDE: (14.0, BLUE)}  # height and colour


@dataclass(frozen=True)
class Two(Workload):
    """One asks, and another one a little later."""

    def start(self, world: World) -> None:
        world.ask(INSIDE)
        world.after(1.0, partial(world.ask, WAITER))


def draw() -> str:
    sheet = Sheet(themed=True)
    published, repaired = _run("published"), _run("repaired")
    (violated,) = history(published).violations
    assert not history(repaired).violations
    _Panel(sheet, 92.0).draw(published, violated.time + 2.5, violated.time)
    heading(
        sheet,
        MARGIN,
        34,
        "As published: two are inside",
        "1 has given its lock to 3 and crashes. 2 finds it dead, stands in for it, knows nothing of that lock,",
        "and takes its own.",
    )
    _Panel(sheet, 92.0 + PANEL).draw(repaired, END)
    heading(
        sheet,
        MARGIN,
        34 + PANEL,
        "Repaired: the one inside says so",
        "3 hears the news while inside by the lock of 1, and answers Hold. The quarantine of 2 is long enough for",
        "that answer, and 2 waits for the Unhold.",
    )
    width = LEFT + END * SCALE + MARGIN
    bottom = 92.0 + PANEL + 2 * LANE + 76
    bottom += draw_legend(sheet, MARGIN, bottom, width - 2 * MARGIN, _legend())
    return sheet.finish(
        width, bottom + 14, "A crash, with the published rules and with the repaired ones"
    )


def _run(variant: str) -> Trace:
    entry = algorithm("fault-tolerant")
    processes = entry.build(entry.setup(3, variant, SETTINGS))
    header = Header(algorithm="fault-tolerant", size=3, variant=variant)
    faults = [Crash(ARBITER, CRASH)]
    run = Simulation(processes, workload=Two(hold=STAY), faults=faults, header=header)
    trace = run.run().trace
    assert trace is not None
    return trace


@dataclass(frozen=True)
class _Panel:
    """Three lanes, with the times that the rules speak of."""

    sheet: Sheet
    top: float

    def at(self, time: float, process: int) -> Point:
        return Point(LEFT + time * SCALE, self.top + (process - 1) * LANE + 14)

    def draw(self, trace: Trace, end: float, violated: float | None = None) -> None:
        past = history(trace, end)
        if violated is not None:
            left, width = self.at(violated, 1).x, (end - violated) * SCALE
            look = {"x": left, "y": self.top - 6, "width": width, "height": 2 * LANE + 40}
            self.sheet.add("rect", fill=ALARM, opacity="0.14", **look)
            self.sheet.text(left + width + 8, self.at(0, 3).y + 4, "two are inside", fill=ALARM)
        for process in (1, 2, 3):
            start = self.at(0, process)
            self.sheet.text(MARGIN, start.y + 4, f"process {process}", fill=INK)
            self.sheet.line((LEFT - 14, start.y), self.at(end, process), stroke=SOFT)
        self._stays(past)
        self._flights(past)
        self._brackets(trace)

    def _stays(self, past: History) -> None:
        for stay in past.stays:
            begin = self.at(stay.begin, stay.process)
            end = self.at(min(stay.end, past.end), stay.process)
            if stay.condition is Condition.DOWN:
                self.sheet.line(begin, end, stroke=PAPER, stroke_width=3)
                self.sheet.line(begin, end, stroke=ALARM, stroke_dasharray="1 5")
                self.sheet.cross(*begin, 6, stroke=ALARM, stroke_width=2.4)
                continue
            height, colour = BARS[stay.condition]
            size = {"width": end.x - begin.x, "height": height}
            self.sheet.add("rect", x=begin.x, y=begin.y - height / 2, rx=2, fill=colour, **size)

    def _flights(self, past: History) -> None:
        """Draw arrows; several messages that go the same way at the same time share one."""
        together: dict[tuple[Point, Point, bool], list[str]] = {}
        for flight in past.flights.values():
            lost = flight.lost is not None
            for time in [flight.lost] if flight.lost is not None else flight.arrivals:
                ends = self.at(flight.begin, flight.sender), self.at(time, flight.receiver)
                together.setdefault((*ends, lost), []).append(flight.kind)
        for (start, end, lost), kinds in together.items():
            dashes, colour = ("3 3", SOFT) if lost else ("none", INK)
            arrow(self.sheet, start, end.towards(start, 9), colour, dashes=dashes)
            self._label(start, end, ", ".join(kinds))

    def _label(self, start: Point, end: Point, words: str) -> None:
        """Write beside an arrow, where it crosses no lane: right of it, or left where others follow."""
        down, far = end.y > start.y, abs(end.y - start.y) > LANE
        part = 0.5 if not far else 0.75 if down else 0.25
        x, y = start.x + part * (end.x - start.x), start.y + part * (end.y - start.y)
        if far == down:
            self.sheet.text(x + 8, y + 5, words, font_size=10.5, fill=INK)
        else:
            self.sheet.text(x - 8, y + 5, words, font_size=10.5, fill=INK, text_anchor="end")

    def _brackets(self, trace: Trace) -> None:
        """Show how long 2 waits, and what for."""
        times = [
            record.time
            for record in trace.records
            if (
                isinstance(record, Called) and record.call == "acquire" and record.process == WAITER
            )
            or (isinstance(record, Rang) and record.process == WAITER)
        ]
        y = self.at(0, 3).y + 28
        names = ("T_max: 2 waits", "T_d: no answer", "quarantine")
        for name, begin, end in zip(names, times, times[1:], strict=False):
            left, right = self.at(begin, 1).x + 2, self.at(end, 1).x - 2
            self.sheet.line((left, y), (right, y), stroke=ORANGE, stroke_width=2)
            for x in (left, right):
                self.sheet.line((x, y - 4), (x, y + 4), stroke=ORANGE, stroke_width=2)
            anchor, x = ("middle", (left + right) / 2) if right - left > 60 else ("start", left)
            self.sheet.text(x, y + 17, name, font_size=10.5, fill=INK, text_anchor=anchor)


def _legend() -> list[Entry]:
    def bar(condition: Condition) -> partial[None]:
        return partial(_sample, *BARS[condition])

    return [
        Entry("waits", bar(Condition.WAITING)),
        Entry("inside", bar(Condition.INSIDE)),
        Entry("a message to the dead", _lost),
        Entry("times of process 2", partial(_sample, 2.0, ORANGE)),
    ]


def _sample(height: float, colour: str, sheet: Sheet, x: float, y: float) -> None:
    sheet.add("rect", x=x, y=y - height / 2, width=SAMPLE, height=height, rx=1, fill=colour)


def _lost(sheet: Sheet, x: float, y: float) -> None:
    arrow(sheet, Point(x, y), Point(x + SAMPLE, y), SOFT, dashes="3 3")
