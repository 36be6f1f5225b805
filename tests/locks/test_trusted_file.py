"""Whose `coterie.toml` of the current directory is believed."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.cluster.membership.config import load
from coterie.errors import ConfigError
from coterie.locks.url import choose_url

if TYPE_CHECKING:
    from pathlib import Path

ANN = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    monkeypatch.delenv("COTERIE_CONFIG", raising=False)
    path = tmp_path / "coterie.toml"
    path.write_text(f'url = "file:{tmp_path}/elsewhere"\n')
    path.chmod(0o644)
    return path


def test_ones_own_is(written: Path) -> None:
    assert choose_url() == f"file:{written.parent}/elsewhere"


@needs_root
def test_one_that_the_group_of_its_owner_alone_can_write_is(written: Path) -> None:
    """Many systems have such a group for each user, and a umask of 002."""
    written.chmod(0o664)
    os.chown(written, 0, 0)
    assert choose_url() == f"file:{written.parent}/elsewhere"


def check_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        choose_url()
    with pytest.raises(ConfigError, match=re.escape(why)):
        load()
    assert run(["lock", "x", "--", "true"]) == 78
    (told,) = capsys.readouterr().err.splitlines()
    assert why in told
    assert "COTERIE_URL" in told
    assert not (tmp_path / "elsewhere").exists()


def test_one_that_all_can_write_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written.chmod(0o646)
    check_refused(written.parent, capsys, "can be written by all users")


@needs_root
def test_one_of_another_user_is_refused_also_for_root(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(written, ANN, ANN)
    monkeypatch.setenv("COTERIE_DIR", str(written.parent / "mine"))
    check_refused(written.parent, capsys, f"belongs to another user (uid {ANN})")


@needs_root
def test_one_that_a_group_can_write_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chown(written, 0, ANN)
    written.chmod(0o664)
    check_refused(written.parent, capsys, f"can be written by a group (gid {ANN})")


@needs_root
def test_a_link_of_another_user_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written.rename(written.parent / "other.toml")
    written.symlink_to("other.toml")
    os.chown(written, ANN, ANN, follow_symlinks=False)
    check_refused(written.parent, capsys, f"belongs to another user (uid {ANN})")


@needs_root
def test_one_that_is_named_is_believed(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(written, ANN, ANN)
    monkeypatch.setenv("COTERIE_URL", "coterie:coterie.toml")
    assert choose_url() == "coterie:coterie.toml"
