"""Lamport's clocks on a space-time diagram: each event with its time, as `LamportClock` counts."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.clocks import LamportClock, Stamp
from coterie.diagram.layers import Point
from coterie.diagram.svg import INK, PAPER, SOFT, Sheet
from docs.drawings.figure import BLUE, MARGIN, ORANGE, arrow, heading

LEFT, TOP = 116.0, 128.0
STEP, LANE = 62.0, 84.0
DOT = 6.0
# What happens, in the order of a clock on the wall that no process can see: an event of a process by
# itself, the sending of a message ("a>"), or its receipt (">a").
EVENTS = (
    (1, ""),
    (3, ""),
    (1, "a>"),
    (2, ""),
    (2, ">a"),
    (3, ""),
    (2, "b>"),
    (1, ""),
    (3, ">b"),
    (3, "c>"),
    (1, ">c"),
)
CONCURRENT = (5, 7)  # by their places above


@dataclass(frozen=True)
class Happening:
    """An event where it stands, with its stamp and what it came after."""

    place: Point
    stamp: Stamp
    before: int  # the clock of its process
    message: str
    heard: int  # the time that a message brought
    past: frozenset[Stamp]


def draw() -> str:
    events = _happenings()
    one, other = (events[place] for place in CONCURRENT)
    assert one.stamp not in other.past
    assert other.stamp not in one.past
    assert all(earlier < event.stamp for event in events for earlier in event.past)
    sheet = Sheet()
    heading(
        sheet,
        MARGIN,
        34,
        "Logical clocks",
        "An event is one later than the last one of its process; the receipt of a message is also later",
        "than its sending. So the numbers grow along every path of lanes and arrows.",
    )
    right = LEFT + len(EVENTS) * STEP
    for process in (1, 2, 3):
        y = TOP + (process - 1) * LANE
        sheet.text(MARGIN, y + 4, f"process {process}", fill=INK)
        sheet.line((LEFT - 24, y), (right - 20, y), stroke=SOFT, stroke_width=1.2)
    _messages(sheet, events)
    for place, event in enumerate(events):
        _event(sheet, event, marked=place in CONCURRENT)
    bottom = TOP + 2 * LANE + 64
    order = " < ".join(str(stamp) for stamp in sorted(event.stamp for event in events))
    sheet.text(MARGIN, bottom, f"All events by their stamps:  {order}", fill=INK)
    first, last = sorted([one.stamp, other.stamp])
    said = f"{first} comes first there, and has not influenced {last}: no path leads from one to the other."
    sheet.add("circle", cx=MARGIN + DOT, cy=bottom + 17, r=DOT, fill=ORANGE)
    sheet.text(MARGIN + 20, bottom + 21, said, fill=SOFT)
    return sheet.finish(right + MARGIN - 20, bottom + 42, "Logical clocks on a space-time diagram")


def _happenings() -> list[Happening]:
    """Let the clocks of the library count."""
    clocks = {process: LamportClock() for process in (1, 2, 3)}
    pasts: dict[int, frozenset[Stamp]] = dict.fromkeys(clocks, frozenset())
    sent: dict[str, Happening] = {}
    found = []
    for column, (process, message) in enumerate(EVENTS):
        clock, before = clocks[process], clocks[process].time
        source = sent.get(message.removeprefix(">"))
        time = clock.merge(source.stamp.time) if source else clock.tick()
        past = pasts[process] | (source.past | {source.stamp} if source else frozenset())
        place = Point(LEFT + column * STEP, TOP + (process - 1) * LANE)
        heard = source.stamp.time if source else 0
        event = Happening(place, Stamp(time, process), before, message, heard, past)
        pasts[process] = past | {event.stamp}
        if message.endswith(">"):
            sent[message.removesuffix(">")] = event
        found.append(event)
    return found


def _messages(sheet: Sheet, events: list[Happening]) -> None:
    for event in events:
        for source in events:
            if event.message.startswith(">") and source.message == f"{event.message[1:]}>":
                end = event.place.towards(source.place, DOT + 2)
                arrow(sheet, source.place, end, BLUE, width=1.8)


def _event(sheet: Sheet, event: Happening, *, marked: bool) -> None:
    x, y = event.place
    colour = ORANGE if marked else INK
    sheet.add("circle", cx=x, cy=y, r=DOT, fill=colour, stroke=PAPER, stroke_width=2)
    up = event.stamp.process == 1
    sheet.text(
        x,
        y - 13 if up else y + 24,
        str(event.stamp.time),
        text_anchor="middle",
        font_size=15,
        font_weight="600",
        fill=INK,
    )
    if event.heard:
        rule = f"max({event.before}, {event.heard}) + 1"
        sheet.text(x, y - 31 if up else y + 40, rule, text_anchor="middle", font_size=11, fill=SOFT)
