"""`coterie clocks`: physical clocks kept together by messages, beside Lamport's bound."""

from __future__ import annotations

import click

from coterie.cli.common.output import output_option, print_json
from coterie.errors import UsageError
from coterie.lab.simulate.clocks import SHAPES, ClockSpread, Conditions, run_clocks, shape_of

FIRST_ORDER = 1.01  # what the bound leaves out, over what it says


@click.command("clocks")
@click.option(
    "--graph", "shape", default="line", show_default=True, help=f"One of {', '.join(SHAPES)}."
)
@click.option("-N", "size", type=int, default=5, show_default=True, help="Number of clocks.")
@click.option(
    "--drift", type=float, default=1e-3, show_default=True, help="By how much rates differ from 1."
)
@click.option(
    "--period", type=float, default=10.0, show_default=True, help="Seconds between two messages."
)
@click.option(
    "--delay", default="0.02,0.03", show_default=True, help="LOW,HIGH: how long a message takes."
)
@click.option(
    "--duration", type=float, default=600.0, show_default=True, help="Seconds of virtual time."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all randomness.")
@output_option
def command(
    *,
    shape: str,
    size: int,
    drift: float,
    period: float,
    delay: str,
    duration: float,
    seed: int,
    output: str,
) -> int:
    """Run clocks that tell their neighbours the time, and show how far apart they come.

    The first clock runs fastest and all others slowest. Exits with 1 if two were further apart than
    Lamport's bound d(2κτ + ξ), by more than the hundredth that a bound of first order leaves out.
    """
    least, most = _delays(delay)
    conditions = Conditions(
        drift=drift, period=period, least_delay=least, most_delay=most, duration=duration
    )
    found = run_clocks(shape_of(shape, size), conditions, seed)
    if output == "json":
        print_json(found)
    else:
        _print(shape, found, conditions)
    return 0 if found.largest <= FIRST_ORDER * found.bound else 1


def _delays(text: str) -> tuple[float, float]:
    try:
        least, most = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--delay is LOW,HIGH in seconds, such as 0.02,0.03, got {text!r}"
        ) from None
    return least, most


def _in_order(spread: float, conditions: Conditions) -> float:
    """Return how long a call takes after which a clock that far behind shows a later time."""
    return spread / (1 - conditions.drift)


def _print(shape: str, found: ClockSpread, conditions: Conditions) -> None:
    uncertainty = conditions.most_delay - conditions.least_delay
    lines = {
        "clocks": f"{found.processes}, {shape}, diameter {found.diameter}",
        "left alone": f"{found.left_alone:.4g} s apart after {conditions.duration:g} s",
        "together": f"{found.largest:.4f} s apart at most, {found.mean:.4f} s on average,"
        f" from {found.since:g} s on",
        "bound": f"{found.bound:.4f} s = {found.diameter} (2 · {conditions.drift:g} ·"
        f" {conditions.period:g} + {uncertainty:.4g})",
        "telephone": f"a call of {_in_order(found.largest, conditions):.4f} s or more begins and ends in"
        f" order here, one of {_in_order(found.bound, conditions):.4f} s or more wherever the bound holds",
    }
    for name, value in lines.items():
        click.echo(f"{name:11} {value}")
