"""Two-phase commit between three sites, and the same with a coordinator that crashes after the votes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coterie.diagram.legend import SAMPLE, LegendEntry, draw_legend
from coterie.diagram.lifelines import LaneCondition, history
from coterie.diagram.svg import Sheet
from coterie.lab.simulate import Crash, Restart, Simulation
from coterie.lab.trials.sites import Recorder, build_sites
from coterie.lab.trials.trial import program
from coterie.trace import Header, Told
from coterie.transactions.catalogue import scheme
from coterie.transactions.site.placement import site_of
from docs.drawings.figure import BLUE, MARGIN, ORANGE, heading
from docs.drawings.lanes import LANE, LEFT, Lanes

if TYPE_CHECKING:
    from coterie.diagram.lifelines import Flight
    from coterie.lab.simulate import Fault
    from coterie.trace import Trace

SITES = 3
PATIENCE = 3.0  # where a message takes 1
CRASH, RETURN = 5.5, 9.5
END = 13.5
SCALE = 54.0
NAMES = {2: "site 2", 1: "coordinator", 3: "site 3"}
PANEL = 262.0
LOCKED, DOUBT = (5.0, "#f2c46d"), (13.0, ORANGE)


def draw() -> str:
    sheet = Sheet()
    plain = _run([])
    _panel(sheet, 92.0, plain, 9.5)
    told = next(
        record.time
        for record in plain.records
        if isinstance(record, Told) and "Committed" in record.label
    )
    lanes = Lanes(sheet, 92.0, SCALE, NAMES)
    x, y = lanes.at(told, 1)
    sheet.add("circle", cx=x, cy=y, r=6, fill=BLUE)
    heading(
        sheet,
        MARGIN,
        34,
        "Two writes at two sites, and the commit",
        "A site has its vote on disk before it gives it, and the coordinator the decision before it tells it. From",
        "its vote to the decision a site is in doubt.",
    )
    _panel(sheet, 92.0 + PANEL, _run([Crash(1, CRASH), Restart(1, RETURN)]), END)
    heading(
        sheet,
        MARGIN,
        34 + PANEL,
        "The coordinator crashes before it has decided",
        "Neither site may decide alone, so both stay in doubt, with what they have locked, until it is back and",
        "answers. It has nothing on disk about the transaction, so that was aborted.",
    )
    width = LEFT + END * SCALE + MARGIN
    bottom = 92.0 + PANEL + 2 * LANE + 44
    bottom += draw_legend(sheet, MARGIN, bottom, width - 2 * MARGIN, _legend())
    return sheet.finish(width, bottom + 14, "Two-phase commit between three sites")


def _run(faults: list[Fault]) -> Trace:
    """Let a client of the first site write a key of each of the others."""
    keys = {site_of(key, SITES): key for key in "abcdefghijklm"}
    script = program(f"w({keys[2]}) w({keys[3]})")
    build = scheme("two-phase-locking").variant(None).build
    sites = build_sites(
        build, [[[script]], [], []], left=1, patience=PATIENCE, search_after=PATIENCE
    )
    header = Header(algorithm="sites", size=SITES)
    run = Simulation(sites, workload=Recorder(), faults=faults, header=header, until=END).run()
    assert run.trace is not None
    return run.trace


def _panel(sheet: Sheet, top: float, trace: Trace, end: float) -> None:
    lanes = Lanes(sheet, top, SCALE, NAMES)
    lanes.draw(end)
    past = history(trace, end)
    flights = [flight for flight in past.flights.values() if _is_of_the_first(flight)]
    for site in (2, 3):
        asked = next(f for f in flights if f.receiver == site and f.kind == "Ask")
        voted = next(f for f in flights if f.sender == site and f.kind == "Vote")
        ended = next(f for f in flights if f.receiver == site and f.kind == "Decide")
        lanes.bar(site, asked.arrivals[0], voted.begin, LOCKED)
        lanes.bar(site, voted.begin, ended.arrivals[0], DOUBT)
    for stay in past.stays:
        if stay.condition is LaneCondition.DOWN:
            lanes.down(stay.process, stay.begin, stay.end)
    lanes.flights(flight for flight in flights if flight.begin < end)


def _is_of_the_first(flight: Flight) -> bool:
    """Return whether a message is about the first transaction, after which the client begins again."""
    return ", 1.1" in flight.label


def _legend() -> list[LegendEntry]:
    return [
        LegendEntry("has a lock for the transaction", partial(_sample, *LOCKED)),
        LegendEntry("in doubt", partial(_sample, *DOUBT)),
        LegendEntry("the user is told", _dot),
    ]


def _dot(sheet: Sheet, x: float, y: float) -> None:
    sheet.add("circle", cx=x + SAMPLE / 2, cy=y, r=6, fill=BLUE)


def _sample(height: float, colour: str, sheet: Sheet, x: float, y: float) -> None:
    sheet.add("rect", x=x, y=y - height / 2, width=SAMPLE, height=height, rx=1, fill=colour)
