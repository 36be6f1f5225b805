"""Ways to lock by files: ours, and those of other packages."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import coterie

Begin: TypeAlias = Callable[[], Callable[[], bool]]
# Takes the lock of that name in that folder until it is told to stop, and returns how often it did.
Peer: TypeAlias = Callable[[Path, str, Begin], int]


def coterie_sync(folder: Path, name: str, begin: Begin) -> int:
    entries = 0
    with coterie.sync.connect(f"file:{folder}/locks") as c:
        lock = c.lock(name)
        with lock:
            pass
        goes_on = begin()
        while goes_on():
            with lock:
                entries += 1
    return entries


def coterie_asyncio(folder: Path, name: str, begin: Begin) -> int:
    async def work() -> int:
        entries = 0
        async with coterie.connect(f"file:{folder}/locks") as c:
            lock = c.lock(name)
            async with lock:
                pass
            goes_on = begin()
            while goes_on():
                async with lock:
                    entries += 1
        return entries

    return asyncio.run(work())


def fasteners(folder: Path, name: str, begin: Begin) -> int:
    lock = importlib.import_module("fasteners").InterProcessLock(folder / f"{name}.fasteners")
    entries, goes_on = 0, begin()
    while goes_on():
        with lock:
            entries += 1
    return entries


def portalocker(folder: Path, name: str, begin: Begin) -> int:
    module = importlib.import_module("portalocker")
    path = folder / f"{name}.portalocker"
    entries, goes_on = 0, begin()
    while goes_on():
        with module.Lock(path, flags=module.LockFlags.EXCLUSIVE):
            entries += 1
    return entries


def filelock(folder: Path, name: str, begin: Begin) -> int:
    lock = importlib.import_module("filelock").FileLock(folder / f"{name}.filelock")
    entries, goes_on = 0, begin()
    while goes_on():
        with lock:
            entries += 1
    return entries


def filelock_asyncio(folder: Path, name: str, begin: Begin) -> int:
    async def work() -> int:
        lock = importlib.import_module("filelock").AsyncFileLock(folder / f"{name}.asyncfilelock")
        entries, goes_on = 0, begin()
        while goes_on():
            async with lock:
                entries += 1
        return entries

    return asyncio.run(work())


def warm_up() -> None:
    """Import what is imported when a wait lasts, so that forked processes do not do so as they run."""
    for module in ("locks.deadlocks.collection", "engines.file.engine", "engines.file.waits"):
        importlib.import_module(f"coterie.{module}")
    assert coterie.sync.connect is not None


PEERS: dict[str, Peer] = {
    "coterie.sync": coterie_sync,
    "coterie (asyncio)": coterie_asyncio,
    "fasteners": fasteners,
    "portalocker": portalocker,
    "filelock": filelock,
    "filelock asyncio": filelock_asyncio,
}


def present() -> list[str]:
    """List the peers whose packages are there."""
    found = []
    warm_up()
    for name in PEERS:
        package = "coterie" if name.startswith("coterie") else name.split()[0]
        try:
            importlib.import_module(package)
        except ImportError:
            print(f"{name} is left out: no package {package}")
            continue
        found.append(name)
    return found
