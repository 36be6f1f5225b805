"""The log of a site on disk: what was synced is there, what was torn is cut off, damage is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.cluster.store.log import StoreLog, framed, unframed
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def reopened(folder: Path) -> tuple[bytes, Sequence[bytes]]:
    log = StoreLog(folder)
    log.close()
    return log.load()


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
