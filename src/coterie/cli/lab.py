"""`coterie lab`: play, break and judge the algorithms in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie import web
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.trace import Trace

PORT = 8421
SEARCH_MILLISECONDS = 10_000  # at most, for one question of a page; the newest question ends it


@click.command("lab")
@click.argument("run", required=False, metavar="[RUN]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Where to listen on this machine, or the next free port; 0: any.",
)
@click.option("--no-open", is_flag=True, help="Print the address, open no browser.")
def command(*, run: str | None, port: int, no_open: bool) -> None:
    """Play an algorithm by hand in the browser: deliver, drop, crash, go back, share.

    Every possible move shows what it leads to: whether something can still go wrong, whether it must,
    and from which point on nothing could have saved the run.

    RUN is the first line of a scenario, such as 'maekawa 3 variant=basic'; or a file with a scenario,
    or with a trace that --trace of check or simulate has written. The page is served on this
    machine only, until Ctrl-C.
    """
    web.require()
    show_run(None if run is None else _script(run), port, browser=not no_open)


def show_trace(trace: Trace) -> None:
    """Serve the laboratory with a run that a command has found."""
    web.require()
    from coterie.scenario.script import commands  # noqa: PLC0415 - where there is a run

    show_run("\n".join(commands(trace)), PORT, browser=True)


def show_run(script: str | None, port: int, *, browser: bool) -> None:
    """Serve the laboratory, with the run of a scenario if there is one."""
    from coterie.lab.address import Address, Refusal, write_address  # noqa: PLC0415 - an extra
    from coterie.lab.laboratory import Laboratory  # noqa: PLC0415 - as above
    from coterie.lab.questions import Question  # noqa: PLC0415 - as above
    from coterie.web.app import make_app  # noqa: PLC0415 - as above
    from coterie.web.lab.routes import LabPages  # noqa: PLC0415 - as above
    from coterie.web.server import show  # noqa: PLC0415 - as above

    laboratory = Laboratory(SEARCH_MILLISECONDS)
    page = "/"
    if script is not None:
        first, *moves = script.splitlines()
        position = laboratory.play(Question(first, moves))
        refusal = position if isinstance(position, Refusal) else position.refusal
        if refusal is not None:
            raise UsageError(refusal.error)
        page = f"/{write_address(Address(first, moves, len(moves)))}"
    show(make_app(LabPages(laboratory).routes()), port, page, browser=browser)


def _script(run: str) -> str:
    """Return a first line and moves: of a file if there is one of that name, else the line itself."""
    path = Path(run)
    if not path.is_file():
        if " " not in run.strip():
            raise UsageError(
                f"no such file, and no first line of a scenario such as 'maekawa 3': {run!r}"
            )
        return run
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if text.lstrip().startswith("{"):
        from coterie.scenario.script import commands  # noqa: PLC0415 - only for traces
        from coterie.trace import parse_trace  # noqa: PLC0415 - as above

        return "\n".join(commands(parse_trace(text)))
    lines = [
        line for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t", "#"))
    ]
    if not lines:
        raise UsageError(
            f"{path} is empty: the first line of a scenario is an algorithm and a size"
        )
    return "\n".join(line for line in lines if line.strip() != "show")
