"""Print the man page of the command `coterie`, made from its help.

    python docs/manual.py > docs/man/coterie.1

`make docs` does it; a test fails when the page is not what this prints.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie import errors
from coterie.cli.root import root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent

ENVIRONMENT = {
    "COTERIE_URL": "Where the locks are, for commands without --url.",
    "COTERIE_DIR": "The directory of file: locks, instead of /var/tmp/coterie.",
    "COTERIE_SECRET_FILE": "A file with the secret of the cluster, 16 bytes at least: coterie secret makes one.",
    "COTERIE_SECRET": "The secret itself. Commands under coterie lock do not inherit it.",
    "COTERIE_PASSWORD": "The password of the user in the URL of a server. Commands under coterie lock do not inherit it.",
    "COTERIE_SENTINEL_PASSWORD": "The password of the sentinels of a Redis or Valkey. Commands under coterie lock do not inherit it.",
    "COTERIE_OPERATOR_SECRET_FILE": "A file with the secret of those who may change the cluster.",
    "COTERIE_LOCK": "Set for the command that coterie lock runs: the name of the lock.",
    "COTERIE_TOKEN": "Likewise: the fencing token, which grows with every grant.",
}
NO = "The answer is no, such as a property that does not hold: each command says which answer."
FILES = {"coterie.toml": "The cluster file, looked for in the working directory."}


class Roff(click.HelpFormatter):
    """Writes what a command says of itself in the macros of man(7), where Click would align it."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f".B {escaped(prog)}\n{escaped(args)}\n")

    def write_heading(self, heading: str) -> None:
        if heading != "Options":
            self.write(f".PP\n{escaped(heading)}:\n")

    def write_paragraph(self) -> None:
        """Write nothing: each part begins with a macro of its own."""

    def write_text(self, text: str) -> None:
        for paragraph in text.split("\n\n"):
            self.write(".PP\n")
            if paragraph.startswith("\b"):
                lines = [escaped(line) for line in paragraph.splitlines()[1:]]
                self.write("\n".join([".nf", *lines, ".fi\n"]))
            else:
                self.write(escaped(" ".join(paragraph.split())) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        self.write("\n".join(terms(rows)) + "\n")


def manual() -> str:
    """Return the man page, in the macros of man(7)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    context = click.Context(root, info_name="coterie", **root.context_settings)
    lines = [
        '.\\" Written by docs/manual.py from the help of the command.',
        f'.TH COTERIE 1 "" "coterie {project["version"]}"',
        ".nh",
        ".ad l",
        ".SH NAME",
        escaped(f"coterie - {(root.help or '').rstrip('.').lower()}"),
        ".SH SYNOPSIS",
        ".B coterie",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH COMMANDS",
    ]
    lines += sections(root, context)
    lines += [".SH EXIT STATUS", *terms(exit_statuses().items())]
    lines += [".SH ENVIRONMENT", *terms(ENVIRONMENT.items())]
    lines += [".SH FILES", *terms(FILES.items())]
    return "\n".join(lines) + "\n"


def sections(group: click.Group, context: click.Context) -> Iterator[str]:
    """Write a section for each command of a group, and of the groups in it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, parent=context, info_name=name)
        formatter = Roff()
        command.format_help(below, formatter)
        yield f".SS {escaped(below.command_path)}"
        yield formatter.getvalue().rstrip()
        if isinstance(command, click.Group):
            yield from sections(command, below)


def exit_statuses() -> dict[str, str]:
    """Return what each exit status means: the errors that have it, by their first lines."""
    meanings: dict[int, list[str]] = {0: ["Success."], 1: [NO]}
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.CoterieError) and kind is not errors.CoterieError:
            line = inspect.getdoc(kind) or ""
            meanings.setdefault(kind.exit_status, []).append(line.partition("\n")[0])
    meanings[130] = ["Interrupted."]
    return {str(status): " ".join(meanings[status]) for status in sorted(meanings)}


def terms(meanings: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in meanings:
        yield from (".TP", f".B {escaped(term)}", escaped(meaning))


def escaped(text: str) -> str:
    """Return text that roff prints as it is: no escapes, hyphens that can be copied, no requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    print(manual(), end="")
