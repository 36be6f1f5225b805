"""What a start has read from its disk lasts: a process speaks of it, so no power loss takes it back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.store.log import StoreLog
from coterie.cluster.voter.storage import Storage
from coterie.lab.stack.world import World
from tests.lab.stack.echo import run_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.stack.world.machine import Process

SEEDS = range(24)
HISTORY: tuple[tuple[bytes, list[bytes]], ...] = (
    (b"", [b"first", b"second"]),
    (b"both", []),
    (b"both", [b"third"]),
)


def in_another_life(world: World, work: Callable[[Process], object]) -> Process:
    """Let a new process of the same machine do this, as its only turn."""

    async def main(process: Process) -> None:
        work(process)

    return run_alone(world, main)


def lose_power(world: World) -> None:
    machine = world.machines["m"]
    machine.power_off()
    machine.power_on()


def append(process: Process, record: bytes, *, then: Callable[[], None]) -> None:
    """Begin a log, sync a record, and append another one whose sync ends in some other way."""
    log = StoreLog(process.machine.disk.folder)
    log.append([b"first"])
    log.sync(lambda _: None)
    log.wait()
    then()
    log.append([record])
    log.sync(lambda _: None)
    log.wait()
    log.close()


def load(world: World) -> tuple[bytes, list[bytes]]:
    """Start on what is there, and return it; sync nothing more."""
    found: list[tuple[bytes, list[bytes]]] = []

    def read(process: Process) -> None:
        log = StoreLog(process.machine.disk.folder)
        value, records = log.load()
        found.append((value, list(records)))
        log.close()

    assert in_another_life(world, read).error is None
    return found[0]


@pytest.mark.parametrize("end", ["killed in the sync", "sync fails"])
def test_a_record_that_was_read_from_a_log_is_not_lost_with_the_power(end: str) -> None:
    """A decision that was not told, and found by the next start, is told by that one."""
    read = []
    for seed in SEEDS:
        with World(seed) as world:
            disk = world.machine("m").disk

            def write(process: Process) -> None:
                def fail() -> None:
                    if end == "sync fails":
                        process.machine.disk.is_full = True
                    else:
                        process.die_after_syncs(0)

                append(process, b"second", then=fail)

            in_another_life(world, write)
            disk.is_full = False
            before = load(world)
            lose_power(world)
            assert load(world) == before
            read.append(before[1])
    assert [b"first", b"second"] in read
    assert [b"first"] in read or end != "sync fails"


def test_what_follows_a_record_whose_sync_has_failed_lasts() -> None:
    """A later sync of the same file may leave out what the failed one should have written."""
    for seed in SEEDS:
        with World(seed) as world:
            disk = world.machine("m").disk

            def write(process: Process) -> None:
                def fail() -> None:
                    process.machine.disk.is_full = True

                append(process, b"second", then=fail)

            def go_on(process: Process) -> None:
                log = StoreLog(process.machine.disk.folder)
                log.append([b"third"])
                log.sync(lambda _: None)
                log.wait()
                log.close()

            in_another_life(world, write)
            disk.is_full = False
            _, before = load(world)
            in_another_life(world, go_on)
            lose_power(world)
            assert load(world)[1] == [*before, b"third"]


@pytest.mark.parametrize("syncs", range(5))
def test_a_snapshot_that_was_read_and_its_log_are_not_lost_with_the_power(syncs: int) -> None:
    """Whichever sync of the snapshot its process does not survive, nor the next start one of its own."""
    for seed in SEEDS:
        with World(seed) as world:
            world.machine("m")
            in_another_life(world, partial(replace_log, syncs))
            in_another_life(world, partial(begin_and_die, seed))
            world.machines["m"].power_on()
            before = load(world)
            lose_power(world)
            assert load(world) == before
            assert before in HISTORY


def replace_log(syncs: int, process: Process) -> None:
    """Die while a snapshot takes the place of a log, or soon after that."""
    append(process, b"second", then=lambda: None)
    log = StoreLog(process.machine.disk.folder)
    process.die_after_syncs(syncs)
    log.save(b"both")
    log.append([b"third"])
    log.sync(lambda _: None)
    log.wait()
    log.close()


def begin_and_die(seed: int, process: Process) -> None:
    process.die_after_syncs(seed % 3, with_power=seed % 2 == 0)
    StoreLog(process.machine.disk.folder).close()


@pytest.mark.parametrize("syncs", range(4))
def test_what_a_voter_reads_from_its_disk_is_not_lost_with_the_power(syncs: int) -> None:
    """A start that finds a bound hands tokens out up to it, and one that finds a number serves it."""
    read = set()
    for seed in SEEDS:
        with World(seed) as world:
            world.machine("m")
            in_another_life(world, partial(save_twice, syncs))
            before = load_voter(world)
            lose_power(world)
            assert load_voter(world) == before
            read.add(before[1])
    assert read <= {b"1", b"2"}


def save_twice(syncs: int, process: Process) -> None:
    """Save a value, and die after so many syncs of the next one."""
    storage = Storage(process.machine.disk.folder)
    storage.open()
    storage.save(b"1")
    process.die_after_syncs(syncs)
    storage.save(b"2")
    storage.close()


def load_voter(world: World) -> tuple[str, bytes]:
    """Start on what is there; return the identity of the disk and what was saved."""
    found: list[tuple[str, bytes]] = []

    def read(process: Process) -> None:
        storage = Storage(process.machine.disk.folder)
        storage.open()
        found.append((storage.identity, storage.load()[0]))
        storage.close()

    assert in_another_life(world, read).error is None
    return found[0]
