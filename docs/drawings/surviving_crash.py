"""The arbiter of a process inside crashes: what the rules of 1996 do then, and the repaired ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from coterie.catalogue import find
from coterie.diagram.layers import Point
from coterie.diagram.legend import SAMPLE, LegendEntry, draw_legend
from coterie.diagram.lifelines import LaneCondition, history
from coterie.diagram.svg import ALARM, SOFT, Sheet
from coterie.lab.simulate import Crash, Simulation, Workload, World
from coterie.trace import Called, Header, Rang
from docs.drawings.figure import BLUE, MARGIN, ORANGE, arrow, heading
from docs.drawings.lanes import LANE, LEFT, Lanes

if TYPE_CHECKING:
    from coterie.trace import Trace

SETTINGS = {"coterie": "singleton", "sigma": "1", "lambda": "1", "t-max": "5"}
INSIDE, WAITER, ARBITER = 3, 2, 1
CRASH = 1.5  # the lock is on its way to 3, and the request of 2 to the arbiter
STAY = 12.5
END = 18.5
SCALE, PANEL = 37.0, 262.0
BARS = {
    LaneCondition.WAITING: (5.0, "#f2c46d"),
    LaneCondition.INSIDE: (14.0, BLUE),
}  # height and colour


@dataclass(frozen=True)
class Two(Workload):
    """One asks, and another one a little later."""

    def start(self, world: World) -> None:
        world.ask(INSIDE)
        world.after(1.0, partial(world.ask, WAITER))


def draw() -> str:
    sheet = Sheet()
    published, repaired = _run("published"), _run("repaired")
    (violated,) = history(published).violations
    assert not history(repaired).violations
    _panel(sheet, 92.0, published, violated.time + 2.5, violated.time)
    heading(
        sheet,
        MARGIN,
        34,
        "As published: two are inside",
        "1 has given its lock to 3 and crashes. 2 finds it dead, stands in for it, knows nothing of that lock,",
        "and takes its own.",
    )
    _panel(sheet, 92.0 + PANEL, repaired, END)
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
    entry = find("fault-tolerant")
    processes = entry.build(entry.setup(3, variant, SETTINGS))
    header = Header(algorithm="fault-tolerant", size=3, variant=variant)
    faults = [Crash(ARBITER, CRASH)]
    run = Simulation(processes, workload=Two(hold=STAY), faults=faults, header=header)
    trace = run.run().trace
    assert trace is not None
    return trace


def _panel(
    sheet: Sheet, top: float, trace: Trace, end: float, violated: float | None = None
) -> None:
    lanes = Lanes(sheet, top, SCALE, {each: f"process {each}" for each in (1, 2, 3)})
    if violated is not None:
        left, width = lanes.at(violated, 1).x, (end - violated) * SCALE
        look = {"x": left, "y": top - 6, "width": width, "height": 2 * LANE + 40}
        sheet.add("rect", fill=ALARM, opacity="0.14", **look)
        sheet.text(left + width + 8, lanes.at(0, 3).y + 4, "two are inside", fill=ALARM)
    lanes.draw(end)
    past = history(trace, end)
    for stay in past.stays:
        stop = min(stay.end, end)
        if stay.condition is LaneCondition.DOWN:
            lanes.down(stay.process, stay.begin, stop)
        else:
            lanes.bar(stay.process, stay.begin, stop, BARS[stay.condition])
    lanes.flights(past.flights.values())
    _brackets(lanes, trace)


def _brackets(lanes: Lanes, trace: Trace) -> None:
    """Show how long 2 waits, and what for."""
    times = [
        record.time
        for record in trace.records
        if (isinstance(record, Called) and record.call == "acquire" and record.process == WAITER)
        or (isinstance(record, Rang) and record.process == WAITER)
    ]
    names = ("T_max: 2 waits", "T_d: no answer", "quarantine")
    for name, begin, end in zip(names, times, times[1:], strict=False):
        lanes.bracket(name, begin, end)


def _legend() -> list[LegendEntry]:
    def bar(condition: LaneCondition) -> partial[None]:
        return partial(_sample, *BARS[condition])

    return [
        LegendEntry("waits", bar(LaneCondition.WAITING)),
        LegendEntry("inside", bar(LaneCondition.INSIDE)),
        LegendEntry("a message to the dead", _lost),
        LegendEntry("times of process 2", partial(_sample, 2.0, ORANGE)),
    ]


def _sample(height: float, colour: str, sheet: Sheet, x: float, y: float) -> None:
    sheet.add("rect", x=x, y=y - height / 2, width=SAMPLE, height=height, rx=1, fill=colour)


def _lost(sheet: Sheet, x: float, y: float) -> None:
    arrow(sheet, Point(x, y), Point(x + SAMPLE, y), SOFT, dashes="3 3")
