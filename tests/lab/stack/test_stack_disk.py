"""The simulated disk: what was synced lasts, of the rest any part may be gone."""

from __future__ import annotations

import errno
import os
from typing import IO, TYPE_CHECKING

import pytest

from coterie import system
from coterie.cluster.runtime.durable import FolderLock, replace
from coterie.errors import ConfigError
from coterie.lab.stack.world import World
from tests.lab.stack.echo import run_alone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie.lab.stack.world.machine import Process


def after_power_loss(seed: int, write: Callable[[Path], None]) -> dict[str, bytes]:
    """Let a process write, cut the power, and read what is left."""
    with World(seed) as world:

        async def main(process: Process) -> None:
            write(process.machine.disk.folder)

        run_alone(world, main)
        machine = world.machines["m"]
        machine.power_off()
        machine.power_on()
        folder = machine.disk.folder
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_what_was_replaced_and_synced_lasts() -> None:
    for seed in range(10):
        left = after_power_loss(seed, lambda folder: replace(folder / "bound", b"12345"))
        assert left == {"bound": b"12345"}


def test_of_what_was_not_synced_any_part_may_be_gone() -> None:
    def write(folder: Path) -> None:
        with (folder / "log").open("wb") as file:
            file.write(b"synced")
            file.flush()
            system.sync(file.fileno())
            descriptor = os.open(folder, os.O_RDONLY)
            system.sync(descriptor)
            os.close(descriptor)
            file.write(b" and not")

    sizes = {len(after_power_loss(seed, write)["log"]) for seed in range(60)}
    assert min(sizes) == len(b"synced")
    assert max(sizes) == len(b"synced and not")
    assert len(sizes) > 3


def test_a_name_whose_folder_was_not_synced_is_the_old_or_the_new_one() -> None:
    def write(folder: Path) -> None:
        replace(folder / "bound", b"old")
        new = folder / "new"
        with new.open("wb") as file:
            file.write(b"new")
            file.flush()
            system.sync(file.fileno())
        new.replace(folder / "bound")

    found = {after_power_loss(seed, write)["bound"] for seed in range(40)}
    assert found == {b"old", b"new"}


def test_a_full_disk_fails_at_the_sync() -> None:
    with World(1) as world:
        world.machine("m").disk.is_full = True

        async def main(process: Process) -> None:
            with pytest.raises(OSError, match="No space left") as caught:
                replace(process.machine.disk.folder / "bound", b"1")
            assert caught.value.errno == errno.ENOSPC

        assert run_alone(world, main).error is None


def test_what_a_failed_sync_did_not_write_is_gone_in_part_and_a_later_sync_does_not_bring_it_back() -> (
    None
):
    sizes = set()
    for seed in range(40):
        with World(seed) as world:
            disk = world.machine("m").disk

            async def main(process: Process) -> None:
                with (process.machine.disk.folder / "log").open("ab") as file:
                    append(file, b"synced")
                    process.machine.disk.is_full = True
                    with pytest.raises(OSError, match="No space left"):
                        append(file, b" and not")
                    process.machine.disk.is_full = False
                    append(file, b"!")

            assert run_alone(world, main).error is None
            left = (disk.folder / "log").read_bytes()
            assert left.startswith(b"synced")
            assert left.endswith(b"!")
            sizes.add(len(left))
    assert min(sizes) == len(b"synced!")
    assert len(sizes) > 3


def test_what_can_be_read_after_a_failed_sync_is_lost_with_the_power_and_so_is_what_follows() -> (
    None
):
    def write(folder: Path) -> None:
        replace(folder / "log", b"synced")
        disk.is_full = True
        with (folder / "log").open("ab") as file:
            with pytest.raises(OSError, match="No space left"):
                append(file, b" and not")
            disk.is_full = False
            append(file, b"!")
        read.append((folder / "log").read_bytes())

    lost = 0
    for seed in range(40):
        read: list[bytes] = []
        with World(seed) as world:
            disk = world.machine("m").disk

            async def main(process: Process) -> None:
                write(process.machine.disk.folder)

            assert run_alone(world, main).error is None
            disk.lose_power()
            left = (disk.folder / "log").read_bytes()
            assert left.startswith(b"synced")
            assert read[0].startswith(left)
            lost += left != read[0]
    assert 0 < lost < 40


def append(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    system.sync(file.fileno())


def test_a_new_disk_is_empty_and_takes_files() -> None:
    with World(1) as world:
        disk = world.machine("m").disk

        async def main(_: Process) -> None:
            replace(disk.folder / "bound", b"1")
            disk.wipe()
            assert not list(disk.folder.iterdir())
            replace(disk.folder / "bound", b"2")

        assert run_alone(world, main).error is None
        disk.lose_power()
        assert (disk.folder / "bound").read_bytes() == b"2"


def test_a_slow_disk_takes_the_time_of_its_process() -> None:
    with World(1) as world:
        world.machine("m").disk.sync_seconds = 1.0
        took = []

        async def main(process: Process) -> None:
            before = process.true_now()
            replace(process.machine.disk.folder / "bound", b"1")
            took.append(process.true_now() - before)

        run_alone(world, main)
        assert 2 <= took[0] <= 4


@pytest.mark.parametrize("seed", range(8))
def test_a_process_killed_while_it_syncs_leaves_the_old_or_the_new_and_does_no_more(
    seed: int,
) -> None:
    with World(seed) as world:
        went_on = []

        async def main(process: Process) -> None:
            path = process.machine.disk.folder / "bound"
            replace(path, b"old")
            process.die_after_syncs(seed % 2)
            replace(path, b"new")
            went_on.append(path.read_bytes())
            replace(path, b"ghost")

        process = run_alone(world, main)
        assert not process.is_alive
        bound = world.machines["m"].disk.folder / "bound"
        # Before the name changes it is the old one; the second sync comes after that.
        assert bound.read_bytes() == (b"new" if seed % 2 else b"old")
        assert went_on, "the rest of the turn runs out, without effect"


def test_a_folder_is_locked_by_one_process_and_free_when_that_is_killed() -> None:
    with World(1) as world:
        refused = []

        async def main(process: Process) -> None:
            lock = FolderLock(process.machine.disk.folder / "data", "node")
            try:
                lock.take()
            except ConfigError as error:
                refused.append(str(error))
                return
            await process.loop.create_future()

        world.machine("m")
        first = world.start("m", "first", 1, main)
        world.run(1)
        world.start("m", "second", 1, main)
        world.run(2)
        assert len(refused) == 1
        first.die()
        third = world.start("m", "third", 1, main)
        world.run(3)
        assert third.is_alive
        assert len(refused) == 1
