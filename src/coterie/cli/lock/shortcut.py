"""`coterie lock` where nothing is in the way: a free lock of this machine, without an event loop.

Whatever is unusual (other options, help, mistakes, a lock that is not free, a cluster) is left to the
full command before anything has been done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.cli.common.duration import duration
from coterie.cli.common.forwarded import not_ignored
from coterie.cli.lock.group import Group
from coterie.cli.lock.program import Job, environment, failure, read_program
from coterie.errors import CoterieError, UsageError
from coterie.locks.loss import NOT_IN_FORCE, loss
from coterie.locks.names import check_name
from coterie.locks.url import choose_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.engines.file.words import Seat, Words

WATCH_SECONDS = 0.25  # between two looks whether the lock is lost
FOREVER = float("inf")


class Request(NamedTuple):
    """What the arguments ask for."""

    name: str
    url: str | None
    shared: bool
    job: Job


def hold_at_once(arguments: Sequence[str]) -> int | None:
    """Do what `coterie lock` does with these arguments; None, with nothing done, if this is unusual."""
    request = read_arguments(arguments)
    if request is None or not _can_wait_for_signals():
        return None
    words = _open(request.url)
    if words is None:
        return None
    try:
        return _hold(words, request)
    finally:
        words.close()


# Arguments: a part of the options of the full command, written in the plainest way


def _status(text: str) -> int:
    if not text.isdecimal() or int(text) > 255:
        raise UsageError(text)
    return int(text)


def _on_lost(text: str) -> str:
    if text not in ("term", "kill", "ignore"):
        raise UsageError(text)
    return text


FLAGS = {"-n": "nonblock", "--nonblock": "nonblock", "-s": "shared", "--shared": "shared"}
VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "-w": ("wait", duration),
    "--wait": ("wait", duration),
    "-E": ("conflict", _status),
    "--conflict-exit-code": ("conflict", _status),
    "-c": ("shell", str),
    "--ttl": ("ttl", duration),
    "--url": ("url", str),
    "--on-lost": ("on_lost", _on_lost),
    "--kill-after": ("kill_after", duration),
}


def read_arguments(arguments: Sequence[str]) -> Request | None:
    """Read what stands behind `coterie lock`; None if the full command has to."""
    options: dict[str, Any] = {}
    rest = list(arguments)
    try:
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option in FLAGS:
                options[FLAGS[option]] = True
            elif option in VALUES and rest and not rest[0].startswith("-"):
                name, convert = VALUES[option]
                options[name] = convert(rest.pop(0))
            else:
                return None
        if not rest or ("nonblock" in options and "wait" in options):
            return None
        program = read_program(tuple(rest[1:]), options.get("shell"))
        name = check_name(rest[0])
    except UsageError:
        return None
    if not program:  # it only holds
        return None
    job = Job(program, options.get("on_lost", "term"), options.get("kill_after", 5.0))
    return Request(name, options.get("url"), options.get("shared", False), job)


# Signals wait in the kernel until they are asked for, so that none is missed and none interrupts


def _can_wait_for_signals() -> bool:
    """Return whether the system can, as macOS cannot, and whether it tells of the end of children."""
    return (
        hasattr(signal, "sigtimedwait") and signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN
    )


def _next_signal(numbers: Sequence[int], until: float) -> int | None:
    """Wait for a signal until then, by the monotonic clock; None if there was none."""
    if until == FOREVER:
        return signal.sigwaitinfo(numbers).si_signo
    received = signal.sigtimedwait(numbers, max(0.0, until - time.monotonic()))
    return None if received is None else received.si_signo


# The lock and the program


def _open(url: str | None) -> Words | None:
    """Open the lock directory; None if that is not what the URL names, or if it is impossible."""
    try:
        url = choose_url(url)
        if scheme_of(url) != "file":
            return None
        from coterie.engines.file.directory import (  # noqa: PLC0415 - not on Windows
            directory_at,
            folder_of,
        )
        from coterie.engines.file.words import ReplacedError, Words  # noqa: PLC0415 - as above

        pid = os.getpid()
        try:
            process = f"{os.uname().nodename}:{pid}"
            return Words(directory_at(folder_of(url)), process, f"{pid}-{os.urandom(4).hex()}")
        except ReplacedError:
            return None
    except (CoterieError, OSError):
        return None


def _hold(words: Words, request: Request) -> int | None:
    numbers = (*not_ignored(), signal.SIGCHLD, signal.SIGCONT)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        began = time.monotonic()
        seat = _acquire(words, request)
        if seat is None:
            return None
        status = _run(seat, request, time.monotonic() - began, numbers, mask)
        while _next_signal(numbers, 0.0) is not None:
            pass  # there is no program any more that it could be for
        return status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _acquire(words: Words, request: Request) -> Seat | None:
    from coterie.engines.file.words import ReplacedError  # noqa: PLC0415 - not on Windows

    try:
        return words.try_acquire(request.name, shared=request.shared, owner=1)
    except (ReplacedError, CoterieError, OSError):
        return None


def _run(
    seat: Seat, request: Request, waited: float, numbers: Sequence[int], mask: set[int]
) -> int:
    """Run the program, release, and return the exit status."""
    token = seat.token
    assert token is not None, "the lock is held"
    reason = ""
    try:
        surroundings = environment({request.name: token}, waited)
        group = Group(request.job.program, surroundings, seat.lend(), mask)
    except OSError as error:
        _complain(f"{request.job.program[0]}: {error.strerror}")
        status = failure(error)
    else:
        status, reason = _wait(group, seat.words, request.job, numbers)
    # A loss that has not been noticed yet must not pass for a good release.
    if not reason and not seat.words.in_place():
        reason = NOT_IN_FORCE
    seat.release()
    if reason:
        lost = loss(request.name, token, reason)
        _complain(str(lost))
        return lost.exit_status
    return status


def _wait(group: Group, words: Words, job: Job, numbers: Sequence[int]) -> tuple[int, str]:
    """Wait for the end of the program; return its status and, if the lock was lost, the reason."""
    reason = ""
    due = time.monotonic() + WATCH_SECONDS
    group.go_on()
    while (status := group.reap()) is None:
        number = _next_signal(numbers, due)
        if number is None:
            if reason:  # and the time to end is over
                group.signal(signal.SIGKILL)
                due = FOREVER
            elif words.in_place():
                due = time.monotonic() + WATCH_SECONDS
            else:
                reason = words.loss
                due = _end(group, job)
        elif number == signal.SIGCONT:
            group.go_on()
        elif number != signal.SIGCHLD:
            group.signal(number)
    if reason and job.on_lost != "ignore":
        group.signal(signal.SIGKILL)  # what has outlived the program itself
    return status, reason


def _end(group: Group, job: Job) -> float:
    """Have the program end since the lock is lost; return when it has to be killed."""
    if job.on_lost == "ignore":
        return FOREVER
    if job.on_lost == "kill":
        group.signal(signal.SIGKILL)
    group.ask_to_end()
    return time.monotonic() + job.kill_after


def _complain(text: str) -> None:
    sys.stderr.write(f"coterie: {text}\n")
