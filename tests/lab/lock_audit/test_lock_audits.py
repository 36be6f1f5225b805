"""Audits of locks that are right, and of locks that are broken in one way each."""

from __future__ import annotations

import asyncio
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from coterie.errors import ConfigError, UsageError
from coterie.lab.lock_audit.adapter import KNOWN, load_adapter
from coterie.lab.lock_audit.audit import audit_lock
from coterie.lab.lock_audit.trial import LockAuditPlan
from coterie.lab.servers.catalogue import SERVERS
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.valkey import ValkeySupplier
from tests.engines.conformance.suppliers import leave_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from coterie.lab.lock_audit.audit import LockAudit

pytestmark = [pytest.mark.real, pytest.mark.slow]

CORRECT = """
    import fcntl, pathlib, time

    class Flock:
        def __init__(self, place, name):
            self.folder = pathlib.Path(place.folder)
            self.file = (self.folder / name).open("a+")
            self.calls = 0

        def acquire(self):
            self.calls += 1
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.file.seek(0)
            self.token = len(self.file.read()) + 1
            self.file.write(".")
            self.file.flush()
            return True

        def release(self):
            fcntl.flock(self.file, fcntl.LOCK_UN)

    lock = Flock
"""
TWO_HOLDERS = CORRECT.replace("fcntl.flock(self.file, fcntl.LOCK_EX)", "pass")
TOKENS_BACK = CORRECT.replace("len(self.file.read()) + 1", "1000 - len(self.file.read())")
# The first program that comes for the third time is never served; the others are.
FORGETS = CORRECT.replace(
    "self.calls += 1",
    """self.calls += 1
            if self.calls == 3 and not (self.folder / "forgotten").exists():
                (self.folder / "forgotten").touch()
                time.sleep(3600)""",
)


def run(coroutine: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await coroutine()

    asyncio.run(main())


def audited(target: str, *faults: str, rounds: int = 1, patience: float = 20.0) -> LockAudit:
    plan = LockAuditPlan(target, rounds, 0, 3, faults, 0.2, patience)
    return audit_lock(plan, lambda _: None, run)


def adapter(folder: Path, text: str) -> str:
    path = folder / "mylock.py"
    path.write_text(dedent(text), encoding="utf-8")
    return str(path)


def test_a_correct_lock_passes(tmp_path: Path) -> None:
    verdict, _, smallest = audited(adapter(tmp_path, CORRECT), "kill", "suspend", rounds=2)
    assert verdict.is_kept
    assert verdict.fence.is_given
    assert verdict.faults == {"kill": 1, "suspend": 1}
    assert smallest is None


def test_two_holders_are_found(tmp_path: Path) -> None:
    verdict, _, smallest = audited(adapter(tmp_path, TWO_HOLDERS), "kill")
    assert verdict.exclusion.overlaps
    assert not verdict.is_kept
    assert smallest is not None
    assert smallest.first.place != smallest.second.place


def test_tokens_that_go_back_are_found(tmp_path: Path) -> None:
    verdict, _, smallest = audited(adapter(tmp_path, TOKENS_BACK), "kill")
    assert verdict.exclusion.overlaps == 0
    assert verdict.fence.back
    assert smallest is not None
    assert smallest.title == "A token goes back"


def test_a_forgotten_waiter_is_found(tmp_path: Path) -> None:
    verdict, _, _ = audited(adapter(tmp_path, FORGETS), "suspend", rounds=2, patience=2.0)
    assert not verdict.is_kept
    assert verdict.exclusion.overlaps == 0
    assert verdict.forgotten
    assert all(each.endswith("after suspend") for each in verdict.forgotten)


def test_our_lock_files_may_be_removed() -> None:
    verdict, _, _ = audited("file", "remove", "kill", rounds=2)
    assert verdict.is_kept, verdict
    assert verdict.faults == {"kill": 1, "remove": 1}


def test_a_lock_on_a_server_is_tried_through_proxies(tmp_path: Path) -> None:
    try:
        ValkeySupplier(tmp_path / "server")
    except ServerMissing as missing:
        leave_out(missing)
    verdict, _, _ = audited("valkey", "restart-empty")
    assert verdict.is_kept, verdict
    assert verdict.fence.is_given
    peer = audited("redis-py", "reset").verdict
    assert not peer.fence.is_given
    assert peer.exclusion_asked is not None
    assert not peer.forgotten


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "has no function lock"),
        ("import no_such_module_here", "ModuleNotFoundError"),
        ("SERVER = 'mainframe'\ndef lock(place, name): ...", "SERVER must be one of"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        audited(adapter(tmp_path, text))


def test_a_cluster_is_tried_through_proxies_before_each_node() -> None:
    verdict, _, _ = audited("coterie", "sever")
    assert verdict.is_kept, verdict
    assert verdict.server == "coterie"


@pytest.mark.parametrize("target", KNOWN)
def test_each_target_names_its_server_and_version_or_what_to_install(target: str) -> None:
    try:
        adapter = load_adapter(target)
    except ConfigError as error:
        said = str(error)
    else:
        said = adapter.version
        assert adapter.server in ("", *SERVERS)
    assert "is not installed: pip install" in said or said.split()[1][0].isdigit()


def test_targets_are_names_or_files() -> None:
    with pytest.raises(UsageError, match="expected one of redis-py"):
        load_adapter("zeppelin")
