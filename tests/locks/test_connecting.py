"""Which coordinator `connect` finds."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie import ConfigError, UsageError
from coterie.engines.file.directory.folder import default_folder
from coterie.engines.file.engine import make_engine


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)


def test_the_argument_then_the_environment_then_the_file_then_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert coterie.connect().url == "file:"
    Path("coterie.toml").write_text('url = "file:/from/toml"\n')
    assert coterie.connect().url == "file:/from/toml"
    monkeypatch.setenv("COTERIE_URL", "file:/from/environment")
    assert coterie.connect().url == "file:/from/environment"
    assert coterie.connect("file:/given").url == "file:/given"


def test_a_path_is_a_directory_of_locks_or_the_file_of_a_cluster(tmp_path: Path) -> None:
    odd = tmp_path / "50%41 locks"
    with coterie.sync.connect(odd) as c, c.lock("a"):
        assert odd.is_dir()
    assert coterie.connect(Path("locks")).url == f"file:{tmp_path / 'locks'}"
    with pytest.raises(ConfigError, match=r"shop\.toml"):
        coterie.connect(Path("shop.toml"))


def test_the_package_names_its_version() -> None:
    assert coterie.__version__ == importlib.metadata.version("coterie")
    assert {"__version__", "connect", "current_token", "sync"} <= set(dir(coterie))


@pytest.mark.parametrize("text", ["url = 7", "url = ", "\xff"])
def test_a_bad_configuration_is_refused(text: str) -> None:
    Path("coterie.toml").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=r"coterie\.toml"):
        coterie.connect()


def test_an_unknown_coordinator_is_refused_with_the_choices() -> None:
    with pytest.raises(UsageError, match=r"'carrier-pigeon'; choose from: .*file"):
        coterie.connect("carrier-pigeon://a")
    with pytest.raises(UsageError, match="URL"):
        coterie.connect("somewhere")
    with pytest.raises(UsageError, match="of this machine"):
        coterie.connect("file://elsewhere/path")


def test_directories_of_the_file_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_engine("file:/a/b").folder == Path("/a/b")
    assert make_engine("file:///a%20b").folder == Path("/a b")
    assert make_engine("file:here").folder == tmp_path / "here"
    monkeypatch.delenv("COTERIE_DIR", raising=False)
    assert default_folder() == "/var/tmp/coterie"  # noqa: S108 - for all users of the machine
    monkeypatch.setenv("COTERIE_DIR", "/chosen")
    assert make_engine("file:").folder == Path("/chosen")


def test_importing_coterie_imports_neither_asyncio_nor_numpy() -> None:
    program = (
        "import sys, coterie; sys.exit(bool({'asyncio', 'numpy', 'click'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_lock_of_this_machine_needs_neither_an_event_loop_nor_any_package(tmp_path: Path) -> None:
    program = (
        "import sys; from coterie.engines.file.directory.lock_file import LockDirectory;"
        " from coterie.engines.file.directory.folder import directory_at, folder_of;"
        f" words = LockDirectory(directory_at(folder_of('file:{tmp_path}/locks')), 'host:1');"
        " handle = words.try_acquire('a'); assert handle.token > 0; handle.release(); words.close();"
        " sys.exit(bool({'asyncio', 'click', 'msgspec', 'numpy', 'pathlib', 'threading'}"
        " & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-S", "-c", program],
            check=False,
            env={"PYTHONPATH": str(Path(coterie.__file__).parents[1])},
        ).returncode
        == 0
    )


def test_a_configuration_that_does_not_say_where_the_locks_are_is_refused(tmp_path: Path) -> None:
    """Else the lock would be one of this machine alone, though a file was written for a cluster."""
    (tmp_path / "coterie.toml").write_text('cluster = "orders"\n')
    with pytest.raises(ConfigError, match="neither nodes nor a url"):
        coterie.connect()
