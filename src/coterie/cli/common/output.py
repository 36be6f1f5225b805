"""How results are printed: aligned tables for people, JSON for programs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from coterie.errors import UsageError
from coterie.locks.legible import legible_json, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


Command = TypeVar("Command", bound="Callable[..., Any]")

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)

rows_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print the result: csv has one line per run.",
)


def drawn_output_option(what: str) -> Callable[[Command], Command]:
    """Make the option of a command whose result can be drawn as well."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "svg"]),
        default="table",
        show_default=True,
        help=f"How to print the result; svg draws {what}.",
    )


def write_file(path: Path, text: str) -> None:
    """Write the file; raise `UsageError` if that is impossible."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def print_json(value: Any) -> None:
    """Print as indented JSON."""
    click.echo(legible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns aligned: text to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    right = [all(type(row[i]) in (int, float) for row in rows) for i in range(len(header))]
    for row in [list(header), *cells]:
        aligned = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(aligned).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return one_line(str(value))  # it may come from another user, or another program


def say(text: str, *, err: bool = False) -> None:
    """Print a line in which there may be text of other programs, or of nodes that lie."""
    click.echo(one_line(text), err=err)


def sentence(text: str) -> str:
    """Return the text with a capital at its beginning and a full stop at its end."""
    return text[:1].upper() + text[1:].removesuffix(".") + "."


def number(value: float) -> str:
    """Return it with at most two decimals, and none if it is whole."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@contextlib.contextmanager
def naming(what: str, command: str) -> Iterator[None]:
    """Say of which file or option a complaint is, and where the right form is described."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{what}: {error}; see coterie {command} --help") from None
