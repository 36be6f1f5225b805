"""What a node keeps on disk."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie import system
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.saved import Saved, read_saved
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.runtime.incarnation import count_start
from coterie.cluster.voter import storage as storage_module
from coterie.cluster.voter.storage import MEMORY_VERSION, Memory, Storage
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DECISION = Saved(17, founding(Settings(3))).encode()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = opened(tmp_path / "node")
    yield storage
    storage.close()


def opened(folder: Path) -> Storage:
    storage = Storage(folder)
    storage.open()
    return storage


def test_the_bound_is_read_back(storage: Storage) -> None:
    assert storage.load()[0] == b""
    storage.save(b"17")
    storage.save(b"18")
    assert storage.load()[0] == b"18"


def test_the_bound_is_synced_before_it_takes_the_name(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save(b"17")
    at_sync: list[bytes] = []

    def sync(_: int) -> None:
        at_sync.append(storage.load()[0])

    monkeypatch.setattr(os, "fsync", sync)
    storage.save(b"18")
    assert at_sync == [b"17", b"18"], "the file, then the directory"


def test_the_time_to_abstain_is_read_back_with_the_bound(storage: Storage) -> None:
    for saved in (Saved(17), Saved(17, abstention=22.5), Saved(18, abstention=3.5)):
        storage.save(saved.encode())
        assert read_saved(storage.load()[0]) == saved


def test_a_longer_time_to_abstain_is_on_disk_before_the_bound_of_the_votes_that_need_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save(Saved(17, abstention=3.5).encode())
    at_sync: list[Saved] = []

    def sync(_: int) -> None:
        at_sync.append(read_saved(storage.load()[0]))

    monkeypatch.setattr(os, "fsync", sync)
    longer = Saved(17, abstention=22.5)
    storage.save(Saved(18, abstention=22.5).encode())
    assert at_sync == [Saved(17, abstention=3.5), longer, longer, Saved(18, abstention=22.5)]


def test_a_time_to_abstain_that_is_damaged_is_not_guessed_at(
    storage: Storage, tmp_path: Path
) -> None:
    storage.save(Saved(17, abstention=22.5).encode())
    path = tmp_path / "node" / "abstention"
    path.write_bytes(path.read_bytes()[1:])
    with pytest.raises(ConfigError, match="abstention is damaged"):
        storage.load()


FULL_OF_FILES = """
import os, resource, sys
from pathlib import Path
from coterie.cluster.runtime.descriptors import raise_limit
from coterie.cluster.voter.storage import Storage
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 64))
raise_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (64, 64)
storage = Storage(Path(sys.argv[1]))
storage.open()
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for bound in (b"17", b"18"):
    storage.save(bound)
