"""`coterie compare-schemes`: what each scheme of concurrency control commits, and at what cost."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from coterie.cli.common.output import output_option, print_json, print_table, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.options import plot_option
from coterie.errors import UsageError
from coterie.lab.trials.comparison import Conditions, Measurement, measure
from coterie.lab.trials.workloads import MIXES
from coterie.locks.duration import duration
from coterie.transactions.catalogue import scheme, schemes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Value = TypeVar("Value")


@click.command("compare-schemes")
@click.argument("names", metavar="[SCHEME[:VARIANT]]...", nargs=-1)
@click.option(
    "--workload",
    default="bank,smallbank,ycsb-b",
    show_default=True,
    help=f"Workloads, of {', '.join(MIXES)}.",
)
@click.option(
    "--theta",
    default="0,0.8,0.99",
    show_default=True,
    help="Skews of the choice of keys, 0: uniform.",
)
@click.option("--sites", default="1", show_default=True, help="Numbers of sites.")
@click.option(
    "--clients", default="32", show_default=True, help="Numbers of clients of all sites together."
)
@click.option(
    "--keys", type=click.IntRange(2), default=1000, show_default=True, help="Number of keys."
)
@click.option(
    "--think", default="1ms", show_default=True, help="A client's pause between requests."
)
@click.option(
    "--work", default="0ms", show_default=True, help="Time a site is busy with a request."
)
@click.option(
    "--latency", default="0.5ms", show_default=True, help="Delay of a message between sites."
)
@click.option(
    "--duration", "length", default="500ms", show_default=True, help="Virtual time of a run."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all randomness.")
@click.option(
    "--check",
    "checked",
    is_flag=True,
    help="Also check that the history of each run is serializable, and exit with 1 if not.",
)
@plot_option("schemes.svg")
@output_option
def command(
    *,
    names: tuple[str, ...],
    workload: str,
    theta: str,
    sites: str,
    clients: str,
    keys: int,
    think: str,
    work: str,
    latency: str,
    length: str,
    seed: int,
    checked: bool,
    plot: Path | None,
    output: str,
) -> int:
    """Run the same transactions under each scheme, in virtual time.

    All schemes are measured unless some are named, each in its default variant unless one is named,
    as in two-phase-locking:wait-die. --workload, --theta, --sites and
    --clients take several values, such as 1,2,4.
    """
    common = Conditions(
        keys=keys,
        think=_milliseconds(think),
        work=_milliseconds(work),
        latency=_milliseconds(latency),
        duration=_milliseconds(length),
        seed=seed,
    )
    settings = itertools.product(
        _several("--workload", workload, str),
        _several("--sites", sites, int),
        _several("--clients", clients, int),
        _several("--theta", theta, float),
    )
    chosen = [_choose(name) for name in names or schemes()]
    measurements = list(_measure(chosen, common, list(settings), checked=checked))
    if output == "json":
        print_json(measurements)
    else:
        _print(measurements)
    if plot:
        from coterie.lab.charts.schemes import schemes_chart  # noqa: PLC0415 - only to draw

        write_file(plot, schemes_chart(measurements))
        click.echo(f"wrote {plot}", err=True)
    return 1 if any(each.serializable is False for each in measurements) else 0


def _measure(
    chosen: Sequence[tuple[str, str]],
    common: Conditions,
    settings: Sequence[tuple[str, int, int, float]],
    *,
    checked: bool,
) -> Iterator[Measurement]:
    line = ProgressLine()
    for workload, sites, clients, theta in settings:
        for name, variant in chosen:
            line.show(f"{workload}, {sites} sites, theta {theta:g}: {name}")
            setting = {"workload": workload, "sites": sites, "clients": clients, "theta": theta}
            conditions = msgspec.structs.replace(common, **setting)
            yield measure(name, variant, conditions, check=checked)
    line.close()


def _choose(text: str) -> tuple[str, str]:
    name, _, variant = text.partition(":")
    return name, scheme(name).variant(variant or None, flawed=True).name


def _several(option: str, text: str, kind: Callable[[str], Value]) -> list[Value]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} must be values such as 1,2,4, got {text!r}") from None


def _milliseconds(text: str) -> float:
    return 1000 * duration(text)


def _print(measurements: Sequence[Measurement]) -> None:
    header = ["workload", "theta", "sites", "clients", "scheme", "commits/s", "aborts", "waiting"]
    header += ["messages", "p50 ms", "p99 ms"]
    if any(m.serializable is not None for m in measurements):
        header.append("serializable")
    rows = [
        [
            m.conditions.workload,
            f"{m.conditions.theta:g}",
            m.conditions.sites,
            m.conditions.clients,
            m.name,
            round(m.commits_per_second),
            f"{m.abort_rate:.1%}",
            f"{m.waiting:.0%}",
            m.messages_per_commit,
            m.milliseconds_p50 if m.milliseconds_p50 is not None else "-",
            m.milliseconds_p99 if m.milliseconds_p99 is not None else "-",
            *([] if m.serializable is None else [m.serializable]),
        ]
        for m in measurements
    ]
    print_table(header, rows)
    click.echo(
        "\naborts: share of attempts that were refused; waiting: share of the time of committed"
        "\ntransactions in which a request had no answer; messages: between sites, per commit;"
        "\np50, p99: time from the first attempt to the commit."
    )
