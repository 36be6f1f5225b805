"""Engines of installed packages, by the scheme of a URL; and a program without a loop of asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cli import run
from coterie.locks.url import SCHEMES, installed_engines, scheme_of
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENGINE = """
from tests.locks.memory import MemoryEngine

def make_engine(url):
    assert url.startswith("installed:"), url
    return MemoryEngine()
"""


@pytest.fixture(autouse=True)
def _packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that offers engines: one that works, a broken one, and one under our name."""
    (tmp_path / "installed_engine.py").write_text(ENGINE)
    about = tmp_path / "installed_engine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-engine\nVersion: 1\n")
    points = ["installed = installed_engine", "broken = installed_engine:Nope"]
    points += ["file = installed_engine"]
    (about / "entry_points.txt").write_text("\n".join(["[coterie.engines]", *points]))
    monkeypatch.syspath_prepend(tmp_path)
    installed_engines.cache_clear()
    yield
    installed_engines.cache_clear()


@in_loop
async def test_a_package_offers_an_engine_for_its_scheme() -> None:
    async with coterie.connect("installed://somewhere") as c, c.lock("a") as held:
        assert held.valid
        assert await c.locked("a")


def test_none_takes_the_place_of_ours(tmp_path: Path) -> None:
    with coterie.sync.connect(f"file:{tmp_path}/locks") as c, c.lock("a"):
        assert (tmp_path / "locks" / "words").exists()


def test_one_that_cannot_be_used_is_named() -> None:
    with pytest.raises(coterie.ConfigError, match=r"installed_engine:Nope, which is installed for"):
        coterie.connect("broken:x")
    with pytest.raises(coterie.UsageError, match=r"choose from: .*broken.*coterie.*installed"):
        scheme_of("unknown:x")
    assert scheme_of("file:") in SCHEMES


@pytest.mark.parametrize("command", ["status locks", "break a --yes"])
def test_what_an_engine_cannot_show_or_end_is_said(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "--url", "installed://somewhere"]) == 64
    assert "the engine of installed: URLs" in capsys.readouterr().err


def test_a_program_without_a_loop_of_asyncio_is_told(tmp_path: Path) -> None:
    """As under trio, which runs coroutines itself."""
    opening = coterie.connect(f"file:{tmp_path}").open()
    with pytest.raises(coterie.MisuseError, match=r"no event loop of asyncio .*trio\.to_thread"):
        opening.send(None)