storage.remember("configuration", Voter(founding(Settings(3))), {})
os.close(taken.pop())
print(storage.load()[0].decode(), storage.recall("configuration") is not None)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of descriptors")
def test_the_bound_is_saved_also_when_connections_have_taken_all_descriptors(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", FULL_OF_FILES, str(tmp_path / "node")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["18", "True"], done.stderr


def test_a_save_that_fails_leaves_the_old_bound(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save(b"17")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        storage.save(b"18")
    assert storage.load()[0] == b"17"


def test_a_bound_that_lost_any_part_of_itself_is_not_guessed_at(
    storage: Storage, tmp_path: Path
) -> None:
    """Half a number would be a smaller one, and tokens would be given twice."""
    storage.save(b"1794740911203381")
    path = tmp_path / "node" / "bound"
    whole = path.read_bytes()
    torn = [whole[:end] for end in range(len(whole))]
    changed = [whole[:at] + b"\0" + whole[at + 1 :] for at in range(len(whole))]
    for content in (*torn, *changed, whole + whole, b"1794740911203381"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="is damaged"):
            storage.load()
    path.write_bytes(whole)
    assert storage.load()[0] == b"1794740911203381"


def test_two_processes_cannot_run_one_node(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another process runs a node"):
        opened(tmp_path / "node")
    storage.close()
    opened(tmp_path / "node").close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="file/node: Not a directory"):
        opened(tmp_path / "file" / "node")


def remember(storage: Storage) -> Voter:
    voter = Voter(founding(Settings(3)), clock=7)
    storage.remember("configuration", voter, {"identity": "label"})
    return voter


def test_a_memory_is_used_once(storage: Storage) -> None:
    voter = remember(storage)
    memory = storage.recall("configuration")
    assert memory is not None
    assert memory.voter == voter
    assert storage.recall("configuration") is None


@pytest.mark.parametrize("change", ["boot", "configuration", "torn"])
def test_a_memory_of_another_boot_or_configuration_or_a_torn_one_is_dropped(
    storage: Storage, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(storage)
    if change == "boot":
        monkeypatch.setattr(system, "boot", lambda: "another")
    if change == "torn":
        path = tmp_path / "node" / "memory"
        path.write_bytes(path.read_bytes()[:-3])
    assert storage.recall("other" if change == "configuration" else "configuration") is None
    assert not (tmp_path / "node" / "memory").exists()


def test_each_start_has_a_number_that_none_before_had(tmp_path: Path) -> None:
    assert [count_start(tmp_path) for _ in range(3)] == [0, 1, 2]
    (tmp_path / "incarnation").write_bytes(b"two")
    with pytest.raises(ConfigError, match="incarnation is damaged"):
        count_start(tmp_path)


def test_a_restart_in_another_time_namespace_does_not_trust_its_memory(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot is the same, and the clock shows another time."""
    namespace = tmp_path / "namespace"
    monkeypatch.setattr(system, "TIME_NAMESPACE", namespace)
    for before, after in (("time:[1]", "time:[1]"), ("time:[1]", "time:[2]")):
        namespace.symlink_to(before)
        remember(storage)
        namespace.unlink()
        namespace.symlink_to(after)
        assert (storage.recall("configuration") is not None) is (before == after)
        namespace.unlink()


def test_a_restart_in_a_time_namespace_with_a_number_used_again_does_not_trust_its_memory(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = tmp_path / "offsets"
    monkeypatch.setattr(system, "TIME_OFFSETS", offsets)
    offsets.write_text("monotonic 0 0\nboottime 0 0\n")
    remember(storage)
    offsets.write_text("monotonic 0 0\nboottime 86400 0\n")
    assert storage.recall("configuration") is None


def test_a_restart_whose_clock_shows_an_earlier_time_does_not_trust_its_memory(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(storage)
    now = system.now()
    monkeypatch.setattr(system, "now", lambda: now - 10.0)
    assert storage.recall("configuration") is None


def test_a_directory_has_an_identity_that_lasts(tmp_path: Path) -> None:
    identities = []
    for _ in range(2):
        storage = opened(tmp_path / "node")
        identities.append(storage.identity)
        assert not storage.is_old
        storage.close()
    assert identities[0] == identities[1] != ""


def test_a_directory_that_an_earlier_version_has_used_is_known_by_its_lock(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "lock").touch()  # it has given no vote, so it has saved nothing
    for _ in range(2):
        storage = opened(folder)
        assert storage.is_old, "also at its second start"
        storage.close()


@pytest.mark.parametrize("bound", [b"17", b""])
def test_what_was_decided_does_not_get_lost_without_the_identity(
    tmp_path: Path, bound: bytes
) -> None:
    folder = tmp_path / "node"
    storage = opened(folder)
    if bound:
        storage.save(bound)
    identity = storage.identity
    storage.save(DECISION)
    storage.close()
    again = opened(folder)
    assert (again.identity, again.load()[0]) == (identity, DECISION)
    again.close()
    (folder / "bound").unlink()
    lost = Storage(folder)
    with pytest.raises(ConfigError, match=r"bound is missing.*coterie cluster replace"):
        lost.open()
    lost.close()


def test_a_bound_alone_may_be_lost_with_a_disk_that_no_decision_names(tmp_path: Path) -> None:
    storage = opened(tmp_path / "node")
    storage.save(b"17")
    storage.close()
    (tmp_path / "node" / "bound").unlink()
    again = opened(tmp_path / "node")
    assert again.load()[0] == b""
    again.close()


def test_a_start_that_was_killed_before_it_had_an_identity_leaves_a_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is there, and no earlier version has used the directory."""
    folder = tmp_path / "node"

    def die(_: int) -> bytes:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(system, "secret", die)
        with pytest.raises(Unavailable):
            opened(folder)
    assert (folder / "lock").exists()
    again = opened(folder)
    assert not again.is_old
    again.close()


def test_an_identity_that_is_damaged_marks_a_directory_with_a_bound_as_an_old_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "node"
    storage = opened(folder)
    storage.save(b"17")
    storage.close()
    (folder / "identity").write_bytes(b"")
    again = opened(folder)
    assert again.is_old
    again.close()


def test_a_vouch_lasts_until_the_first_bound(tmp_path: Path) -> None:
    """Then the bound says more; if that is lost, nothing is left that vouches for the disk."""
    folder = tmp_path / "node"
    storage = opened(folder)
    assert not storage.is_vouched
    storage.vouch()
    storage.close()
    storage = opened(folder)
    assert storage.is_vouched
    storage.save(b"17")
    assert not storage.is_vouched
    storage.close()
    (folder / "bound").unlink()
    storage = opened(folder)
    assert not storage.is_vouched
    storage.close()


def test_a_vouch_whose_end_was_not_written_does_not_outlive_the_bound(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    storage = opened(folder)
    storage.vouch()
    before = (folder / "identity").read_bytes()
    storage.save(b"17")
    storage.close()
    (folder / "identity").write_bytes(before)  # the power was lost in between
    opened(folder).close()
    (folder / "bound").unlink()
    again = opened(folder)
    assert not again.is_vouched
    again.close()


def test_an_old_directory_that_is_vouched_for_stays_an_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "lock").touch()
    storage = opened(folder)
    storage.vouch()
    storage.close()
    again = opened(folder)
    assert again.is_old
    assert again.is_vouched
    again.close()


def test_a_memory_of_another_version_is_dropped(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fields may mean something else, though they have the same types."""
    monkeypatch.setattr(storage_module, "MEMORY_VERSION", MEMORY_VERSION + 1)
    remember(storage)
    monkeypatch.undo()
    assert storage.recall("configuration") is None


def test_a_memory_of_another_form_has_another_version() -> None:
    """Raise `MEMORY_VERSION` when a field of what a voter remembers comes, goes or changes its type."""
    _, components = msgspec.json.schema_components([Memory])
    forms = {
        name: (component.get("prefixItems"), component.get("required"))
        for name, component in sorted(components.items())
    }
    digest = hashlib.sha256(msgspec.json.encode(forms, order="sorted")).hexdigest()[:16]
    assert (MEMORY_VERSION, digest) == (3, "c7c21b42b60d6686")


def start_and_save(storage: Storage) -> None:
    storage.open()
    storage.save(b"17")


@pytest.mark.skipif(os.name != "posix", reason="files have other rights there")
@pytest.mark.parametrize("name", ["lock", "identity", "bound.new"])
def test_no_link_in_a_data_directory_leads_elsewhere(tmp_path: Path, name: str) -> None:
    """Where others may write the directory, they could have us overwrite any file of ours."""
    victim = tmp_path / "victim"
    folder = tmp_path / "node"
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(victim)
    storage = Storage(folder)
    try:
        with pytest.raises((Unavailable, OSError)):
            start_and_save(storage)
    finally:
        storage.close()
    assert not victim.exists()


@pytest.mark.skipif(os.name != "posix", reason="files have other rights there")
def test_a_directory_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "home").mkdir()
    opened(folder).close()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir() if path.is_file())
