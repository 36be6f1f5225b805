"""The log of a site on disk: what was synced is there, what was torn is cut off, damage is told."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.runtime import durable, log_frames
from coterie.cluster.runtime.log_frames import framed, unframed
from coterie.cluster.store import log as store_log
from coterie.cluster.store.log import StoreLog
from coterie.errors import ConfigError

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def reopened(folder: Path) -> tuple[bytes, Sequence[bytes]]:
    log = StoreLog(folder)
    log.close()
    return log.load()


def let_opening(first: Callable[[Path], None], patch: pytest.MonkeyPatch) -> None:
    """Call this before a file of the log, or its folder, is opened."""
    open_file, sync = durable.open_private, durable.sync_folder

    def opening(path: Path, flags: int) -> int:
        first(path)
        return open_file(path, flags)

    def syncing(folder: Path) -> None:
        first(folder)
        sync(folder)

    for module in (durable, log_frames):
        patch.setattr(module, "open_private", opening)
    for module in (durable, store_log):
        patch.setattr(module, "sync_folder", syncing)


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first + 8, hard))
    taken = [first]
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_records_come_back_in_order(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    assert log.load() == (b"", [])
    log.append([b"one", b"two"])
    log.append([b"three"])
    log.close()
    assert reopened(tmp_path) == (b"", [b"one", b"two", b"three"])
    assert reopened(tmp_path) == (b"", [b"one", b"two", b"three"])


def test_a_snapshot_takes_the_place_of_all_before_it(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    log.append([b"one"])
    log.save(b"all")
    log.append([b"two"])
    log.close()
    assert reopened(tmp_path) == (b"all", [b"two"])
    assert len(list(tmp_path.glob("log.*"))) == 1


@pytest.mark.parametrize("kept", range(1, 15))
def test_a_torn_frame_is_cut_off_and_what_follows_is_kept(kept: int, tmp_path: Path) -> None:
    """However much of the last frame has reached the disk."""
    log = StoreLog(tmp_path)
    log.append([b"sound"])
    log.close()
    path = next(tmp_path.glob("log.*"))
    torn = framed(b"never promised")[:kept]
    path.write_bytes(path.read_bytes() + torn)
    log = StoreLog(tmp_path)
    assert log.load()[1] == [b"sound"]
    log.append([b"next"])
    log.close()
    assert reopened(tmp_path)[1] == [b"sound", b"next"]


def test_a_tail_of_zeros_is_cut_off(tmp_path: Path) -> None:
    """File systems may extend a file before they write its content."""
    log = StoreLog(tmp_path)
    log.append([b"sound"])
    log.close()
    path = next(tmp_path.glob("log.*"))
    path.write_bytes(path.read_bytes() + bytes(100))
    assert reopened(tmp_path)[1] == [b"sound"]


def test_damage_in_the_middle_is_told_and_not_repaired(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    log.append([b"one"])
    log.append([b"two"])
    log.close()
    path = next(tmp_path.glob("log.*"))
    content = bytearray(path.read_bytes())
    content[9] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged at byte 0"):
        StoreLog(tmp_path)
    assert path.read_bytes() == content


def test_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    log.save(b"all")
    log.close()
    (tmp_path / "snapshot").write_bytes(b"nonsense and more of it")
    with pytest.raises(ConfigError, match="snapshot is damaged"):
        StoreLog(tmp_path)


def test_a_snapshot_that_was_never_completed_changes_nothing(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    log.append([b"one"])
    log.close()
    (tmp_path / "log.1").write_bytes(b"")
    (tmp_path / "snapshot.new").write_bytes(b"half")
    assert reopened(tmp_path) == (b"", [b"one"])


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of descriptors")
def test_a_snapshot_is_put_on_disk_also_when_connections_have_taken_all_descriptors(
    tmp_path: Path,
) -> None:
    log = StoreLog(tmp_path)
    log.append([b"one"])
    with no_descriptors_left():
        log.save(b"all")
        log.append([b"two"])
        log.save(b"all of it")
    log.append([b"three"])
    log.close()
    assert reopened(tmp_path) == (b"all of it", [b"three"])


@pytest.mark.parametrize("failing", range(1, 5))
def test_a_snapshot_that_found_no_descriptor_is_put_on_disk_by_another_try(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the files that it opens is the one that cannot be had."""
    log = StoreLog(tmp_path)
    log.append([b"one"])
    opened = itertools.count(1)

    def fail(_: Path) -> None:
        if next(opened) == failing:
            raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        let_opening(fail, patch)
        with pytest.raises(OSError, match="too many"):
            log.save(b"all")
    log.save(b"all")
    log.append([b"two"])
    log.close()
    assert reopened(tmp_path) == (b"all", [b"two"])


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of file sizes")
def test_what_did_not_fit_on_the_disk_is_not_written_later(tmp_path: Path) -> None:
    """The frame was told as lost, or as unknown; a buffer would write the rest of it at the end."""
    log = StoreLog(tmp_path)
    log.append([b"one"])
    path = next(tmp_path.glob("log.*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append([b"two, which is longer than what is left"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    written = path.read_bytes()
    log.close()
    assert path.read_bytes() == written
    assert reopened(tmp_path)[1] == [b"one"]


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    log = StoreLog(tmp_path)
    with pytest.raises(ConfigError, match="another process"):
        StoreLog(tmp_path)
    log.close()
    reopened(tmp_path)


def test_a_directory_stays_with_the_sites_it_was_made_for(tmp_path: Path) -> None:
    """Another number or order of sites would look for its keys elsewhere."""
    for _ in range(2):
        log = StoreLog(tmp_path)
        log.belong_to(["a", "b"])
        log.close()
    for others in (["b", "a"], ["a", "b", "c"]):
        log = StoreLog(tmp_path)
        with pytest.raises(ConfigError, match="over the sites a, b, in this order"):
            log.belong_to(others)
        log.close()


def test_frames_end_where_they_are_unsound() -> None:
    content = framed(b"a") + framed(b"bb")
    assert unframed(content) == ([b"a", b"bb"], len(content))
    assert unframed(content[:-1]) == ([b"a"], 9)
    assert unframed(b"") == ([], 0)
