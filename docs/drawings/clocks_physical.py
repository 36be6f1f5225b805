"""Five quartz clocks in a line, left alone and kept together by Lamport's rule, as the guide runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from coterie.clocks.synchronisation import synchronisation_bound, synchronised_clocks
from coterie.diagram.legend import SAMPLE, LegendEntry, draw_legend
from coterie.diagram.svg import FAINT, GRID, INK, PALETTE, SOFT, Sheet
from coterie.lab.simulate import Drift, Network, Simulation, Uniform, Workload, World
from docs.drawings.figure import MARGIN, heading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.clocks.synchronisation import PhysicalClock

LINE = {1: [2], 2: [1, 3], 3: [2, 4], 4: [3, 5], 5: [4]}
RATES = {1: 1.001, 2: 1.0, 3: 1.0, 4: 1.0, 5: 0.999}
DRIFT, PERIOD, LEAST, MOST = 0.001, 10.0, 0.02, 0.03
UNTIL, INTERVAL = 160.0, 0.25  # seconds
BOUND = synchronisation_bound(
    diameter=len(LINE) - 1, drift=DRIFT, period=PERIOD, uncertainty=MOST - LEAST
)
WIDTH, HEIGHT, TOP = 322.0, 230.0, 92.0
LEFT = MARGIN + 40
GAP = 74.0  # between the plots
COLOURS = (PALETTE[1], PALETTE[4], PALETTE[2], PALETTE[5], PALETTE[7])


@dataclass(frozen=True)
class Watch(Workload):
    """Reads all clocks again and again."""

    clocks: Sequence[PhysicalClock] = ()
    ahead: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  # of the true time

    def start(self, world: World) -> None:
        self._look(world, 0.0)

    def _look(self, world: World, now: float) -> None:
        for clock in self.clocks:
            shown = clock.read(RATES[clock.me] * now)
            self.ahead.setdefault(clock.me, []).append((now, shown - now))
        if now + INTERVAL < UNTIL:
            world.after(INTERVAL, partial(self._look, world, now + INTERVAL))


@dataclass(frozen=True)
class Plot:
    """Axes on the sheet: seconds to the right, milliseconds upwards."""

    left: float
    low: float
    high: float

    def at(self, time: float, seconds: float) -> tuple[float, float]:
        share = (1000 * seconds - self.low) / (self.high - self.low)
        return self.left + time / UNTIL * WIDTH, TOP + HEIGHT * (1 - share)

    def axes(self, sheet: Sheet, ticks: Sequence[int], name: str) -> None:
        for tick in ticks:
            x, y = self.at(0.0, tick / 1000)
            sheet.line((x, y), (x + WIDTH, y), stroke=GRID if tick else FAINT)
            sheet.text(
                x - 8,
                y + 4,
                f"{tick:+d}" if tick and self.low < 0 else str(tick),
                fill=SOFT,
                font_size=10.5,
                text_anchor="end",
            )
        for second in range(0, int(UNTIL) + 1, 40):
            x, _ = self.at(second, 0.0)
            sheet.text(
                x, TOP + HEIGHT + 18, f"{second} s", fill=SOFT, font_size=10.5, text_anchor="middle"
            )
        sheet.text(self.left - 40, TOP - 12, name, fill=SOFT, font_size=10.5)


def draw() -> str:
    ahead = _watched()
    spread = [
        (readings[0][0], max(r[1] for r in readings) - min(r[1] for r in readings))
        for readings in zip(*ahead.values(), strict=True)
    ]
    assert max(difference for _, difference in spread) < BOUND
    sheet = Sheet()
    heading(
        sheet,
        MARGIN,
        34,
        "What five clocks show",
        f"every {PERIOD:g} s each tells its neighbours",
    )
    _clocks(sheet, Plot(LEFT, -170, 170), ahead)
    second = Plot(LEFT + WIDTH + GAP, 0, 340)
    heading(
        sheet,
        second.left - 40,
        34,
        "How far they are apart",
        f"at most ε = d(2κτ + ξ) = {1000 * BOUND:g} ms, here from the start",
    )
    _spread(sheet, second, spread)
    width = second.left + WIDTH + MARGIN + 14
    bottom = TOP + HEIGHT + 34
    bottom += draw_legend(sheet, MARGIN, bottom, width - 2 * MARGIN, _legend())
    return sheet.finish(width, bottom + 14, "Physical clocks, left alone and kept together")


def _watched() -> dict[int, list[tuple[float, float]]]:
    clocks = synchronised_clocks(LINE, period=PERIOD, least_delay=LEAST)
    watch = Watch(clocks=clocks)
    Simulation(
        clocks,
        workload=watch,
        network=Network(latency=Uniform(LEAST, MOST)),
        faults=[Drift(process, rate) for process, rate in RATES.items()],
        until=UNTIL,
    ).run()
    return watch.ahead


def _clocks(sheet: Sheet, plot: Plot, ahead: dict[int, list[tuple[float, float]]]) -> None:
    plot.axes(sheet, range(-150, 151, 50), "ms ahead of the true time")
    fastest = max(RATES.values()) - 1
    band = [(0.0, 0.0), (UNTIL, fastest * UNTIL), (UNTIL, fastest * UNTIL - BOUND), (0.0, -BOUND)]
    sheet.polygon([plot.at(*point) for point in band], fill=PALETTE[0], opacity="0.15")
    for rate in sorted(set(RATES.values())):
        ends = plot.at(0.0, 0.0), plot.at(UNTIL, (rate - 1) * UNTIL)
        sheet.line(*ends, stroke=SOFT, stroke_dasharray="2 4", stroke_width=1.4)
    for colour, readings in zip(COLOURS, ahead.values(), strict=True):
        points = [plot.at(*reading) for reading in _corners(readings)]
        sheet.polyline(points, stroke=colour, stroke_width=1.6)


def _spread(sheet: Sheet, plot: Plot, spread: list[tuple[float, float]]) -> None:
    plot.axes(sheet, range(0, 301, 100), "ms from the slowest to the fastest")
    left, top = plot.at(0.0, BOUND)
    _, bottom = plot.at(0.0, 0.0)
    sheet.add(
        "rect", x=left, y=top, width=WIDTH, height=bottom - top, fill=PALETTE[0], opacity="0.15"
    )
    apart = (max(RATES.values()) - min(RATES.values())) * UNTIL
    alone = plot.at(0.0, 0.0), plot.at(UNTIL, apart)
    sheet.line(*alone, stroke=SOFT, stroke_dasharray="2 4", stroke_width=1.4)
    sheet.polyline([plot.at(*point) for point in _corners(spread)], stroke=INK, stroke_width=1.6)


def _corners(readings: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out what lies on the straight line between its neighbours."""
    kept = readings[:1]
    for before, here, after in zip(readings, readings[1:], readings[2:], strict=False):
        if abs((after[1] - here[1]) - (here[1] - before[1])) > 1e-6:
            kept.append(here)
    return [*kept, readings[-1]]


def _legend() -> list[LegendEntry]:
    def line(colour: str, dashes: str = "none") -> partial[None]:
        return partial(_sample, colour, dashes)

    names = [
        LegendEntry(f"clock {clock}", line(colour))
        for clock, colour in zip(RATES, COLOURS, strict=True)
    ]
    return [
        *names,
        LegendEntry("left alone", line(SOFT, "2 4")),
        LegendEntry("no further apart than ε", _band),
    ]


def _sample(colour: str, dashes: str, sheet: Sheet, x: float, y: float) -> None:
    sheet.line((x, y), (x + SAMPLE, y), stroke=colour, stroke_width=2, stroke_dasharray=dashes)


def _band(sheet: Sheet, x: float, y: float) -> None:
    sheet.add("rect", x=x, y=y - 6, width=SAMPLE, height=12, fill=PALETTE[0], opacity="0.15")
