"""`coterie lock` where nothing is in the way: a free lock of this machine, without an event loop.

Whatever is unusual (other options, help, mistakes, a lock that is not free, a cluster) is left to the
full command before anything has been done.

A test reads thousands of command lines both ways, and another runs the same ones both ways.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.cli.common.forwarded import not_ignored
from coterie.cli.lock.options import JOB_OPTIONS, LOCK_OPTIONS, Option
from coterie.cli.lock.process_group import Group
from coterie.cli.lock.program import Job, environment, failure, read_program
from coterie.errors import CoterieError, UsageError
from coterie.locks.names import BYTES_MAX, check_name, permit_name
from coterie.locks.url import choose_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.engines.file.directory.lock_file import LockDirectory, LockHandle

WATCH_SECONDS = 0.25  # between two looks whether the lock is lost
FOREVER = float("inf")
TRIED_MAX = 1000  # permits of a semaphore, which are tried one after the other


class Request(NamedTuple):
    """What the arguments ask for."""

    wanted: tuple[tuple[str, ...], ...]  # the locks, for each the names of which one will do
    url: str | None
    shared: bool  # the first of them
    job: Job


def hold_at_once(arguments: Sequence[str]) -> int | None:
    """Do what `coterie lock` does with these arguments; None, with nothing done, if this is unusual."""
    request = read_arguments(arguments)
    if request is None or not _can_wait_for_signals():
        return None
    directory = _open(request.url)
    if directory is None:
        return None
    try:
        return _hold(directory, request)
    finally:
        directory.close()


# Arguments: the options of the full command, as far as they mean something to a lock that is free


ALL_OPTIONS = (*LOCK_OPTIONS, *JOB_OPTIONS)
UNUSUAL = ("node", "note", "read", "write")
BY_NAME = {name: option for option in ALL_OPTIONS for name in option.names}


def read_arguments(arguments: Sequence[str]) -> Request | None:
    """Read what stands behind `coterie lock`; None if the full command has to."""
    rest = list(arguments)
    try:
        options = _read_options(rest)
        if not rest or ("nonblock" in options and "wait" in options):
            return None
        if any(key in options for key in UNUSUAL):
            return None
        program = read_program(tuple(rest[1:]), options.get("shell"))
        wanted = _wanted(rest[0], options)
    except UsageError:
        return None
    if not program:  # it only holds
        return None
    job = Job(program, options["on_lost"], options["kill_after"])
    return Request(wanted, options.get("url"), options.get("shared", False), job)


def _read_options(rest: list[str]) -> dict[str, Any]:
    """Take the options off the front; raise `UsageError` if the full command has to read them."""
    options: dict[str, Any] = {
        option.key: option.kind(option.default)
        for option in ALL_OPTIONS
        if option.kind is not None and option.default is not None
    }
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name.startswith("--"):
            name, is_given, value = name.partition("=")
        else:  # -n, -ns, -w5 or -nw5
            while len(name) > 2 and _option(name[:2]).kind is None:
                options[_option(name[:2]).key] = True
                name = f"-{name[2:]}"
            name, is_given, value = name[:2], name[2:], name[2:]
        option = _option(name)
        if option.kind is None and not is_given:
            options[option.key] = True
            continue
        if option.kind is None:
            raise UsageError(name)
        if not is_given:
            if not rest or rest[0].startswith("-"):
                raise UsageError(name)
            value = rest.pop(0)
        if option.repeatable:
            options.setdefault(option.key, []).append(option.kind(value))
        else:
            options[option.key] = option.kind(value)
    return options


def _option(name: str) -> Option:
    if name not in BY_NAME:
        raise UsageError(name)
    return BY_NAME[name]


def _wanted(name: str, options: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Name the locks to be held, as `Coordinator.semaphore` and `lock_all` do."""
    permits, also = options.get("permits"), [check_name(each) for each in options.get("also", [])]
    if permits is None:
        first: tuple[str, ...] = (check_name(name),)
    else:
        if permits > TRIED_MAX or "shared" in options:
            raise UsageError("-k")
        name = check_name(name, BYTES_MAX - len(permit_name("", permits)))
        first = tuple(permit_name(name, number) for number in range(1, permits + 1))
    names = [*first, *also]
    if len(set(names)) < len(names):
        raise UsageError("--also")  # a name twice
    return (first, *((each,) for each in also))


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


def _open(url: str | None) -> LockDirectory | None:
    """Open the lock directory; None if that is not what the URL names, or if it is impossible."""
    try:
        url = choose_url(url)
        if scheme_of(url) != "file":
            return None
        from coterie.engines.file.directory.folder import (  # noqa: PLC0415 - not on Windows
            directory_at,
            folder_of,
        )
        from coterie.engines.file.directory.lock_file import LockDirectory, ReplacedError  # noqa: PLC0415 - as above

        pid = os.getpid()
        try:
            process = f"{os.uname().nodename}:{pid}"
            return LockDirectory(
                directory_at(folder_of(url)), process, f"{pid}-{os.urandom(4).hex()}"
            )
        except ReplacedError:
            return None
    except (CoterieError, OSError):
        return None


