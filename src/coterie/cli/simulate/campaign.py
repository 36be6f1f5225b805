"""A campaign of simulations on the command line."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from coterie.cli.common.output import number, print_json, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.simulate.plan import ANY_NUMBER
from coterie.simulate import campaign

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from coterie.cli.simulate.executor import Helpers
    from coterie.cli.simulate.plan import PlannedTrials
    from coterie.simulate import Report

FAILURES_SHOWN = 5
OF_CAMPAIGNS = ("seed", "seeds", "jobs", "executor", "chart_file", "output", "trace_file")


def run_campaign(
    draw: PlannedTrials,
    seeds: Sequence[int],
    helpers: AbstractContextManager[Helpers],
    chart_file: Path | None,
    output: str,
) -> int:
    """Run all seeds, print the report, and return the exit status."""
    draw(seeds[0])  # raises what is wrong with the options before any work is done
    line = ProgressLine()
    with contextlib.ExitStack() as stack:
        stack.callback(line.close)
        executor, count = stack.enter_context(helpers)
        report = campaign(
            draw,
            seeds,
            executor=executor,
            workers=count,
            progress=lambda so_far: line.show(
                f"{so_far.runs:,} of {len(seeds):,} runs, {len(so_far.failures)} failed"
            ),
        )
    if chart_file:
        write_file(chart_file, outage_chart({draw.algorithm: report}))
    if output == "json":
        print_json(_facts(draw, report))
    else:
        _print(draw, report)
    return 1 if report.failures else 0


def outage_chart(reports: dict[str, Report]) -> str:
    """Draw the share of crashes that kept users out for at most a given time."""
    from coterie.diagram import Panel, Series, chart  # noqa: PLC0415 - only when drawing

    series = [Series(name, _distribution(report.outages)) for name, report in reports.items()]
    return chart([Panel("share of crashes, by how long users were out", series, "time")])


def _distribution(outages: Sequence[float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution at about twenty places."""
    ranks = sorted({round(place * (len(outages) - 1) / 20) for place in range(21)})
    return [(outages[rank], (rank + 1) / len(outages)) for rank in ranks] if outages else []


def _facts(draw: PlannedTrials, report: Report) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(report)
    crashes = len(facts.pop("outages"))
    outage = msgspec.to_builtins(report.outage)
    return {"algorithm": draw.algorithm, **facts, "crashes": crashes, "outage": outage}


def _print(draw: PlannedTrials, report: Report) -> None:
    outage = report.outage
    lines = {
        "algorithm": f"{draw.algorithm}, N = {draw.size}",
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
    for failure in report.failures[:FAILURES_SHOWN]:
        click.echo(f"{'failure':13} seed {failure.seed}: {failure.property}: {failure.text}")
    if report.failures:
        click.echo(f"{'see again':13} {_replay_command(report.failures[0].seed)}")


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
