"""Options that several commands share: the algorithm, its size, variant and parameters, files."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.catalogue import Algorithm, Setup, every_algorithm, is_reference, load
from coterie.cli.common.output import sentence, write_file
from coterie.errors import UsageError
from coterie.trace import Header, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from coterie.process import Process

Command = TypeVar("Command", bound="Callable[..., Any]")

TRACE_SUFFIXES = (".jsonl", ".html", ".svg", ".shiviz", ".perfetto.json")


def to_path(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    """Make a path of an argument; most commands are given none and need no `pathlib`."""
    if value is None:
        return None
    from pathlib import Path  # noqa: PLC0415 - see above

    return Path(value)


def to_trace_path(context: click.Context, parameter: click.Parameter, value: Any) -> Path | None:
    """Turn what a user wrote into a path, refused before the work whose trace it is for."""
    path = to_path(context, parameter, value)
    if path is None:
        return None
    if not path.name.endswith(TRACE_SUFFIXES):
        raise UsageError(
            f"--trace file must end in one of {', '.join(TRACE_SUFFIXES)}, got {path.name!r}"
        )
    if not path.parent.is_dir():
        raise UsageError(f"--trace: there is no directory {str(path.parent)!r}")
    return path


trace_option = click.option(
    "--trace",
    "trace_file",
    type=click.Path(dir_okay=False),
    callback=to_trace_path,
    help="Write the trace to a file: .jsonl, .html (a page to step through), .svg (space-time diagram),"
    " .shiviz or .perfetto.json.",
)


open_option = click.option(
    "--open", "opened", is_flag=True, help="Step through the run in the browser (see coterie lab)."
)


def plot_option(default: str) -> Callable[[Command], Command]:
    """Add `--plot`, which writes a chart to the default file unless another is given."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False),
        callback=to_path,
        is_flag=False,
        flag_value=default,
        help=f"Write a chart to this SVG file.  [default: {default}]",
    )


@dataclass(frozen=True)
class Choice:
    """An algorithm with the size, variant and parameters that the user chose."""

    algorithm: Algorithm
    setup: Setup
    header: Header

    @property
    def title(self) -> str:
        """The choice in words."""
        variant = f" ({self.setup.variant})" if self.setup.variant else ""
        return f"{self.algorithm.name}{variant}, N = {self.setup.size}"

    @property
    def labels(self) -> dict[str, str]:
        """What to put before the numbers of a run in a row."""
        return {"algorithm": self.algorithm.name, "variant": self.setup.variant}

    def build(self) -> Sequence[Process[Any]]:
        """Build fresh processes."""
        return self.algorithm.build(self.setup)


def choose(
    name: str,
    size: int,
    variant: str | None,
    given: dict[str, str | None],
    seed: int | None = None,
    *,
    source: str | None = None,
) -> Choice:
    """Check what the user chose; raise `UsageError` or `ConfigError` if it cannot be built."""
    entry = load(name, source)
    # Click writes an option --t-max as t_max.
    parameters = {name.replace("_", "-"): v for name, v in given.items() if v is not None}
    setup = entry.setup(size, variant, parameters)
    header = Header(
        algorithm=entry.name, size=size, variant=setup.variant, parameters=parameters, seed=seed
    )
    return Choice(entry, setup, header)


VARIANT = "--variant"
PARAMETERS = f"{__name__}.parameters"  # of the context: whether one of them may be meant
ALGORITHM_HELP = (
    "ALGORITHM is a name that `coterie algorithms` lists, or one of your own: FILE.py:Class, FILE.py"
    " where it has only one, or package.module:Class."
)


def complete_algorithm(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the algorithms whose names begin so, for the shell; a file if there are none."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - for this one alone

    names = [name for name in every_algorithm() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


variant_option = click.option(VARIANT, metavar="NAME", help="Variant of the algorithm.")


class AlgorithmCommand(click.Command):
    """A command with one option per parameter that some algorithm has, behind `--variant`.

    To know them is to import all algorithms, so they are made only if an argument may mean one.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; those that no other option explains may be parameters."""
        others = {name for option in self.params for name in option.opts}
        ctx.meta[PARAMETERS] = any(
            text.startswith("--") and text.partition("=")[0] not in others for text in args
        )
        if ctx.meta[PARAMETERS]:
            for text in filter(is_reference, args):
                with contextlib.suppress(UsageError):  # which the command will raise
                    load(text)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, with those of parameters unless none can be meant."""
        params = super().get_params(ctx)
        if not ctx.meta.get(PARAMETERS, True):
            return params
        names = {
            parameter.name
            for each in every_algorithm(loaded=True).values()
            for parameter in each.parameters
        }
        place = next(place for place, option in enumerate(params) if VARIANT in option.opts) + 1
        options = [click.Option([f"--{name}"], metavar="SPEC") for name in sorted(names)]
        return [*params[:place], *options, *params[place:]]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, and what an algorithm is called."""
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(ALGORITHM_HELP)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those of each algorithm under its name."""
        options = [each for each in super().get_params(ctx) if isinstance(each, click.Option)]
        records = [option.get_help_record(ctx) for option in options]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])
        for entry in every_algorithm(loaded=True).values():
            rows = _options_of(entry)
            if rows:
                with formatter.section(f"Options of {entry.name}"):
                    formatter.write_dl(rows)


def _options_of(entry: Algorithm) -> list[tuple[str, str]]:
    """Write what can be chosen about one algorithm, as rows of the help."""
    rows = [
        (
            f"--{each.name} SPEC",
            sentence(each.summary) + f"  [default: {each.default}]" * bool(each.default),
        )
        for each in entry.parameters
    ]
    default, *others = entry.variants
    if others:
        names = [f"{default.name} (default)", *(variant.name for variant in others)]
        rows.append((f"{VARIANT} NAME", f"One of {', '.join(names)}."))
    return rows


def sizes(text: str) -> list[int]:
    """Return numbers of processes, given such as `3,7,13`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"-N must be numbers such as 3,7,13, got {text!r}") from None


def _page(trace: Trace) -> str:
    from coterie.lab.play.runs.fork import address_of  # noqa: PLC0415 - needs numpy
    from coterie.lab.web.file import run_page  # noqa: PLC0415 - as above

    run = address_of(trace)
    return run_page(run.first, run.moves)


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace in the format that the suffix of the file names."""
    from coterie.diagram import perfetto, shiviz, space_time  # noqa: PLC0415 - only when drawing

    writers: tuple[Callable[[Trace], str], ...] = (
        Trace.to_lines,
        _page,
        space_time,
        shiviz,
        perfetto,
    )
    for suffix, write in zip(TRACE_SUFFIXES, writers, strict=True):
        if path.name.endswith(suffix):
            write_file(path, write(trace))
