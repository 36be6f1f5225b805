"""`coterie check`: explore every interleaving; print the shortest counterexample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from coterie.catalogue import algorithms
from coterie.cli.common import one_thread  # noqa: F401 - before numpy, which the explorer imports
from coterie.cli.common.imports import lasting_imports
from coterie.cli.common.output import output_option, print_json, sentence
from coterie.cli.common.progress import ProgressLine
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
from coterie.errors import UsageError
from coterie.lab.explore import Progress, Sometimes, Verdict, check, needs_clock, refuse_with_clock
from coterie.lab.explore.check import check_small, load_search
from coterie.process import Channel, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coterie.process import Process
    from coterie.trace import Trace


SIZE = 3  # processes, unless it is chosen
WORLD_OPTIONS = (
    "entries",
    "channel",
    "crashes",
    "losses",
    "duplicates",
    "suspicions",
    "restarts",
    "exact",
    "canonical",
)
SEARCH_OPTIONS = (*WORLD_OPTIONS, "max_states", "max_time", "device")
FAULTS = ("crashes", "losses", "duplicates", "suspicions", "restarts")
PLAIN_BOUNDS = {  # of a search without faults, in which nothing was chosen
    **dict.fromkeys(FAULTS, 0),
    "exact": False,
    "canonical": False,
    "max_states": None,
    "max_seconds": None,
    "device": "cpu",
}


@click.command("check", cls=AlgorithmCommand)
@click.argument("algorithm", required=False, shell_complete=complete_algorithm)
@click.option(
    "--all", "everything", is_flag=True, help="Check every algorithm that needs no clock."
)
@click.option(
    "-N",
    "size",
    type=int,
    help=f"Number of processes.  [default: {SIZE}; with nothing chosen for a flawed variant, where it"
    " is known to fail]",
)
@variant_option
@click.option(
    "--entries",
    metavar="K",
    help="Entries per process: a number, or 'any' (with --canonical if there are logical clocks)."
    "  [default: 1]",
)
@click.option(
    "--channel",
    type=click.Choice([c.value for c in Channel]),
    help="Order of messages on a link; default: what the algorithm needs.",
)
@click.option("--crashes", type=click.IntRange(min=0), help="At most this many crashes.")
@click.option(
    "--losses", type=click.IntRange(min=0), default=0, help="At most this many lost messages."
)
@click.option(
    "--duplicates",
    type=click.IntRange(min=0),
    default=0,
    help="At most this many duplicated messages.",
)
@click.option(
    "--suspicions",
    type=click.IntRange(min=0),
    default=0,
    help="At most this many false suspicions.",
)
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    help="At most this many times a crashed process begins again, without memory (1 without a clock).",
)
@click.option("--max-states", type=click.IntRange(min=1), help="Stop after this many states.")
@click.option(
    "--max-time", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop after this time."
)
@click.option("--exact", is_flag=True, help="Compare whole states instead of 64-bit hashes.")
@click.option(
    "--canonical", is_flag=True, help="Merge states that differ only by a shift of all clocks."
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "gpu"]),
    default="cpu",
    show_default=True,
    help="Where large levels of the search are worked on; 'gpu' needs coterie[gpu].",
)
@trace_option
@open_option
@output_option
def command(
    *,
    algorithm: str | None,
    everything: bool,
    size: int | None,
    variant: str | None,
    trace_file: Path | None,
    opened: bool,
    output: str,
    **options: Any,
) -> int:
    """Explore every interleaving of ALGORITHM with a few processes.

    Exits with 0 if every property holds, 1 if one is violated, 3 if nothing was shown: the search
    was stopped by --max-states or --max-time, or no process ever had to wait.
    """
    if everything == (algorithm is not None):
        raise UsageError("name one algorithm, or use --all")
    search = {name: options.pop(name) for name in SEARCH_OPTIONS}
    names = list(algorithms()) if everything else [str(algorithm)]
    choices = [choose(name, SIZE if size is None else size, variant, options) for name in names]
    searches = [(choice, search) for choice in choices]
    if size is None and not any(options.values()) and not any(map(search.get, WORLD_OPTIONS)):
        pairs = zip(names, choices, strict=True)
        searches = [_where_it_fails(name, choice, search) for name, choice in pairs]
    if everything:  # a search with a clock is long unless its bounds are chosen with care
        searches = [pair for pair in searches if not needs_clock(pair[0].build())]
    verdicts = []
    for choice, bounds in searches:
        verdict = _search(choice, **bounds)
        verdicts.append(verdict)
        if output == "table":
            _print(choice, verdict)
        if trace_file and verdict.counterexample:
            write_trace(verdict.counterexample, trace_file)
    if output == "json":
        facts = [
            _facts(choice, verdict) for (choice, _), verdict in zip(searches, verdicts, strict=True)
        ]
        print_json(facts if everything else facts[0])
    if opened:
        _open(verdicts)
    return _exit_status(verdicts)


def _where_it_fails(
    name: str, choice: Choice, search: dict[str, Any]
) -> tuple[Choice, dict[str, Any]]:
    """Choose the smallest setting known to refute a flawed variant; others are left as they are."""
    setup = choice.setup
    flaw = choice.algorithm.variant(setup.variant).flaw
    if flaw is None:
        return choice, search
    options: dict[str, object] = {
        "-N": flaw.size,
        "--entries": flaw.entries,
        "--crashes": flaw.crashes,
    }
    options |= {f"--{parameter}": value for parameter, value in flaw.parameters.items()}
    words = " ".join(f"{option} {value}" for option, value in options.items())
    click.echo(f"{choice.algorithm.name}, {setup.variant}: known to fail with {words}", err=True)
    bounds = {"entries": str(flaw.entries), "crashes": flaw.crashes}
    return choose(name, flaw.size, setup.variant, dict(flaw.parameters)), search | bounds


def _open(verdicts: Sequence[Verdict]) -> None:
    """Show the first counterexample in the laboratory, until Ctrl-C."""
    found = next((verdict.counterexample for verdict in verdicts if verdict.counterexample), None)
    if found is None:
        click.echo("nothing to play: no property is violated", err=True)
        return
    from coterie.cli.lab.play import show_trace  # noqa: PLC0415 - an extra

    show_trace(found)


def _search(
    choice: Choice,
    *,
    entries: str | None,
    channel: str | None,
    crashes: int | None,
    max_time: float | None,
    **budget: Any,
) -> Verdict:
    line = ProgressLine()

    def show(progress: Progress) -> None:
        fitting = f" of about {progress.room:,} that fit" if progress.room else ""
        line.show(
            f"{choice.algorithm.name}: {progress.states:,} states{fitting},"
            f" depth {progress.depth}, {progress.states_per_second:,.0f} states/s"
        )

    processes = choice.build()
    search = _check_with_clock if needs_clock(processes) else _check_without_clock
    verdict = search(
        processes,
        entries=_entries(entries or "1"),
        crashes=crashes or 0,
        channel=Channel(channel) if channel else None,
        max_seconds=max_time,
        header=choice.header,
        progress=show,
        **budget,
    )
    line.close()
    return verdict


def _check_without_clock(
    processes: Sequence[Process[Any]],
    *,
    entries: int | None,
    channel: Channel | None,
    **bounds: Any,
) -> Verdict:
    """Explore every order of events; numpy is loaded only if there are many, or one needs a look."""
    is_plain = all(bounds[name] == usual for name, usual in PLAIN_BOUNDS.items())
    if is_plain and entries is not None:
        verdict = check_small(processes, entries=entries, channel=channel)
        if verdict is not None:
            return verdict
    with lasting_imports():
        load_search()
    return check(processes, entries=entries, channel=channel, **bounds)


def _check_with_clock(
    processes: Sequence[Process[Any]], *, entries: int | None, crashes: int, **options: Any
) -> Verdict:
    """Explore in ticks of one unit of time; a message takes as long as the processes allow."""
    if entries is None:
        raise UsageError(
            "--entries must be a number for an algorithm that needs a clock, got 'any'"
        )
    meaningless = ("channel", "losses", "duplicates", "suspicions", "exact", "canonical")
    if options.pop("device") != "cpu":
        raise UsageError("--device gpu has no meaning for an algorithm that needs a clock")
    refuse_with_clock({f"--{name}": options.pop(name) for name in meaningless})
    from coterie.lab.explore import check_timed  # noqa: PLC0415 - most algorithms need no clock

    returns = options.pop("restarts")
    return check_timed(processes, entries=entries, crashes=crashes, returns=returns, **options)


def _entries(text: str) -> int | None:
    if text == "any":
        return None
    if text.isdecimal():
        return int(text)
    raise UsageError(f"--entries must be a number or 'any', got {text!r}")


def _print(choice: Choice, verdict: Verdict) -> None:
    click.echo(f"{_title(choice)}: {verdict.verdict}. {sentence(verdict.reason)}")
    click.echo(
        f"  {verdict.states:,} states, {verdict.transitions:,} transitions, depth {verdict.depth}"
    )
    if verdict.liveness:
        click.echo(f"  {verdict.liveness}{_overtaking(verdict)}")
    for item in choice.algorithm.process.properties:
        if isinstance(item, Sometimes):
            seen = "seen" if verdict.sometimes.get(item.name) else "never seen"
            click.echo(f"  {seen}: {item.name}")
    rate = verdict.states / max(verdict.seconds, 1e-9)
    click.echo(f"  {verdict.seconds:.2f} s, {rate:,.0f} states/s", err=True)
    if verdict.counterexample:
        from coterie.lab.scenario import from_trace  # noqa: PLC0415 - where there is something to tell

        click.echo("  shortest counterexample:")
        for line in from_trace(verdict.counterexample).splitlines():
            click.echo(f"    {line}")
        if choice.algorithm.own:
            _print_states(verdict.counterexample)


def _print_states(trace: Trace) -> None:
    """Print the fields of all processes: the author of an algorithm knows what they should be."""
    from coterie.lab.scenario.replay import processes_after  # noqa: PLC0415 - for a user's own alone

    click.echo("  states at its end:")
    for process in processes_after(trace):
        names = [name for name in process.__struct_fields__ if name not in ("me", "size")]
        fields = [f"{name} {plain(getattr(process, name))}" for name in names]
        click.echo(f"    {process.me}: {', '.join(fields) or 'no fields'}")


def _overtaking(verdict: Verdict) -> str:
    if verdict.overtaking is None:
        return ""
    if verdict.overtaking == "unbounded":
        return "; during one wait others enter any number of times"
    times = "once" if verdict.overtaking == 1 else f"{verdict.overtaking} times"
    return f"; during one wait others enter at most {times}"


def _title(choice: Choice) -> str:
    setup = choice.setup
    variant = f", {setup.variant}" if len(choice.algorithm.variants) > 1 else ""
    return f"{choice.algorithm.name}{variant}, N = {setup.size}"


def _facts(choice: Choice, verdict: Verdict) -> dict[str, Any]:
    return {
        "algorithm": choice.algorithm.name,
        "variant": choice.setup.variant,
        "processes": choice.setup.size,
        **msgspec.to_builtins(verdict),
    }


def _exit_status(verdicts: list[Verdict]) -> int:
    answers = {verdict.verdict for verdict in verdicts}
    if "violated" in answers:
        return 1
    return 3 if answers & {"unfinished", "vacuous"} else 0
