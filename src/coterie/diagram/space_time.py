"""Space-time diagrams: a lane for each process, time to the right, an arrow for each message."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.diagram import marks
from coterie.diagram.labels import Arrow, Labels
from coterie.diagram.legend import LegendEntry, draw_legend
from coterie.diagram.lifelines import LaneCondition, Lifelines, history
from coterie.diagram.svg import ALARM, BOLD, CHARACTER, GRID, PALETTE, SOFT, Sheet, text_width
from coterie.diagram.ticks import linear_ticks, tick_text
from coterie.trace import Called, Crashed, Delivered, Noticed, Rang, Started, Trace

if TYPE_CHECKING:
    from coterie.diagram.lifelines import Flight, Stay
    from coterie.trace import AnyRecord, Header

RECORDS_MAX = 10_000  # beyond this no reader follows a picture
LABELS_MAX = 150  # messages beyond which colours must do
MARGIN = 24.0
TITLE = 15.0
TOP = 64.0  # of the lanes, below the title
ABOVE, BELOW = 24.0, 18.0  # the first lane, the last lane
WIDTH_MIN, WIDTH_MAX = 420.0, 1680.0  # of the lanes
STEP = 58.0  # a step, or a moment at which something happens, where there is room


def space_time(trace: Trace) -> str:
    """Draw a trace as an SVG picture.

    Bars on the lanes are stays in the critical section, and thin ones the wait before. Of a very
    long trace only the beginning is drawn, and the picture says so.
    """
    drawn = Trace(trace.header, trace.records[:RECORDS_MAX])
    layout = _layout(drawn)
    past = history(drawn, layout.end)
    colours = {kind: PALETTE[i % len(PALETTE)] for i, kind in enumerate(past.kinds())}
    notes = [violation.caption() for violation in past.violations]
    if len(trace.records) > RECORDS_MAX:
        notes.append(f"the first {RECORDS_MAX:,} of {len(trace.records):,} records")

    sheet = Sheet()
    _draw_title(sheet, trace.header, layout.right - MARGIN)
    _draw_axis(sheet, layout)
    _draw_lanes(sheet, layout, past)
    _draw_flights(sheet, layout, past, colours)
    _draw_marks(sheet, layout, past)
    width, bottom = layout.right + MARGIN, layout.bottom + 40
    bottom += _draw_notes(sheet, bottom, width - 2 * MARGIN, notes)
    bottom += draw_legend(sheet, MARGIN, bottom, width - 2 * MARGIN, _legend(past, colours))
    return sheet.finish(width, bottom + 14, _title(trace.header))


@dataclass(frozen=True)
class _Layout:
    """Where times and processes stand on the sheet."""

    size: int
    stepwise: bool  # times are the numbers of steps
    begin: float
    last: float  # at which something happens
    end: float
    left: float
    right: float
    lane: float  # from one to the next

    @property
    def bottom(self) -> float:
        return self.y(self.size) + BELOW

    def x(self, time: float) -> float:
        return self.left + (time - self.begin) / (self.end - self.begin) * (self.right - self.left)

    def y(self, process: int) -> float:
        return TOP + ABOVE + (process - 1) * self.lane


def _layout(trace: Trace) -> _Layout:
    drawn = [record for record in trace.records if not isinstance(record, Started)]
    moments = sorted({record.time for record in drawn} or {0.0})
    stepwise = trace.header.seed is None and _is_stepwise(trace.records)
    margin = 1.0 if stepwise else (moments[-1] - moments[0] or 1.0) * 0.04
    left = MARGIN + text_width(f"process {trace.header.size}", 12) + 10
    room = STEP if stepwise else STEP * 0.6
    title = text_width(_title(trace.header), TITLE) * BOLD
    headline = max(title, text_width(_facts(trace.header), 12))
    narrowest = max(WIDTH_MIN, MARGIN + headline - left)
    return _Layout(
        size=trace.header.size,
        stepwise=stepwise,
        begin=moments[0] - margin / 4,
        last=moments[-1],
        end=moments[-1] + margin,
        left=left,
        right=left + max(min(len(moments) * room, WIDTH_MAX), narrowest),
        lane=min(max(760 / trace.header.size, 24.0), 76.0),
    )


def _is_stepwise(records: list[AnyRecord]) -> bool:
    """Return whether each time is the number of one step, as explorers and scenarios count."""
    inputs = Called | Delivered | Rang | Noticed | Crashed
    steps = [record.time for record in records if isinstance(record, inputs)]
    return len(set(steps)) == len(steps) and all(time == int(time) for time in steps)


def _title(header: Header) -> str:
    return header.title or f"{header.algorithm}, {header.size} processes"


def _facts(header: Header) -> str:
    facts = {"variant": header.variant, **header.parameters}
    if header.seed is not None:
        facts["seed"] = str(header.seed)
    said = [f"{name} {value}" for name, value in facts.items() if value]
    if header.title:
        said = [header.algorithm, f"{header.size} processes", *said]
    return " · ".join(said)


def _draw_title(sheet: Sheet, header: Header, room: float) -> None:
    sheet.headline(MARGIN, 30, _title(header), room, size=TITLE)
    sheet.text(MARGIN, 48, _facts(header), fill=SOFT)


def _draw_axis(sheet: Sheet, layout: _Layout) -> None:
    room = 34 if layout.stepwise else 56
    count = int((layout.right - layout.left) / room)
    for tick in linear_ticks(layout.begin, layout.last, count):
        if layout.stepwise and tick != int(tick):
            continue
        x = layout.x(tick)
        sheet.line((x, TOP), (x, layout.bottom), stroke=GRID)
        sheet.text(
            x, layout.bottom + 16, tick_text(tick), fill=SOFT, font_size=10, text_anchor="middle"
        )
    name = "step" if layout.stepwise else "time"
    sheet.text(layout.left - 12, layout.bottom + 16, name, fill=SOFT, text_anchor="end")


def _draw_lanes(sheet: Sheet, layout: _Layout, past: Lifelines) -> None:
    for violation in past.violations:
        marks.band(sheet, layout.x(violation.time), layout.right, TOP, layout.bottom)
    for repeat in past.repeats:
        marks.loop(sheet, layout.x(repeat.time), layout.right, TOP)
    for process in range(1, layout.size + 1):
        y = layout.y(process)
        sheet.text(layout.left - 12, y + 4, f"process {process}", text_anchor="end")
        sheet.line((layout.left, y), (layout.right, y), stroke=marks.LANE, stroke_width=1.2)
    for stay in past.stays:
        marks.bar(
            sheet, stay.condition, layout.x(stay.begin), layout.x(stay.end), layout.y(stay.process)
        )


def _draw_flights(sheet: Sheet, layout: _Layout, past: Lifelines, colours: dict[str, str]) -> None:
    flights = list(past.flights.values())
    inside: dict[int, list[Stay]] = {}
    for stay in past.stays:
        if stay.condition is LaneCondition.INSIDE:
            inside.setdefault(stay.process, []).append(stay)
    arrows = [
        (flight, arrow, ending)
        for flight in flights
        for arrow, ending in _arrows(layout, flight, inside.get(flight.receiver, []))
    ]
    busy = len(arrows) > LABELS_MAX
    for flight, arrow, ending in arrows:
        words = f"{flight.label} from {flight.sender} to {flight.receiver}"
        marks.arrow(sheet, arrow, ending, colours[flight.kind], words=words, busy=busy)
    if busy:
        return
    lanes = [layout.y(process) for process in range(1, layout.size + 1)]
    labels = Labels([arrow for _, arrow, _ in arrows], lanes)
    for flight, arrow, _ in arrows:
        text = flight.label if len(flight.label) <= 20 else flight.kind
        place = labels.place(arrow, text)
        if place is not None:
            marks.label(sheet, place, text, colours[flight.kind])


def _arrows(
    layout: _Layout, flight: Flight, inside: list[Stay]
) -> list[tuple[Arrow, marks.Ending]]:
    """Return an arrow for each arrival, or one that ends where the message was lost or still is."""
    x, y = layout.x(flight.begin), layout.y(flight.sender)
    there = layout.y(flight.receiver)
    lanes = abs(flight.receiver - flight.sender)
    # Steps are even, so ways to several lanes may lie on top of each other unless they are bent.
    bow = min(5.0 * (lanes - 1), 16.0) if layout.stepwise else 0.0
    arrows = []
    for time in flight.arrivals:
        on_bar = any(stay.begin < time < stay.end for stay in inside)
        edge = math.copysign(marks.BARS[LaneCondition.INSIDE][0] / 2, there - y) if on_bar else 0.0
        end = layout.x(time)
        way = Arrow(x, y, end, there - edge, min(bow, (end - x) / 4))
        arrows.append((way, marks.Ending.ARRIVED))
    if flight.lost is not None:
        between_lanes = y + (there - y) * (lanes // 2 + 0.5) / lanes
        half_way = Arrow(x, y, max(layout.x(flight.lost), x + 16), between_lanes)
        return [*arrows, (half_way, marks.Ending.LOST)]
    if not arrows:
        on_its_way = Arrow(x, y, layout.right, y + (there - y) * 0.6)
        return [(on_its_way, marks.Ending.UNDERWAY)]
    return arrows


def _draw_marks(sheet: Sheet, layout: _Layout, past: Lifelines) -> None:
    for call in past.calls:
        words = f"{call.call} by {call.process}"
        marks.call(sheet, layout.x(call.time), layout.y(call.process), words)
    for ring in past.rings:
        marks.timer(sheet, layout.x(ring.time), layout.y(ring.process), ring.timer)
    for notice in past.notices:
        words = f"{notice.peer} down"
        marks.notice(sheet, layout.x(notice.time), layout.y(notice.process), words)
    for event in past.events:
        marks.event(sheet, layout.x(event.time), layout.y(event.process), event.label)
    for stay in past.stays:
        if stay.condition is LaneCondition.DOWN:
            marks.crash(sheet, layout.x(stay.begin), layout.y(stay.process))


def _draw_notes(sheet: Sheet, top: float, width: float, notes: list[str]) -> float:
    lines = [
        line for note in notes for line in textwrap.wrap(note, int(width / 12 / CHARACTER * 0.95))
    ]
    for index, line in enumerate(lines):
        sheet.text(MARGIN, top + 12 + 18 * index, line, fill=ALARM, font_weight="600")
    return 18.0 * len(lines) + 8.0 if lines else 0.0


def _legend(past: Lifelines, colours: dict[str, str]) -> list[LegendEntry]:
    """Name what is in the picture, and nothing else."""
    entries = [marks.message_entry(kind, colour) for kind, colour in colours.items()]
    conditions = {stay.condition for stay in past.stays}
    entries += [marks.stay_entry(each) for each in LaneCondition if each in conditions]
    flights = past.flights.values()
    if any(flight.lost is not None for flight in flights):
        entries.append(marks.ending_entry("lost", marks.Ending.LOST))
    if any(flight.lost is None and not flight.arrivals for flight in flights):
        entries.append(marks.ending_entry("still on its way", marks.Ending.UNDERWAY))
    if past.calls:
        entries.append(LegendEntry("call", lambda sheet, x, y: marks.call(sheet, x + 13, y, "")))
    if past.rings:
        entries.append(LegendEntry("timer", lambda sheet, x, y: marks.timer(sheet, x + 13, y, "")))
    return entries
