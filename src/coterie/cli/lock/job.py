"""The job that `coterie lock` and `coterie elect` run: acquire, run a command, release."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.common.signals import Signals
from coterie.cli.common.stdin import on_end_of_input
from coterie.cli.lock.child import Child
from coterie.cli.lock.guard import Guard
from coterie.cli.lock.options import JOB_OPTIONS, Number, OneOf
from coterie.cli.lock.outage import Outage
from coterie.cli.lock.program import environment, failure
from coterie.errors import LockLost, UsageError
from coterie.locks import Acquirable, Coordinator, ElectionCoordinator, Holding, connect
from coterie.locks.engine import Mortal
from coterie.locks.internals import engine_of, lifelines_of, names_of, timed_out
from coterie.locks.legible import one_line
from coterie.locks.url import choose_url, scheme_of, without_password

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from coterie.cli.lock.options import Option
    from coterie.cli.lock.program import Job
    from coterie.cli.lock.value_files import ValueFiles

INTERRUPTED = 130
SILENT_SECONDS = 1.0  # of waiting, before it says why, and between looks
MARGIN_SECONDS = 0.2  # between the end of the program and the end of the lease


def with_options(options: Sequence[Option]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = _click_option(option)(command)
        return command

    return add


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if option.kind is None:
        return click.option(*option.names, option.key, is_flag=True, help=option.text)
    return click.option(
        *option.names,
        option.key,
        type=_click_type(option.kind),
        metavar=option.metavar,
        multiple=option.repeatable,
        default=option.default,
        show_default=option.default is not None,
        help=option.text,
    )


def _click_type(kind: Callable[[str], Any]) -> Any:
    """Return the type by which Click reads a value and explains a mistake."""
    match kind:
        case Number():
            return click.IntRange(kind.least, kind.most)
        case OneOf():
            return click.Choice(kind.words)
        case _:
            return kind


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the options that describe the job."""
    argument = click.argument("program", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
    return argument(with_options(JOB_OPTIONS)(command))


def enter(url: str | None, node: str | None) -> Coordinator:
    """Return a coordinator: by its URL, or as a node of a cluster that runs a classic algorithm."""
    if node is None:
        return connect(url)
    chosen = choose_url(url)
    if scheme_of(chosen) != "coterie" or chosen.startswith("coterie://"):
        raise UsageError(
            f"--node needs the cluster file: --url coterie:FILE, got {without_password(chosen)}"
        )
    from coterie.cluster.join import join  # noqa: PLC0415 - not for locks of this machine
    from coterie.cluster.membership.config import load  # noqa: PLC0415 - as above

    config = load(chosen.removeprefix("coterie:"))
    if config.membership.algorithm is None:
        raise UsageError("--node is for clusters that run a classic algorithm: leave it out")
    return join(config, node=node)


class JobSession(NamedTuple):
    """What a command has while it waits for a lock and runs its job."""

    coordinator: Coordinator
    outage: Outage
    signals: Signals
    began: float  # by the clock of timers, when the command began to wait


def hold(
    url: str | None,
    choose: Callable[[Coordinator], Acquirable[Holding]],
    job: Job,
    *,
    node: str | None = None,
    wait: float | None = None,
    files: ValueFiles | None = None,
) -> int:
    """Acquire what `choose` returns, run the job, release; return the exit status.

    Raise `AcquireTimeout` if it was not obtained in time, `LockLost` if it was lost.
    """

    def prepare(coordinator: Coordinator) -> Callable[[JobSession], Awaitable[int]]:
        return partial(_hold, choose(coordinator), job, files)

    return in_session(url, prepare, job, node=node, wait=wait)


def in_session(
    url: str | None,
    prepare: Callable[[Coordinator], Callable[[JobSession], Awaitable[int]]],
    job: Job,
    *,
    node: str | None = None,
    wait: float | None = None,
) -> int:
    """Open a coordinator, do the work that was prepared for it, close it; return the exit status.

    For so many seconds as `wait` says it waits for servers, too, which may be away: a caller that says so knows that
    they are there.
    """
    coordinator = enter(url, node)
    if isinstance(coordinator, ElectionCoordinator):
        raise UsageError(
            "this cluster elects a leader among its nodes and has no locks: follow the leader with"
            " coterie elect -l NAME. It has no lease, and two nodes may take themselves for it while"
            " a link is slow: to run a command at one place only, use a cluster without `algorithm`"
        )
    # What fails in a directory does not pass, and a classic node waits for the others by itself.
    outlasts = not coordinator.url.startswith("file:") and node is None
    outage = Outage(wait if outlasts else None)
    return asyncio.run(_interruptible(coordinator, prepare(coordinator), job, outage))


async def _interruptible(
    coordinator: Coordinator,
    work: Callable[[JobSession], Awaitable[int]],
    job: Job,
    outage: Outage,
) -> int:
    signals = Signals()
    with signals.handled():
        try:
            engine = engine_of(coordinator)
            if job.program and isinstance(engine, Mortal):
                engine.await_children()
            began = time.monotonic()
            await outage.outlast(lambda _: coordinator.open(), says=True)
            try:
                return await work(JobSession(coordinator, outage, signals, began))
            finally:
                await coordinator.close()
        except asyncio.CancelledError:
            return INTERRUPTED


async def _hold(
    wanted: Acquirable[Holding], job: Job, files: ValueFiles | None, session: JobSession
) -> int:
    holding = await _acquire(session, wanted)
    try:
        if files is not None:
            return await _use_value(session, holding, job, files)
        if not job.program:
            return await _hold_alone(holding, session.signals)
        return await run_program(session, holding, job)
    finally:
        await holding.release()


async def _acquire(session: JobSession, wanted: Acquirable[Holding]) -> Holding:
    with saying_why(session.coordinator, names_of(wanted)):
        holding = await session.outage.outlast(lambda left: wanted.acquire(timeout=left))
    if holding is None:
        raise await timed_out(wanted)
    return holding


async def _use_value(session: JobSession, holding: Holding, job: Job, files: ValueFiles) -> int:
    """Run the job, if there is one, between two looks at the value of the lock."""
    await files.fill(holding)
    status = await run_program(session, holding, job) if job.program else 0
    if not status:
        await files.keep(holding)
    return status


@contextlib.contextmanager
def saying_why(coordinator: Coordinator, names: Sequence[str]) -> Iterator[None]:
    """Say why nothing is granted while the body waits for these locks."""
    saying = asyncio.ensure_future(_say_why(coordinator, names))
    try:
        yield
    finally:
        saying.cancel()


async def _say_why(coordinator: Coordinator, names: Sequence[str]) -> None:
    """Say why nothing is granted as long as no node grants anything; a holder is no news."""
    said = ""
    while True:
        await asyncio.sleep(SILENT_SECONDS)
        obstacles = [engine_of(coordinator).obstacle(name) for name in names]
        reason = next((str(error) for error in obstacles if error is not None), "")
        if reason and not said:
            click.echo(one_line(f"coterie: waiting: {reason}"), err=True)
        said = reason


async def _hold_alone(holding: Holding, signals: Signals) -> int:
    for name, token in holding.tokens.items():
        click.echo(f"{name} {token}")
    over = asyncio.Event()
    signals.forward_to(lambda _: over.set())
    on_end_of_input(over.set)
    waits = {asyncio.ensure_future(over.wait()), asyncio.ensure_future(holding.lost.wait())}
    _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in pending:
        wait.cancel()
    return 0


async def run_program(
    session: JobSession, holding: Holding, job: Job, facts: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Run the program of a job while a lock is held, and return its exit status; end it if the lock is lost.

    The program finds the facts in its environment, beside the token.
    """
    engine, signals = engine_of(session.coordinator), session.signals
    waited = time.monotonic() - session.began
    surroundings = {**environment(holding.tokens, waited), **facts}
    # Leases are renewed well before they are half over, so half of one is never a threat by itself.
    half_a_lease = (holding.expires_at - time.monotonic()) / 2
    notice = min(job.kill_after + MARGIN_SECONDS, half_a_lease)
    guard = _guard(holding, job, notice)
    try:
        child = Child(job.program, surroundings, lifelines_of(holding), guard)
    except OSError as error:
        click.echo(f"coterie: {job.program[0]}: {error.strerror}", err=True)
        return failure(error)
    if isinstance(engine, Mortal):
        engine.live_with(child.processes)
    signals.forward_to(child.signal)
    ended = asyncio.ensure_future(child.wait())
    threatened = asyncio.ensure_future(_threatened(holding, notice))
    await asyncio.wait({ended, threatened}, return_when=asyncio.FIRST_COMPLETED)
    threatened.cancel()
    if not ended.done() and job.on_lost != "ignore":
        await _stop(child, holding, job)
        holding.ensure()
        raise LockLost(f"lock {holding.name!r}: the lease could not be renewed in time")
    return await ended


def _guard(holding: Holding, job: Job, notice: float) -> Guard | None:
    """Start the guard that ends the program if we are killed, unless the lock stays with the program.

    While we run, either the lease lasts at least as long as the notice or the program is being
    stopped: so a guard that kills within the notice is early enough.
    """
    if lifelines_of(holding) or job.on_lost == "ignore":
        return None
    return Guard(0.0 if job.on_lost == "kill" else max(0.0, notice - MARGIN_SECONDS))


async def _stop(child: Child, holding: Holding, job: Job) -> None:
    if job.on_lost == "kill":
        child.kill()
    left = holding.expires_at - MARGIN_SECONDS - time.monotonic()
    await child.stop(min(job.kill_after, left))


async def _threatened(holding: Holding, notice: float) -> None:
    """Wait until the lock is lost, or will be after the notice unless it is renewed."""
    while not holding.lost.is_set():
        spare = holding.expires_at - notice - time.monotonic()
        if spare <= 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(spare if math.isfinite(spare) else None):
                await holding.lost.wait()
