"""An audit from its beginning to its end: the server is started, the trial run, the record judged."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.lab.lock_audit.adapter import load_adapter
from coterie.lab.lock_audit.picture import Violation
from coterie.lab.lock_audit.trial import LockTrial
from coterie.lab.lock_audit.verdict import (
    LockVerdict,
    as_asked,
    count_errors,
    entered,
    find_fence,
    find_overlaps,
    judge_exclusion,
    measure_left_behind,
    measure_service,
    measure_told,
)
from coterie.lab.servers.catalogue import SERVERS, running
from coterie.lab.servers.child import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from coterie.lab.lock_audit.adapter import Adapter
    from coterie.lab.lock_audit.notes import Turn
    from coterie.lab.lock_audit.trial import Happened, LockAuditPlan
    from coterie.lab.lock_audit.verdict import Overlap
    from coterie.lab.servers.catalogue import Running


class LockAudit(NamedTuple):
    """A verdict, and what a picture of its smallest violation needs."""

    verdict: LockVerdict
    trial: LockTrial
    smallest: Violation | None  # of those that two turns show


def audit_lock(
    plan: LockAuditPlan,
    progress: Callable[[str], None],
    run: Callable[[Callable[[], Awaitable[None]]], None],
) -> LockAudit:
    """Run an audit; `run` runs its coroutine, and whatever ends that, all that was started is stopped.

    The server is started and stopped outside of the event loop: `asyncio.run` waits for the threads in which faults
    start and kill it, so none is left that could start it once more.
    """
    adapter = load_adapter(plan.target)
    if adapter.server and adapter.server not in SERVERS:
        raise UsageError(f"SERVER must be one of {', '.join(SERVERS)}, got {adapter.server!r}")
    with terminated_like_interrupted(), TemporaryDirectory(prefix="coterie-audit-") as name:
        folder = Path(name)
        progress(f"{plan.target}: starting {adapter.server or 'programs'}")
        with started(adapter, folder / "server") as server:
            if adapter.lease is not None:
                server.supplier.lease = adapter.lease  # pauses last beyond that
            trial = LockTrial(plan, server, folder, progress)
            run(trial.run)
    return judge(plan, adapter, trial)


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the body as Ctrl-C does, so that it can tidy up."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextlib.contextmanager
def started(adapter: Adapter, folder: Path) -> Iterator[Running]:
    """Start the server of an adapter."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running(adapter.server, folder))
        except ServerMissing as missing:
            raise ConfigError(f"{adapter.title} needs a server: {missing}") from None
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"{adapter.server} does not start: {error}") from None
        yield server


def judge(plan: LockAuditPlan, adapter: Adapter, trial: LockTrial) -> LockAudit:
    """Judge what the programs have noted."""
    turns = trial.turns.all
    happened: list[Happened] = sorted(trial.happened, key=lambda each: each.begun)
    overlaps = find_overlaps(turns, adapter.lease)
    confirmed = as_asked(turns)
    fence, back = find_fence(turns)
    verdict = LockVerdict(
        target=plan.target,
        version=adapter.version,
        server=adapter.server,
        seed=plan.seed,
        rounds=plan.rounds,
        programs=plan.programs,
        lease=adapter.lease,
        holds=len(entered(turns)),
        faults=dict(sorted(Counter(each.name for each in happened).items())),
        exclusion=judge_exclusion(overlaps, happened),
        exclusion_asked=judge_exclusion(find_overlaps(confirmed, adapter.lease), happened)
        if confirmed
        else None,
        fence=fence,
        forgotten=tuple(trial.forgotten),
        service=measure_service(turns, trial.calm_until),
        left_behind=measure_left_behind(turns, trial.kills),
        told=measure_told(turns, overlaps),
        errors=count_errors(turns),
    )
    return LockAudit(verdict, trial, smallest_violation(overlaps, back))


def smallest_violation(
    overlaps: Iterable[Overlap], back: Iterable[tuple[Turn, Turn]]
) -> Violation | None:
    """Choose the one that takes the least time to tell, and an overlap before a token."""
    shared = [Violation("Two programs have the lock", each.first, each.second) for each in overlaps]
    tokens = [Violation("A token goes back", first, second) for first, second in back]
    return min(shared or tokens, key=lambda each: each.end - each.begin, default=None)
