"""A campaign of simulations on the command line."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from coterie.cli.common.output import number, print_json, print_table, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.run_options import INTERRUPTED
from coterie.lab.simulate import Report, campaign, to_csv
from coterie.lab.simulate.interval import CONFIDENCE
from coterie.lab.simulate.metrics import KIND
from coterie.lab.simulate.trial_builder import ANY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from coterie.cli.lab.executor import Helpers
    from coterie.cli.lab.options import Choice
    from coterie.lab.simulate import Interval, TrialBuilder

FAILURES_SHOWN = 5
ROWS_SHOWN = 20  # of more seeds the table shows the means alone
ROWS_MAX = 100_000  # that are kept in memory for a table of means
OF_CAMPAIGNS = ("seed", "seeds", "jobs", "executor", "chart_file", "output", "trace_file")

# What the table shows of a run, and which column of a row that is.
ROW = {
    "seed": "seed",
    "entries": "entries",
    "time": "time",
    "messages": "messages",
    "per entry": "messages_per_entry",
    "client": "client_delay_mean",
    "hand-over": "synchronisation_delay_mean",
    "waiting": "waiting_mean",
    "waiting p99": "waiting_p99",
    "Jain": "fairness_jain",
    "overtaken": "fairness_overtaken_max",
    "busiest": "load_max",
    "unserved": "unserved",
    "stopped": "stopped",
}
MEANS = {
    "entries": "entries",
    "time": "time",
    "messages": "messages",
    "messages per entry": "messages_per_entry",
    "client delay, mean": "client_delay_mean",
    "hand-over, mean": "synchronisation_delay_mean",
    "waiting, mean": "waiting_mean",
    "waiting, p99": "waiting_p99",
    "waiting, longest": "waiting_max",
    "fairness (Jain)": "fairness_jain",
    "overtaken, most": "fairness_overtaken_max",
    "load, mean": "load_mean",
    "load, busiest": "load_max",
}


def run_campaign(
    choice: Choice,
    plan: TrialBuilder,
    seeds: Sequence[int],
    helpers: AbstractContextManager[Helpers],
    *,
    chart_file: Path | None,
    output: str,
) -> int:
    """Run all seeds, print the report, and return the exit status.

    An interrupt ends the work, and the report is on the runs that were done until then.
    """
    plan(seeds[0])  # raises what is wrong with the options before any work is done
    keep = output != "table" or len(seeds) <= ROWS_MAX
    report, whole = _run(plan, seeds, helpers, keep=keep)
    if chart_file:
        write_file(chart_file, outage_chart({plan.algorithm: report}))
    if output == "json":
        print_json(_facts(choice, report))
    elif output == "csv":
        click.echo(to_csv([{**choice.labels, **row} for row in report.to_dicts()]), nl=False)
    else:
        _print(choice, report)
    if not whole:
        done = f"{report.runs:,} of {len(seeds):,} runs"
        click.echo(f"interrupted: this is the report on {done}", err=True)
        return INTERRUPTED
    return 1 if report.failures else 0


def _run(
    plan: TrialBuilder,
    seeds: Sequence[int],
    helpers: AbstractContextManager[Helpers],
    *,
    keep: bool,
) -> tuple[Report, bool]:
    """Run the seeds, and return the report and whether it is on all of them."""
    line = ProgressLine()
    so_far = Report()

    def show(report: Report) -> None:
        nonlocal so_far
        so_far = report
        line.show(f"{report.runs:,} of {len(seeds):,} runs, {len(report.failures)} failed")

    try:
        with contextlib.closing(line), helpers as (executor, count):
            report = campaign(
                plan, seeds, executor=executor, workers=count, keep=keep, progress=show
            )
            return report, True
    except KeyboardInterrupt:
        so_far.sort()
        return so_far, False


def outage_chart(reports: dict[str, Report]) -> str:
    """Draw the share of crashes that kept users out for at most a given time."""
    from coterie.lab.charts import Panel, Series, chart  # noqa: PLC0415 - only when drawing

    series = [Series(name, _distribution(report.outages)) for name, report in reports.items()]
    return chart([Panel("share of crashes, by how long users were out", series, "time")])


def _distribution(outages: Sequence[float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution at about twenty places."""
    ranks = sorted({round(place * (len(outages) - 1) / 20) for place in range(21)})
    return [(outages[rank], (rank + 1) / len(outages)) for rank in ranks] if outages else []


