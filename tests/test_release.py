"""A package is fit for a release only as it was committed, complete, and with the licences of all that it has."""

from __future__ import annotations

import email
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from release.bill import bill_of_materials
from release.package import (
    SHARED,
    UnfitError,
    check_licences,
    check_metadata,
    check_same_bytes,
    check_sdist,
    check_wheel,
)
from release.vendored import read_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

ROOT = Path(__file__).parent.parent
VENDOR = Path("src/coterie/dashboard/assets/vendor")
TEXTS = [VENDOR / name for name in ("LICENSE-htm", "LICENSE-preact", "LICENSE-signals")]


def metadata(
    version: str = "1.0.0", licence: str = "Apache-2.0 AND MIT", asks: str = ">=3.11"
) -> Message:
    texts = "".join(f"License-File: {text}\n" for text in TEXTS)
    return email.message_from_string(
        f"Version: {version}\nLicense-Expression: {licence}\nRequires-Python: {asks}\n{texts}"
        "Classifier: Programming Language :: Python :: 3.11\n"
        "Classifier: Programming Language :: Python :: 3.12\n"
    )


def sdist(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(f"coterie-1.0.0/{name}"), io.BytesIO())
    return path


def wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_an_sdist_has_what_is_tracked_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "coterie.tar.gz"
    assert check_sdist(sdist(file, "a.py", "PKG-INFO"), ["a.py", "tests/vendor/axe.js"]) == 2
    with pytest.raises(UnfitError, match=r"not tracked: \.env"):
        check_sdist(sdist(file, "a.py", ".env", "PKG-INFO"), ["a.py"])
    with pytest.raises(UnfitError, match=r"lacks b\.py"):
        check_sdist(sdist(file, "a.py", "PKG-INFO"), ["a.py", "b.py"])


def test_a_wheel_has_the_package_and_the_two_files_that_are_shared(tmp_path: Path) -> None:
    file = tmp_path / "coterie.whl"
    shared = [f"coterie-1.0.0.data/data/{each}" for each in SHARED]
    tracked = ["src/coterie/a.py", "README.md"]
    assert check_wheel(wheel(file, "coterie/a.py", *shared), tracked) == 3
    with pytest.raises(UnfitError, match=r"not tracked: coterie/b\.pyc"):
        check_wheel(wheel(file, "coterie/a.py", "coterie/b.pyc", *shared), tracked)
    with pytest.raises(UnfitError, match=r"lacks coterie/a\.py"):
        check_wheel(wheel(file, *shared), tracked)
    with pytest.raises(UnfitError, match=r"etc/passwd"):
        check_wheel(
            wheel(file, "coterie/a.py", *shared, "coterie-1.0.0.data/data/etc/passwd"), tracked
        )


def test_two_builds_of_one_commit_are_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a")
    other.write_bytes(b"a")
    check_same_bytes([one], [other])
    other.write_bytes(b"b")
    with pytest.raises(UnfitError, match="differ"):
        check_same_bytes([one], [other])


def copied(folder: Path, change: Callable[[Path], object]) -> Path:
    """Return a copy of what the metadata have to agree with, with one thing changed."""
    (folder / ".github/workflows").mkdir(parents=True)
    (folder / ".github/workflows/test.yml").write_text('python: ["3.11", "3.12"]')
    (folder / "CHANGELOG.md").write_text("# Changes\n\n## 1.0.0\n")
    shutil.copytree(ROOT / VENDOR, folder / VENDOR)
    change(folder)
    return folder


def test_the_version_and_the_pythons_are_those_of_the_changes_and_of_the_tests(
    tmp_path: Path,
) -> None:
    source = copied(tmp_path, lambda folder: folder)
    assert check_metadata(metadata(), source) == "1.0.0"
    with pytest.raises(UnfitError, match=r"CHANGELOG\.md is not 1\.0\.1"):
        check_metadata(metadata(version="1.0.1"), source)
    with pytest.raises(UnfitError, match="Requires-Python"):
        check_metadata(metadata(asks=">=3.10"), source)
    (source / ".github/workflows/test.yml").write_text('python: ["3.11"]')
    with pytest.raises(UnfitError, match="others are tested"):
        check_metadata(metadata(), source)


def test_each_vendored_file_has_its_licence_in_the_package(tmp_path: Path) -> None:
    assert len(check_licences(metadata(), copied(tmp_path / "good", lambda folder: folder))) == 4
    with pytest.raises(UnfitError, match="preact is MIT"):
        check_licences(metadata(licence="Apache-2.0"), tmp_path / "good")

    def add(folder: Path) -> None:
        (folder / VENDOR / "left-pad.js").write_text("")

    with pytest.raises(UnfitError, match=r"says nothing of left-pad\.js"):
        check_licences(metadata(), copied(tmp_path / "bad", add))


def test_a_bill_of_materials_names_what_is_installed_and_what_the_pages_bring() -> None:
    python = Path(sys.executable)
    bill = bill_of_materials(python, read_page(ROOT / VENDOR / "README.md"), "serial")
    names = {each["name"] for each in bill["components"]}
    assert {"click", "msgspec", "preact", "@preact/signals"} <= names
    assert "coterie" not in names
    assert bill["metadata"]["component"]["name"] == "coterie"


def git(*command: str, cwd: Path) -> str:
    return subprocess.check_output(["git", *command], cwd=cwd, text=True)


def test_the_site_of_a_version_stands_beside_those_of_the_earlier_ones(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    git("init", "--quiet", "--bare", str(origin), cwd=tmp_path)
    git("clone", "--quiet", str(origin), str(clone), cwd=tmp_path)
    (clone / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci/keep-site", clone / ".ci/keep-site")
    (clone / "build/site").mkdir(parents=True)
    for version in ("0.9.0", "0.10.0", "0.9.1"):
        (clone / "build/site/page.html").write_text(version)
        subprocess.run([clone / ".ci/keep-site", version], check=True, capture_output=True)
    kept = git("ls-tree", "-r", "--name-only", "gh-pages", cwd=origin).split()
    assert kept == [
        ".nojekyll",
        "0.10.0/page.html",
        "0.9.0/page.html",
        "0.9.1/page.html",
        "index.html",
    ]
    assert git("show", "gh-pages:0.9.0/page.html", cwd=origin) == "0.9.0"
    assert "url=0.10.0/" in git("show", "gh-pages:index.html", cwd=origin)
    assert git("rev-list", "--count", "gh-pages", cwd=origin).strip() == "3"
