"""`coterie lab`: play, break and judge the algorithms in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie import web
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.lab.address import Address
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
    or with a trace that --trace of check, simulate or record has written. A trace that cannot be
    played by hand is drawn. The page is served on this machine only, until Ctrl-C.
    """
    web.require()
    trace = None if run is None else _read_trace(run)
    if trace is not None:
        show_run(playable_run(trace), port, browser=not no_open, trace=trace)
    else:
        show_run(None if run is None else _read(run), port, browser=not no_open)


def show_trace(trace: Trace) -> None:
    """Serve the laboratory with a run that a command has found, drawn if it cannot be played."""
    web.require()
    show_run(playable_run(trace), PORT, browser=True, trace=trace)


def run_of(trace: Trace) -> Address:
    """Return the run that leads through a trace; raise a `UsageError` if it cannot be played by hand."""
    from coterie.lab.address import Refusal  # noqa: PLC0415 - where there is a run
    from coterie.lab.fork import address_of  # noqa: PLC0415 - as above

    found = address_of(trace)
    if isinstance(found, Refusal):
        raise UsageError(found.error)
    return found


def playable_run(trace: Trace) -> Address | None:
    """Return the run that leads through a trace, if it can be played by hand to its end."""
    from coterie.lab.address import Refusal  # noqa: PLC0415 - where there is a run
    from coterie.lab.fork import address_of  # noqa: PLC0415 - as above
    from coterie.lab.laboratory import Laboratory  # noqa: PLC0415 - as above
    from coterie.lab.questions import Question  # noqa: PLC0415 - as above

    found = address_of(trace)
    if isinstance(found, Refusal):
        return None
    position = Laboratory().play(Question(found.first, found.moves))
    if isinstance(position, Refusal) or position.refusal is not None:
        return None
    return found


def look_at(trace: Trace) -> None:
    """Serve the laboratory with a recorded run, drawn as it was."""
    web.require()
    show_run(None, PORT, browser=True, trace=trace)


def show_run(run: Address | None, port: int, *, browser: bool, trace: Trace | None = None) -> None:
    """Serve the laboratory, with a run to play or a trace to look at if there is one."""
    from coterie.lab.address import Refusal  # noqa: PLC0415 - an extra
    from coterie.lab.laboratory import Laboratory  # noqa: PLC0415 - as above
    from coterie.lab.questions import Question  # noqa: PLC0415 - as above
    from coterie.web.app import make_app  # noqa: PLC0415 - as above
    from coterie.web.lab.routes import LabPages  # noqa: PLC0415 - as above
    from coterie.web.server import show  # noqa: PLC0415 - as above

    laboratory = Laboratory(SEARCH_MILLISECONDS)
    page = "/" if trace is None else "/#/trace"
    if run is not None:
        position = laboratory.play(Question(run.first, run.moves))
        if isinstance(position, Refusal):
            raise UsageError(position.error)
        if position.refusal is not None:
            raise UsageError(position.refusal.error)
        page = f"/{position.address}"
    pages = LabPages(laboratory, trace)
    try:
        show(make_app(pages.routes()), port, page, browser=browser)
    finally:
        pages.close()


def _read_trace(run: str) -> Trace | None:
    """Return the trace of a file, if there is such a file and it begins like one."""
    from coterie.trace import parse_trace  # noqa: PLC0415 - only for traces

    path = Path(run)
    if not path.is_file():
        return None
    text = _text(path)
    return parse_trace(text) if text.lstrip().startswith("{") else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _read(run: str) -> Address:
    """Return the scenario of a file if there is one of that name, else the one that the text begins."""
    from coterie.lab.address import Address  # noqa: PLC0415 - where there is a run

    path = Path(run)
    if not path.is_file():
        if " " not in run.strip():
            raise UsageError(
                f"no such file, and no first line of a scenario such as 'maekawa 3': {run!r}"
            )
        return Address(run)
    lines = [line for line in _text(path).splitlines() if line.strip() and line[0] not in " \t#"]
    if not lines:
        raise UsageError(
            f"{path} is empty: the first line of a scenario is an algorithm and a size"
        )
    return Address(lines[0], [line for line in lines[1:] if line.strip() != "show"])