def _hold(directory: LockDirectory, request: Request) -> int | None:
    numbers = (*not_ignored(), signal.SIGCHLD, signal.SIGCONT)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        began = time.monotonic()
        handles = _acquire(directory, request)
        if handles is None:
            return None
        for remark in directory.remarks:
            _complain(remark)
        status = _run(directory, handles, request.job, time.monotonic() - began, numbers, mask)
        while _next_signal(numbers, 0.0) is not None:
            pass  # there is no program any more that it could be for
        return status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _acquire(directory: LockDirectory, request: Request) -> dict[str, LockHandle] | None:
    """Take all locks; None, with nothing held, if one of them is not free."""
    from coterie.engines.file.directory.lock_file import ReplacedError  # noqa: PLC0415 - not on Windows

    handles: dict[str, LockHandle] = {}
    try:
        for number, names in enumerate(request.wanted):
            shared = request.shared and not number
            for name in names:
                handle = directory.try_acquire(name, shared=shared, owner=1)
                if handle is not None:
                    handles[name] = handle
                    break
            else:
                break
        else:
            return handles
    except (ReplacedError, CoterieError, OSError):
        pass
    for handle in handles.values():
        handle.release()
    return None


def _run(  # noqa: PLR0917 - all of it is needed
    directory: LockDirectory,
    handles: dict[str, LockHandle],
    job: Job,
    waited: float,
    numbers: Sequence[int],
    mask: set[int],
) -> int:
    """Run the program, release, and return the exit status."""
    tokens = {name: handle.token or 0 for name, handle in handles.items()}
    lost, reason = "", ""
    try:
        lifelines = [each for handle in handles.values() for each in handle.lend()]
        group = Group(job.program, environment(tokens, waited), lifelines, mask)
    except OSError as error:
        _complain(f"{job.program[0]}: {error.strerror}")
        status = failure(error)
    else:
        status, lost, reason = _wait(group, directory, handles, job, numbers)
    # A loss that has not been noticed yet must not pass for a good release.
    unnoticed = not reason and not directory.in_place()
    for handle in reversed(handles.values()):
        handle.release()
    if not reason and not unnoticed:
        return status
    from coterie.locks.held import NOT_IN_FORCE, loss  # noqa: PLC0415 - with asyncio, and seldom needed

    if unnoticed:
        lost, reason = next(reversed(tokens)), NOT_IN_FORCE  # the first that was released
    error_of_loss = loss(lost, tokens[lost], reason)
    _complain(str(error_of_loss))
    return error_of_loss.exit_status


def _wait(
    group: Group,
    directory: LockDirectory,
    handles: Mapping[str, LockHandle],
    job: Job,
    numbers: Sequence[int],
) -> tuple[int, str, str]:
    """Wait for the end of the program; return its status and, if a lock was lost, which one and why."""
    lost, reason = "", ""
    due = time.monotonic() + WATCH_SECONDS
    group.go_on()
    while (status := group.reap()) is None:
        number = _next_signal(numbers, due)
        if number is None:
            if reason:  # and the time to end is over
                group.signal(signal.SIGKILL)
                due = FOREVER
                continue
            lost, reason = _look(directory, handles)
            due = _end(group, job) if reason else time.monotonic() + WATCH_SECONDS
        elif number == signal.SIGCONT:
            group.go_on()
        elif number != signal.SIGCHLD:
            group.signal(number)
    if reason and job.on_lost != "ignore":
        group.signal(signal.SIGKILL)  # what has outlived the program itself
    return status, lost, reason


def _look(directory: LockDirectory, handles: Mapping[str, LockHandle]) -> tuple[str, str]:
    """Look whether a lock is lost: return which one, and why; both are empty if none is.

    The order of an operator is obeyed as soon as the program has ended, and the board says so now.
    """
    if not directory.in_place():
        return next(iter(handles)), directory.loss
    for order in directory.orders():
        from coterie.engines.file.directory.orders import RefusedOrder  # noqa: PLC0415 - not on Windows
        from coterie.locks.breaker import BROKEN  # noqa: PLC0415 - with asyncio, and seldom needed

        if isinstance(order, RefusedOrder):
            _complain(f"an order of uid {order.user} to end the hold is refused")
        elif order.lock in handles and (handles[order.lock].token or 0) <= order.token:
            handles[order.lock].note_end()
            return order.lock, BROKEN
    return "", ""


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
