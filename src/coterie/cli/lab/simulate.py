"""`coterie simulate`: one seeded run with its summary or trace, or a campaign of many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from coterie.catalogue import source_of
from coterie.cli.common.output import number, print_json, rows_option
from coterie.cli.lab.campaign import run_campaign
from coterie.cli.lab.executor import helpers
from coterie.cli.lab.options import (
    AlgorithmCommand,
    Choice,
    choose,
    complete_algorithm,
    open_option,
    trace_option,
    variant_option,
    write_trace,
)
from coterie.cli.lab.run_options import LATENCY_HELP, MULTICAST_HELP, WORKLOAD_HELP
from coterie.errors import UsageError
from coterie.lab.simulate import TrialBuilder, parse_fault, read_latency, run_trial, to_csv
from coterie.lab.simulate.trial_builder import ANY_NUMBER

if TYPE_CHECKING:
    from coterie.lab.simulate import Result, Summary

PLAN_OPTIONS = (
    "workload",
    "entries",
    "rate",
    "hold",
    "latency",
    "fifo",
    "loss",
    "duplication",
    "multicast",
    "faults",
    "random_faults",
    "max_time",
)


@click.command("simulate", cls=AlgorithmCommand)
@click.argument("algorithm", shell_complete=complete_algorithm)
@click.option("-N", "size", type=int, default=5, show_default=True, help="Number of processes.")
@variant_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all randomness.")
@click.option(
    "--workload",
    default="closed",
    show_default=True,
    metavar="KIND",
    help=WORKLOAD_HELP,
)
@click.option("--entries", type=int, default=10, show_default=True, help="Entries per process.")
@click.option("--rate", type=float, default=0.1, show_default=True, help="Requests per time unit.")
@click.option(
    "--hold",
    help="Time inside per entry, written like --latency; default: 0, or 1 for an algorithm of your"
    " own and for a variant that is known to fail, so that two inside at once are noticed.",
)
@click.option(
    "--latency",
    default="1",
    show_default=True,
    help=LATENCY_HELP,
)
@click.option(
    "--fifo/--unordered",
    default=None,
    help="Order of messages on a link; default: what the algorithm needs.",
)
@click.option("--loss", type=float, default=0.0, help="Probability that a message is lost.")
@click.option(
    "--duplication", type=float, default=0.0, help="Probability that a message arrives twice."
)
@click.option("--multicast", is_flag=True, help=MULTICAST_HELP)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="SCRIPT",
    help="A fault such as 'crash 3 @ 10'; repeatable.",
)
@click.option(
    "--random-faults",
    "random_faults",
    type=int,
    is_flag=False,
    flag_value=ANY_NUMBER,
    metavar="[K]",
    help="K random crashes (and pauses and partitions, for an algorithm that tolerates no crash)."
    " Without K, the seed chooses.",
)
@click.option("--max-time", type=float, default=1e6, show_default=True, help="Virtual time limit.")
@click.option("--seeds", type=click.IntRange(min=1), help="Run this many seeds.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, help="Processes that run the campaign."
)
@click.option(
    "--executor",
    metavar="URL",
    help="A cluster that runs the campaign instead: dask://host:8786, its scheduler.",
)
@click.option(
    "--chart",
    "chart_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SVG file for how long the crashes of the campaign kept users out.",
)
@trace_option
@open_option
@rows_option
def command(
    *,
    algorithm: str,
    size: int,
    variant: str | None,
    seed: int,
    seeds: int | None,
    jobs: int,
    executor: str | None,
    chart_file: Path | None,
    trace_file: Path | None,
    opened: bool,
    output: str,
    **options: Any,
) -> int:
    """Run ALGORITHM in virtual time: once, or with --seeds many times.

    Exits with 1 if a property was violated or a live process was never served.
    """
    given = {name: options.pop(name) for name in PLAN_OPTIONS}
    choice = choose(algorithm, size, variant, options, seed)
    plan = _plan(algorithm, choice, given)
    if seeds is not None:
        if opened:
            raise UsageError("--open shows one run: leave out --seeds")
        where = helpers(jobs, executor)
        return run_campaign(
            choice, plan, range(seed, seed + seeds), where, chart_file=chart_file, output=output
        )
    if executor is not None:
        raise UsageError("--executor runs campaigns: add --seeds")
    result = run_trial(plan(seed), seed, choice.header if trace_file or opened else None)
    if trace_file and result.trace:
        write_trace(result.trace, trace_file)
    if output == "json":
        print_json(_facts(choice, result))
    elif output == "csv":
        click.echo(to_csv([{**choice.labels, **result.to_dict()}]), nl=False)
    else:
        _print(choice, result)
    if opened and result.trace:
        from coterie.cli.lab.play import show_trace  # noqa: PLC0415 - an extra

        show_trace(result.trace)
    return 1 if result.violations or result.unserved else 0


def _plan(algorithm: str, choice: Choice, given: dict[str, Any]) -> TrialBuilder:
    return TrialBuilder(
        algorithm=algorithm,
        size=choice.setup.size,
        variant=choice.setup.variant,
        parameters=choice.header.parameters,
        source=source_of(algorithm),
        **{
            **given,
            "hold": None if given["hold"] is None else read_latency(given["hold"]),
            "latency": read_latency(given["latency"]),
            "faults": [parse_fault(text) for text in given["faults"]],
        },
    )


def _facts(choice: Choice, result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(result, trace=None))
    del facts["trace"]
    about = facts.pop("facts")
    return {"algorithm": choice.algorithm.name, "variant": choice.setup.variant, **facts, **about}


def _print(choice: Choice, result: Result) -> None:
    per_entry = result.messages_per_entry
    lines = {
        "algorithm": choice.title,
        "entries": f"{result.entries:,} in {number(result.time)} time units",
        "messages": f"{result.messages:,} ({_kinds(result)})",
        "per entry": "-" if per_entry is None else number(per_entry),
        "client delay": _delay(result.client_delay),
        "hand-over": _delay(result.synchronisation_delay),
        "waiting": _delay(result.waiting),
        "busiest": f"process {result.load.busiest}: {result.load.max:,} messages,"
        f" {number(result.load.mean)} on average",
        "unserved": str(result.unserved),
        **(
            {"late": f"{result.late:,} messages, which breaks an assumption"} if result.late else {}
        ),
        "stopped": result.stopped,
    }
    for name, value in lines.items():
        click.echo(f"{name:13} {value}")
    for name, value in result.facts.items():
        click.echo(f"{name:13} {msgspec.json.encode(value).decode()}")
    for violation in result.violations:
        click.echo(
            f"{'violation':13} {violation.name} at {number(violation.time)}: {violation.text}"
        )


def _kinds(result: Result) -> str:
    return (
        ", ".join(f"{kind} {count:,}" for kind, count in result.messages_by_kind.items()) or "none"
    )


def _delay(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    low, mean, high = (number(value) for value in (summary.min, summary.mean, summary.max))
    return f"{mean} on average ({low} to {high})"
