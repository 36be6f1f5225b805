"""`coterie sources`: what the survey, the paper and the lectures state, and our verdict on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli.common.output import output_option, print_json, print_table
from coterie.lab.sources import SOURCES, Verdict, source

if TYPE_CHECKING:
    from coterie.lab.sources import Source, Statement


@click.command("sources")
@click.argument("name", required=False)
@output_option
def command(*, name: str | None, output: str) -> None:
    """List what our sources state, with a verdict on each statement and the command that shows it.

    NAME is survey, paper or lectures; without it their statements are counted. The commands are run
    in docs/ of a checkout, whose pages show what they print; a scenario is a file of tests/scenarios,
    which `coterie lab FILE` plays.
    """
    chosen = [source(name)] if name else list(SOURCES)
    if output == "json":
        print_json([_facts(each) for each in chosen])
    elif name:
        _print(chosen[0])
    else:
        header = [
            "source",
            "statements",
            "hold",
            "under a condition",
            "refuted",
            "shown",
            "missing",
        ]
        print_table(header, [_row(each) for each in chosen])


def _row(chosen: Source) -> list[str | int]:
    counts = chosen.counts()
    return [chosen.name, len(chosen.statements), *(counts[verdict] for verdict in Verdict)]


def _print(chosen: Source) -> None:
    click.echo(f"{chosen.title}. {chosen.summary()}")
    number = 0
    for section in chosen.sections:
        click.echo(f"\n{section.title}")
        for statement in section.statements:
            number += 1
            click.echo(f"{number:4}  {statement.text}\n      {statement.says}")
            if statement.evidence:
                click.echo(f"      $ {statement.command or statement.evidence}")


def _facts(chosen: Source) -> dict[str, Any]:
    return {
        "name": chosen.name,
        "title": chosen.title,
        "counts": {verdict.name.lower(): count for verdict, count in chosen.counts().items()},
        "statements": [
            _statement(number, each) for number, each in enumerate(chosen.statements, 1)
        ],
    }


def _statement(number: int, statement: Statement) -> dict[str, Any]:
    return {
        "number": number,
        "text": statement.text,
        "verdict": statement.verdict.name.lower(),
        "words": statement.words,
        "command": statement.command,
        "scenario": statement.scenario,
        "page": statement.page or None,
    }