def _facts(choice: Choice, report: Report) -> dict[str, Any]:
    return {
        **choice.labels,
        "processes": choice.setup.size,
        "runs": report.runs,
        "failures": report.failures,
        "entries": report.entries,
        "messages": report.messages,
        "late": report.late,
        "crashes": len(report.outages),
        "outage": report.outage,
        "confidence": CONFIDENCE,
        "totals": report.totals(),
        "rows": report.to_dicts(),
    }


def _print(choice: Choice, report: Report) -> None:
    outage = report.outage
    lines = {
        "algorithm": choice.title,
        "runs": f"{report.runs:,}, {len(report.failures):,} of them failed",
        "entries": f"{report.entries:,}",
        "messages": f"{report.messages:,}",
        "late": f"{report.late:,}",
        "crashes": f"{len(report.outages):,}",
        "outage": "-"
        if outage is None
        else f"{number(outage.mean)} on average, {number(outage.p50)} in half of the cases,"
        f" {number(outage.p99)} in 99 of 100, {number(outage.max)} at most",
    }
    for name, value in lines.items():
        click.echo(f"{name:13} {value}")
    if len(report.results) < report.runs:
        click.echo(f"{'means':13} not of more than {ROWS_MAX:,} seeds; -o csv has a line for each")
    _print_rows(report)
    _print_means(report.totals())
    for failure in report.failures[:FAILURES_SHOWN]:
        click.echo(f"{'failure':13} seed {failure.seed}: {failure.property}: {failure.text}")
    if report.failures:
        click.echo(f"{'see again':13} {_replay_command(report.failures[0].seed)}")


def _print_rows(report: Report) -> None:
    if not 0 < len(report.results) <= ROWS_SHOWN:
        return
    rows = [[_cell(row[name]) for name in ROW.values()] for row in report.to_dicts()]
    click.echo()
    print_table(list(ROW), rows)


def _print_means(totals: dict[str, Interval]) -> None:
    """Print the means over the seeds, with their intervals where there are several seeds."""
    kinds = {f"... {name.removeprefix(KIND)}": name for name in totals if name.startswith(KIND)}
    shown = {**MEANS, **kinds}
    place = list(MEANS).index("messages") + 1
    names = [*list(MEANS)[:place], *kinds, *list(MEANS)[place:]]
    rows = [
        [name, found.mean, _cell(found.half_width), found.min, found.max]
        for name in names
        if (found := totals.get(shown[name])) is not None
    ]
    if not rows:
        return
    over = f"over {totals['entries'].count:,} runs"
    click.echo()
    print_table([over, "mean", f"± ({CONFIDENCE:.0%})", "least", "most"], rows)
    click.echo()


def _cell(value: Any) -> Any:
    return "-" if value is None else value


def _replay_command(seed: int) -> str:
    """Return the command that shows a single seed of the campaign."""
    context = click.get_current_context()
    words = context.command_path.split()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in OF_CAMPAIGNS:
            words += _words(parameter, context.params[name])
    return shlex.join([*words, "--seed", str(seed), "--trace", f"seed-{seed}.svg"])


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        return [parameter.opts[0] if value else parameter.secondary_opts[0]]
    if value == ANY_NUMBER:
        return [parameter.opts[0]]
    values = value if parameter.multiple else [value]
    return [word for one in values for word in (parameter.opts[-1], str(one))]
