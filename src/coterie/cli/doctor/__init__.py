"""`coterie doctor`: looks at what locks rest on, here and on the way to their servers."""

from __future__ import annotations

from pathlib import Path

import click

from coterie.cli.common.output import output_option, print_json, print_table, say
from coterie.cli.doctor.machine import look_at_disk, look_at_machine
from coterie.cli.doctor.reach import data_folders, look_at_lines, look_at_service
from coterie.locks.url import choose_url


@click.command("doctor")
@click.option(
    "--url",
    metavar="URL",
    help="What to look at; default: COTERIE_URL, then coterie.toml, then file:.",
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Test the disk of this data directory, instead of those that coterie.toml names.",
)
@output_option
def command(*, url: str | None, data: tuple[Path, ...], output: str) -> int:
    """Check the conditions that locks rest on: clock, pauses, descriptors, disk, nodes, certificates.

    Nothing is locked or changed. A disk is tested with a temporary file.

    Exits with 1 if something is bad, and with 0 otherwise, even with hints.
    """
    chosen = choose_url(url)
    diagnoses = [
        *look_at_machine(),
        *map(look_at_disk, data or data_folders(chosen)),
        *look_at_service(chosen),
        *look_at_lines(chosen),
    ]
    if output == "json":
        print_json(diagnoses)
    else:
        rows = [[each.what, each.state, each.found] for each in diagnoses]
        print_table(["what", "state", "found"], rows)
        for each in diagnoses:
            if each.advice:
                say(f"{each.what}: {each.advice}", err=True)
    return 1 if any(each.state == "bad" for each in diagnoses) else 0
