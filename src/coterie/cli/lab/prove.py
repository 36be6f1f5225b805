"""`coterie prove`: a proof for every number of processes, and the code held against what is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli.common import one_thread  # noqa: F401 - before numpy, which the explorer imports
from coterie.cli.common.imports import lasting_imports
from coterie.cli.common.output import output_option, print_json, print_table, write_file
from coterie.cli.lab.options import to_path
from coterie.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from coterie.lab.prove.bounded import Counterexample

STATUS = {"proved": 0, "not proved": 1, "not followed": 1, "vacuous": 3, "unknown": 3}


def complete_page(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the pages whose names begin so, for the shell; a file if there are none."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - for this one alone

    from coterie.lab.prove.library import names  # noqa: PLC0415 - as above

    found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


@click.command("prove")
@click.argument("name", shell_complete=complete_page, required=False)
@click.option(
    "--variant", metavar="NAME", help="A variant of the algorithm, or a flaw of its page."
)
@click.option(
    "--without", metavar="CLAUSE", help="Leave out a clause or an axiom, to see it missed."
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False),
    callback=to_path,
    metavar="FILE",
    help="Draw the counterexample to induction, if there is one, as an SVG file.",
)
@click.option(
    "--waits", is_flag=True, help="Prove, too, that every wait ends: maekawa takes a minute."
)
@click.option(
    "--effort",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="MILLIONS",
    help="Steps of the solver for one try at one obligation: so a slow machine proves as much.",
)
@click.option("--list", "listed", is_flag=True, help="List what has a page.")
@click.option(
    "--all", "everything", is_flag=True, help="Prove every page: a table with a line for each."
)
@output_option
def command(
    *,
    name: str | None,
    variant: str | None,
    without: str | None,
    picture: Path | None,
    waits: bool,
    effort: float,
    listed: bool,
    everything: bool,
    output: str,
) -> int:
    """Prove NAME for every number of processes, and hold the code against what was proved.

    NAME is an algorithm or protocol that has a page (see --list), or a FILE.py with a PAGE.

    Exits with 0 if all is proved and the code follows, 1 if there is a counterexample or the code does
    not follow, 3 if nothing was shown: the clauses forbid a step, or the solver gave up.
    """
    with lasting_imports():
        from coterie.lab.prove import library  # noqa: PLC0415 - the explorer, which it needs, is slow to load
    if listed:
        click.echo("\n".join(library.names()))
        return 0
    if everything == (name is not None):
        raise UsageError("name one page to prove, or use --all or --list")
    if everything:
        return _prove_all(library.names(), effort=effort, waits=waits, output=output)
    assert name is not None
    entry = library.find(name)
    page = library.choose_variant(entry, variant)
    if without is not None:
        page = page.without(without.replace(" ", "_"))
    with lasting_imports():
        from coterie.lab.prove.verdict import judge  # noqa: PLC0415 - needs an extra
    verdict = judge(entry, page, effort=effort, with_waits=waits)
    if output == "json":
        print_json(verdict.facts())
    else:
        click.echo("\n".join(verdict.lines()))
        click.echo(f"  {verdict.proof.seconds:.1f} s", err=True)
    if picture is not None:
        _draw(verdict.counterexample, picture)
    return STATUS[verdict.answer]


def _prove_all(names: list[str], *, effort: float, waits: bool, output: str) -> int:
    with lasting_imports():
        from coterie.lab.prove import library, verdict  # noqa: PLC0415 - needs an extra
    verdicts = []
    for name in names:
        if name in library.SAME_CODE:
            continue
        entry = library.find(name)
        with_waits = waits and entry.page.waits is not None
        found = verdict.judge(entry, entry.page, effort=effort, with_waits=with_waits)
        click.echo(f"{name}: {found.answer}, {found.proof.seconds:.1f} s", err=True)
        verdicts.append(found)
    if output == "json":
        print_json([found.facts() for found in verdicts])
    else:
        print_table(verdict.HEADER, [found.row() for found in verdicts])
    return max(STATUS[found.answer] for found in verdicts)


def _draw(found: Counterexample | None, path: Path) -> None:
    if found is None:
        click.echo("nothing to draw: there is no counterexample", err=True)
        return
    from coterie.lab.prove.picture import draw  # noqa: PLC0415 - where there is something to draw

    write_file(path, draw(found))
    click.echo(f"wrote {path}", err=True)
