"""What holds for all tests: signals as on a terminal, logs, no hurry, and which tests run alone."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# Tests with processes, sockets or clocks of their own; all others can run beside each other.
REAL = ("cli", "cluster", "engines", "locks", "sync")
REAL_FILES = (
    "test_accessible_browser.py",
    "test_alerts.py",
    "test_audit_stores.py",
    "test_change_page.py",
    "test_contrib.py",
    "test_contrib_tooz.py",
    "test_cluster_page.py",
    "test_dashboard_browser.py",
    "test_dashboard_churn.py",
    "test_deploy.py",
    "test_exercises_browser.py",
    "test_first_minute_browser.py",
    "test_lab_browser.py",
    "test_labels_browser.py",
    "test_mix_ups_page.py",
    "test_proof_browser.py",
    "test_trial_browser.py",
    "test_map_browser.py",
    "test_lock_audits.py",
    "test_lock_bench.py",
    "test_locks_page.py",
    "test_metrics_page.py",
    "test_witness.py",
    "test_store_bench.py",
    "test_store_crash.py",
    "test_store_durable.py",
    "test_postgresql_store.py",
    "test_public_names.py",
    "test_pytest_fixtures.py",
    "test_recipes.py",
    "test_what_hurts_elsewhere.py",
)
LINUX = ("lab", "stack")  # the disk of a simulated machine finds the names of open files in /proc

# Under `nohup` or in the background some signals are ignored, and by children, too.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        default = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


# A test of pure code may get little of a core, so it has no limit by the wall clock.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def is_real(path: Path) -> bool:
    """Return whether the tests of a file have processes, sockets or clocks of their own."""
    parts = path.relative_to(Path(__file__).parent).parts
    return parts[0] in REAL or parts[-1] in REAL_FILES


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read the files of which no test will run: that takes seconds for all of them."""
    parts = collection_path.relative_to(Path(__file__).parent).parts
    if sys.platform != "linux" and parts[:2] == LINUX:
        return True
    wanted = {"real": True, "not real": False}.get(config.option.markexpr)
    if wanted is None or collection_path.suffix != ".py" or is_real(collection_path) is wanted:
        return None
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run one after the other, those of a file all or none."""
    for item in items:
        if is_real(item.path):
            item.add_marker("real")
        elif item.get_closest_marker("real") is not None:
            raise pytest.UsageError(f"name {item.path.name} among REAL_FILES of tests/conftest.py")


@pytest.fixture(autouse=True, scope="session")
def _own_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep `file:` away from the directory that all users of the machine share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTERIE_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(autouse=True)
def _loaded() -> Iterator[None]:
    """Forget the algorithms that a command has loaded from files: a process has one command."""
    yield
    loader = sys.modules.get("coterie.catalogue.loader")
    if loader is not None:
        loader.loaded().clear()


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Take away the handlers that a command has set up: what they write to is closed by now."""
    logger = logging.getLogger("coterie")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Open one browser for all tests of a module: while it is open, no other test can run an event loop."""
    from tests.browser import open_browser  # noqa: PLC0415 - few tests need it

    with open_browser() as opened:
        yield opened
