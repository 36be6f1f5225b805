"""A lock directory of the version before, in which tickets stood in a folder `queues`."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.file.directory import legacy
from coterie.errors import ConfigError
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESERVED = 1794740911204405


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Make what programs of the earlier version leave behind."""
    folder = tmp_path / "locks"
    bucket = folder / "queues" / "ca"
    bucket.mkdir(parents=True)
    (folder / "waits").mkdir()
    (folder / "counter").write_text(f"{RESERVED - 1000:020d} {RESERVED:020d} {'boot':<40}\n")
    (folder / "reserve").write_text(f"{RESERVED}\n")
    (bucket / "978112ca1bbdcafac231b39a23dc-7.x").write_text('{"owner": "host:1", "since": 0.0}')
    os.mkfifo(bucket / "978112ca1bbdcafac231b39a23dc-7.pipe")
    return folder


@pytest.fixture
def held(earlier: Path) -> Iterator[int]:
    """Hold a lock as a program of the earlier version does."""
    ticket = os.open(next((earlier / "queues" / "ca").glob("*.x")), os.O_RDWR)
    fcntl.flock(ticket, fcntl.LOCK_EX)
    yield ticket
    os.close(ticket)


def test_it_is_taken_over_and_tokens_go_on(earlier: Path) -> None:
    with coterie.sync.connect(f"file:{earlier}") as c, c.lock("a") as first:
        assert first.token > RESERVED
        assert "update coterie" in (earlier / "queues").read_text()
    assert sorted(path.name for path in earlier.iterdir()) == [
        "boards",
        "counter",
        "lines",
        "queues",
        "reserve",
        "waits",
        "words",
    ]


@pytest.mark.usefixtures("held")
def test_it_is_refused_while_a_program_of_the_earlier_version_uses_it(earlier: Path) -> None:
    with pytest.raises(ConfigError, match="in use by programs of an earlier version"):
        asyncio.run(coterie.connect(f"file:{earlier}").open())
    assert (earlier / "queues" / "ca").is_dir(), "nothing is changed"
    assert not (earlier / "words").exists()


def test_it_is_taken_over_when_that_program_has_ended(earlier: Path, held: int) -> None:
    with pytest.raises(ConfigError):
        asyncio.run(coterie.connect(f"file:{earlier}").open())
    fcntl.flock(held, fcntl.LOCK_UN)
    with coterie.sync.connect(f"file:{earlier}") as c, c.lock("a"):
        pass


def test_a_program_that_joins_just_now_is_waited_for(earlier: Path, held: int) -> None:
    """It is at the gate, and leaves its ticket there."""
    fcntl.flock(held, fcntl.LOCK_UN)
    gate = os.open(earlier / "counter", os.O_RDWR)
    fcntl.flock(gate, fcntl.LOCK_EX)
    failures: list[Exception] = []

    def take_over() -> None:
        try:
            asyncio.run(coterie.connect(f"file:{earlier}").open())
        except ConfigError as error:
            failures.append(error)

    thread = threading.Thread(target=take_over)
    thread.start()
    fcntl.flock(held, fcntl.LOCK_EX)
    fcntl.flock(gate, fcntl.LOCK_UN)
    thread.join(30)
    os.close(gate)
    assert "in use" in str(failures[0])


def test_a_program_that_is_stopped_at_the_gate_is_said(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy, "GATE_SECONDS_MAX", 0.01)
    gate = os.open(earlier / "counter", os.O_RDWR)
    fcntl.flock(gate, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="stopped there"):
        asyncio.run(coterie.connect(f"file:{earlier}").open())
    os.close(gate)


@in_loop
async def test_a_new_directory_bars_programs_of_the_earlier_version(tmp_path: Path) -> None:
    """They make a folder `queues` where there is none, and fail where it is a file."""
    async with coterie.connect(f"file:{tmp_path}/locks"):
        with pytest.raises(FileExistsError):
            (tmp_path / "locks" / "queues").mkdir()
        with pytest.raises(NotADirectoryError):
            (tmp_path / "locks" / "queues" / "ca").mkdir()
