"""`coterie lab`: play, break and judge the algorithms in the browser."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from urllib.parse import quote

import click
import msgspec

from coterie import dashboard
from coterie.catalogue import is_reference, load
from coterie.cli.common.output import output_option, write_file
from coterie.errors import UsageError
from coterie.lab.play.runs.address import RunAddress
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.scenario import read_scenario
from coterie.lab.scenario.play import read_first_line
from coterie.trace import Trace, parse_trace

PORT = 8421
OWN_SIZE = 3  # processes of an algorithm that is named alone
SEARCH_MILLISECONDS = 10_000  # at most, for one question of a page; the newest question ends it


@click.command("lab")
@click.argument("runs", nargs=-1, metavar="[RUN]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Where to listen on this machine, {PORT} or the next free port by default; 0: any.",
)
@click.option(
    "--algorithm",
    metavar="FILE.py:Class",
    help="An algorithm of your own that the file RUN is of; it is imported, which runs it.",
)
@click.option("--no-open", is_flag=True, help="Print the address, open no browser.")
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write all runs of a small system as one page, and serve nothing.",
)
@click.option(
    "--grade", is_flag=True, help="Score answers to challenges instead: addresses, files."
)
@output_option
def command(
    *,
    runs: tuple[str, ...],
    algorithm: str | None,
    port: int | None,
    no_open: bool,
    export: Path | None,
    grade: bool,
    output: str,
) -> int:
    """Play an algorithm by hand in the browser: deliver, drop, crash, go back, share.

    Every possible move shows what it leads to: whether something can still go wrong, whether it must,
    and from which point on nothing could have saved the run. Where an algorithm relies on bounds of time, it
    shows whether they are kept.

    RUN is the first line of a scenario, such as 'maekawa 3 variant=basic' or './naive.py:Naive 3'; a
    FILE.py with an algorithm, or with the PAGE of a proof; or a file with a scenario, or with a trace that --trace of check, simulate or record has written. A trace
    that cannot be played by hand is drawn. The page is served on this machine only, until Ctrl-C.

    With --export nothing is served: every state that RUN can come to, with one entry of each process and
    no faults, goes into one file that opens from disk with the network off, if there are at most
    20,000. The page saves such a file, too, with what may happen as it is chosen there.

    With --grade nothing is served: each RUN is an answer to a challenge, as the page shares it, or a
    file of such addresses, a scenario or a trace. It is played again and scored by its number of
    moves over the fewest possible. Exits with 1 unless every answer reaches its goal.
    """
    if grade:
        from coterie.cli.lab.grade import grade as grade_answers  # noqa: PLC0415 - numpy

        return grade_answers(runs, output)
    if len(runs) > 1:
        raise UsageError(f"one run can be opened, not {len(runs)}; quote a first line: 'maekawa 3'")
    if export is not None:
        _export(_read(runs[0], algorithm) if runs else None, export)
        return 0
    dashboard.require("explore")
    if runs and _is_proof_alone(runs[0]):
        show_run(None, port, browser=not no_open, proof=runs[0])
        return 0
    found = _read(runs[0], algorithm) if runs else None
    if found is None or isinstance(found, RunAddress):
        show_run(found, port, browser=not no_open)
    else:
        show_run(playable_run(found), port, browser=not no_open, trace=found)
    return 0


def show_trace(trace: Trace) -> None:
    """Serve the laboratory with a run that a command has found, drawn if it cannot be played."""
    dashboard.require("explore")
    show_run(playable_run(trace), None, browser=True, trace=trace)


def playable_run(trace: Trace) -> RunAddress | None:
    """Return the run that leads through a trace, if it can be played by hand to its end."""
    from coterie.lab.play.laboratory import Laboratory  # noqa: PLC0415 - as above
    from coterie.lab.play.questions import Question  # noqa: PLC0415 - as above

    try:
        found = address_of(trace)
        Laboratory().play_whole(Question(found.first, found.moves))
    except UsageError:
        return None
    return found


def look_at(trace: Trace) -> None:
    """Serve the laboratory with a recorded run, drawn as it was."""
    dashboard.require("explore")
    show_run(None, None, browser=True, trace=trace)


def show_run(
    run: RunAddress | None,
    port: int | None,
    *,
    browser: bool,
    trace: Trace | None = None,
    proof: str | None = None,
) -> None:
    """Serve the laboratory, with a run to play, a trace to look at, or a file's proof, if there is one."""
    from coterie.dashboard.server import show  # noqa: PLC0415 - as above
    from coterie.lab.play.laboratory import Laboratory  # noqa: PLC0415 - as above
    from coterie.lab.play.questions import Question  # noqa: PLC0415 - as above
    from coterie.lab.web.routes import LabPages  # noqa: PLC0415 - as above

    laboratory = Laboratory(SEARCH_MILLISECONDS)
    page = "/" if trace is None else "/#/trace"
    if run is not None:
        page = f"/{laboratory.play_whole(Question(run.first, run.moves)).address}"
    if proof is not None:
        laboratory.solver.name_file(proof)
        page = f"/#/prove/{quote(proof, safe='')}"
    pages = LabPages(laboratory, trace)
    try:
        show(pages.app(), port, PORT, page, browser=browser)
    finally:
        pages.close()


def _export(run: RunAddress | Trace | None, path: Path) -> None:
    from coterie.lab.web.file import map_page  # noqa: PLC0415 - as above

    if run is None:
        raise UsageError("name what to export, such as 'maekawa 3'")
    if isinstance(run, Trace):
        run = address_of(run)
    write_file(path, map_page(run.first, run.moves))


def _is_proof_alone(run: str) -> bool:
    """Return whether it is a file that has a page of proofs and no algorithm to be played."""
    if not (run.endswith(".py") and Path(run).is_file()):
        return False
    try:
        load(run)
    except UsageError:
        from coterie.lab.prove import library  # noqa: PLC0415 - numpy

        with contextlib.suppress(UsageError):
            library.find(run)
            return True
    return False


def _read(run: str, own: str | None) -> RunAddress | Trace:
    """Return the run of a file if there is one of that name, else the one that the text begins."""
    path = Path(run)
    if is_reference(run):
        load(run)
        return RunAddress(shlex.join([run, str(OWN_SIZE)]))
    if path.is_file():
        return _read_file(path, own)
    if " " not in run.strip():
        raise UsageError(
            f"no such file, and no first line of a scenario such as 'maekawa 3': {run!r}"
        )
    name = read_first_line(run)[0].algorithm
    if is_reference(name):
        load(name)
    return RunAddress(run)


def _read_file(path: Path, own: str | None) -> RunAddress | Trace:
    """Read a trace or a scenario; what it calls its algorithm is not run for that."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if text.lstrip().startswith("{"):
        trace = parse_trace(text)
        name = _trusted(path, trace.header.algorithm, own)
        return Trace(msgspec.structs.replace(trace.header, algorithm=name), trace.records)
    try:
        run = read_scenario(text)
    except Refusal as error:
        raise UsageError(f"{path}: {error}") from None
    words = shlex.split(run.first)
    name = _trusted(path, words[0], own)
    return run if name == words[0] else RunAddress(shlex.join([name, *words[1:]]), run.moves)


def _trusted(path: Path, name: str, own: str | None) -> str:
    """Return the algorithm of a file: its own name for it, or the one that the user has named."""
    if own is not None:
        return load(own).name
    if is_reference(name):
        raise UsageError(
            f"{path} is of {name}, which is a program: add --algorithm {name} to run it"
        )
    return name
