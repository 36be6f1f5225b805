"""`coterie simulate`: one seeded run, summed up or traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from coterie.catalogue import unknown
from coterie.cli.options import Choice, choose, parameter_options, trace_option, write_trace
from coterie.cli.output import number, output_option, print_json
from coterie.errors import UsageError
from coterie.simulate import (
    Burst,
    Closed,
    HotSpot,
    Network,
    OneAtATime,
    Poisson,
    Simulation,
    parse_fault,
    parse_latency,
    random_faults,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from coterie.simulate import Fault, Result, Summary, Workload


@click.command("simulate")
@click.argument("algorithm")
@click.option("-N", "size", type=int, default=5, show_default=True, help="Number of processes.")
@parameter_options
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything random.")
@click.option(
    "--workload",
    default="closed",
    show_default=True,
    metavar="KIND",
    help="closed (everyone always wants in), one-at-a-time, burst, poisson or hot-spot.",
)
@click.option("--entries", type=int, default=10, show_default=True, help="Entries per process.")
@click.option("--rate", type=float, default=0.1, show_default=True, help="Requests per time unit.")
@click.option("--hold", default="0", show_default=True, help="Time spent inside, as for --latency.")
@click.option(
    "--latency",
    default="1",
    show_default=True,
    help="1, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA or matrix:1,9;9,1.",
)
@click.option("--fifo/--unordered", default=None, help="Links; default: what it declares to need.")
@click.option("--loss", type=float, default=0.0, help="Probability that a message is lost.")
@click.option("--duplication", type=float, default=0.0, help="... that it arrives twice.")
@click.option("--fault", "faults", multiple=True, metavar="SCRIPT", help="Such as 'crash 3 @ 10'.")
@click.option("--random-faults", "crashes", type=int, metavar="K", help="K crashes, pauses, cuts.")
@click.option("--max-time", type=float, default=1e6, show_default=True, help="Virtual time limit.")
@trace_option
@output_option
def command(
    *,
    algorithm: str,
    size: int,
    variant: str | None,
    seed: int,
    trace_file: Path | None,
    output: str,
    **options: Any,
) -> int:
    """Run ALGORITHM once in virtual time.

    Exits with 1 if a property was violated or a live process was not served.
    """
    plan = {name: options.pop(name) for name in PLAN_OPTIONS}
    choice = choose(algorithm, size, variant, options, seed)
    result = Simulation(
        choice.build(),
        workload=_workload(choice, plan),
        network=Network(
            latency=parse_latency(plan["latency"]),
            fifo=plan["fifo"],
            loss=plan["loss"],
            duplication=plan["duplication"],
        ),
        faults=_faults(plan, size, seed),
        seed=seed,
        header=choice.header if trace_file else None,
        max_time=plan["max_time"],
    ).run()
    if trace_file and result.trace:
        write_trace(result.trace, trace_file)
    if output == "json":
        print_json(_facts(choice, result))
    else:
        _print(choice, result)
    return 1 if result.violations or result.unserved else 0


PLAN_OPTIONS = (
    "workload",
    "entries",
    "rate",
    "hold",
    "latency",
    "fifo",
    "loss",
    "duplication",
    "faults",
    "crashes",
    "max_time",
)


def _workload(choice: Choice, plan: dict[str, Any]) -> Workload:
    requesters = list(choice.algorithm.requesters(choice.setup))
    entries, rate, hold = plan["entries"], plan["rate"], parse_latency(plan["hold"])
    total = entries * len(requesters)
    kinds: dict[str, Callable[[], Workload]] = {
        "closed": lambda: Closed(entries, requesters, hold=hold),
        "one-at-a-time": lambda: OneAtATime(total, requesters, hold=hold),
        "burst": lambda: Burst(entries, requesters, hold=hold),
        "poisson": lambda: Poisson(rate, total / rate, requesters, hold=hold),
        "hot-spot": lambda: HotSpot(rate, total / rate, requesters, hold=hold),
    }
    if plan["workload"] not in kinds:
        raise UsageError(unknown("workload", plan["workload"], kinds))
    if rate <= 0:
        raise UsageError(f"--rate must be positive, not {rate}")
    return kinds[plan["workload"]]()


def _faults(plan: dict[str, Any], size: int, seed: int) -> Sequence[Fault]:
    faults = [parse_fault(text) for text in plan["faults"]]
    if plan["crashes"]:
        count = plan["crashes"]
        faults += random_faults(
            seed, size, duration=100.0, crashes=count, pauses=count, partitions=count
        )
    return faults


def _facts(choice: Choice, result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(result)
    del facts["trace"]
    return {"algorithm": choice.algorithm.name, "variant": choice.setup.variant, **facts}


def _print(choice: Choice, result: Result) -> None:
    per_entry = result.messages_per_entry
    lines = {
        "algorithm": f"{choice.algorithm.name} ({choice.setup.variant}), N = {result.processes}",
        "entries": f"{result.entries:,} in {number(result.time)} time units",
        "messages": f"{result.messages:,} ({_kinds(result)})",
        "per entry": "-" if per_entry is None else number(per_entry),
        "client delay": _delay(result.client_delay),
        "hand-over": _delay(result.synchronisation_delay),
        "waiting": _delay(result.waiting),
        "busiest": f"process {result.load.busiest}: {result.load.max:,} messages,"
        f" {number(result.load.mean)} on average",
        "unserved": str(result.unserved),
        "stopped": result.stopped,
    }
    for name, value in lines.items():
        click.echo(f"{name:13} {value}")
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
