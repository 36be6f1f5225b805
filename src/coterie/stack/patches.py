"""The few places where the product meets the machine it runs on, and what stands there in a world.

Each function asks which simulated process runs now. Where none does, it is the real one: a world
changes nothing for the rest of the interpreter.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import random
import secrets
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from coterie.cluster.runtime import clock
from coterie.stack.machine import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_real_gettime, _real_monotonic = time.clock_gettime, time.monotonic
_real_time, _real_time_ns = time.time, time.time_ns
_real_fsync, _real_close, _real_getpid = os.fsync, os.close, os.getpid
_real_flock, _real_gethostname = fcntl.flock, socket.gethostname
_real_bytes, _real_hex = secrets.token_bytes, secrets.token_hex
_real_boot_id = clock.BOOT_ID


def _clock_gettime(which: int) -> float:
    process = current()
    if process is None or which != time.CLOCK_BOOTTIME:
        return _real_gettime(which)
    return process.machine.boottime(process.read())


def _monotonic() -> float:
    process = current()
    return _real_monotonic() if process is None else process.machine.monotonic(process.read())


def _time() -> float:
    process = current()
    return _real_time() if process is None else process.machine.wall(process.read())


def _time_ns() -> int:
    process = current()
    return _real_time_ns() if process is None else int(_time() * 1e9)


def _fsync(descriptor: Any) -> None:
    process = current()
    if process is None:
        _real_fsync(descriptor)
    else:
        process.machine.disk.sync(process, descriptor)


def _close(descriptor: int) -> None:
    process = current()
    if process is not None:
        if descriptor in process.closed_descriptors:
            return  # with its process; the number may be another file's by now
        process.descriptors.discard(descriptor)
    _real_close(descriptor)


def _flock(descriptor: Any, operation: int) -> None:
    process = current()
    if process is None:
        _real_flock(descriptor, operation)
    else:
        process.machine.disk.lock(process, descriptor)


def _getpid() -> int:
    process = current()
    return _real_getpid() if process is None else process.pid


def _gethostname() -> str:
    process = current()
    return _real_gethostname() if process is None else process.machine.name


def _token_bytes(count: int | None = None) -> bytes:
    process = current()
    return _real_bytes(count) if process is None else process.random.randbytes(count or 32)


def _token_hex(count: int | None = None) -> str:
    process = current()
    return _real_hex(count) if process is None else process.random.randbytes(count or 32).hex()


def _drawn(name: str) -> Callable[..., Any]:
    """Draw from the generator of the process that runs, by the method of that name."""
    real = getattr(random, name)

    def draw(*arguments: Any, **options: Any) -> Any:
        process = current()
        draws = real if process is None else getattr(process.random, name)
        return draws(*arguments, **options)

    return draw


class _BootId:
    """What stands in the place of the file that names the run of the machine."""

    def read_text(self, encoding: str) -> str:
        process = current()
        return _real_boot_id.read_text(encoding) if process is None else process.machine.boot_id


class _NoFile:
    """What stands in the place of files about time namespaces, which simulated machines lack."""

    def readlink(self) -> str:
        raise FileNotFoundError

    def read_text(self, encoding: str) -> str:
        raise FileNotFoundError


_PLACES: list[tuple[Any, str, Any]] = [
    (time, "clock_gettime", _clock_gettime),
    (time, "monotonic", _monotonic),
    (time, "time", _time),
    (time, "time_ns", _time_ns),
    (os, "fsync", _fsync),
    (os, "close", _close),
    (os, "getpid", _getpid),
    (fcntl, "flock", _flock),
    (socket, "gethostname", _gethostname),
    (secrets, "token_bytes", _token_bytes),
    (secrets, "token_hex", _token_hex),
    (clock, "BOOT_ID", _BootId()),
    (clock, "TIME_NAMESPACE", _NoFile()),
    (clock, "TIME_OFFSETS", _NoFile()),
    *((random, name, _drawn(name)) for name in ("random", "uniform", "randint", "shuffle")),
]


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Let simulated processes see simulated clocks, randomness, identities and disks."""
    logger = logging.getLogger("coterie")
    level = logger.level
    before = [(place, name, getattr(place, name)) for place, name, _ in _PLACES]
    bound = [  # `from time import monotonic`
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("coterie.") and getattr(module, "monotonic", None) is _real_monotonic
    ]
    try:
        logger.setLevel(logging.CRITICAL + 1)
        for place, name, ours in _PLACES:
            setattr(place, name, ours)
        for module in bound:
            vars(module)["monotonic"] = _monotonic
        yield
    finally:
        logger.setLevel(level)
        for place, name, real in before:
            setattr(place, name, real)
        for module in bound:
            vars(module)["monotonic"] = _real_monotonic
