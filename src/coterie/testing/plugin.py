"""Fixtures for pytest, which finds them by itself where coterie is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.locks.url import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.testing.clock import WallClock
    from coterie.testing.cluster import LocalCluster


@pytest.fixture
def coterie_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Locks of this test alone: the URL of a new lock directory, to which `connect()` goes as well."""
    url = url_of(tmp_path / "coterie-locks")
    monkeypatch.setenv("COTERIE_URL", url)
    return url


@pytest.fixture
def coterie_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Three voting nodes of this test alone; `stop` and `start` them, connect to `url` or by `connect()`."""
    from coterie.testing.cluster import LocalCluster  # noqa: PLC0415 - most tests need no cluster

    with LocalCluster() as cluster:
        monkeypatch.setenv("COTERIE_URL", cluster.url)
        yield cluster


@pytest.fixture
def coterie_clock() -> Iterator[WallClock]:
    """The time of day as coterie reads it, standing still at the present; `set` and `move` it."""
    from coterie.testing.clock import WallClock  # noqa: PLC0415 - most tests need none

    with WallClock() as clock:
        yield clock
