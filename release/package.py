"""Build the package, and raise `UnfitError` where it is not what a release has to be."""

from __future__ import annotations

import email.parser
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from release.vendored import Vendored, read_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from email.message import Message

NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
# What the wheel has beside the package: installed outside of it, and named here one by one.
SHARED = {"share/man/man1/coterie.1", "lib/tmpfiles.d/coterie.conf"}
LEFT_OUT_OF_SDIST = ("tests/vendor/",)  # axe, whose licence asks for more than ours does


class UnfitError(Exception):
    """The package must not be released; the text says why."""


def run(
    *command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] = NOTHING_MORE
) -> str:
    """Return what a command prints; raise `UnfitError` with the end of it if the command fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        end = (done.stdout + done.stderr)[-2000:]
        raise UnfitError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{end}")
    return done.stdout


def export(repository: Path, folder: Path) -> list[str]:
    """Put the files of the last commit into `folder`, and return their names.

    What lies beside them in the working tree, tracked or not, cannot reach a package that is built there.
    """
    archive = folder.with_suffix(".tar")
    run("git", "archive", f"--output={archive}", "HEAD", cwd=repository)
    folder.mkdir()
    run("tar", "-xf", archive, "-C", folder)
    with tarfile.open(archive) as tar:
        return [each.name for each in tar.getmembers() if each.isfile()]


def build(
    source: Path, dist: Path, moment: str, environment: Mapping[str, str] = NOTHING_MORE
) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, as of `moment`; return both."""
    dist.mkdir(parents=True)
    run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source),
        environment={"SOURCE_DATE_EPOCH": moment, **environment},
    )
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_same_bytes(first: Iterable[Path], second: Iterable[Path]) -> None:
    """Raise `UnfitError` if two builds of one commit differ."""
    for one, other in zip(first, second, strict=True):
        if digest(one) != digest(other):
            raise UnfitError(f"{one.name}: two builds of one commit differ")


def check_sdist(sdist: Path, tracked: list[str]) -> int:
    """Raise `UnfitError` if the sdist has a file that is not tracked, or lacks one; return how many it has."""
    with tarfile.open(sdist) as tar:
        names = {each.name.partition("/")[2] for each in tar.getmembers() if each.isfile()}
    # hatchling always adds PKG-INFO, and .gitignore where there is one
    wanted = {name for name in tracked if not name.startswith(LEFT_OUT_OF_SDIST)} | {"PKG-INFO"}
    if more := sorted(names - wanted):
        raise UnfitError(f"{sdist.name} has files that are not tracked: {', '.join(more[:5])}")
    if less := sorted(wanted - names):
        raise UnfitError(f"{sdist.name} lacks {', '.join(less[:5])}")
    return len(names)


def check_wheel(wheel: Path, tracked: list[str]) -> int:
    """Raise `UnfitError` if the wheel has a file that does not belong, or lacks one; return how many it has."""
    wanted = {name.removeprefix("src/") for name in tracked if name.startswith("src/coterie/")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if name.startswith("coterie/")}
    if more := sorted(inside - wanted):
        raise UnfitError(f"{wheel.name} has files that are not tracked: {', '.join(more[:5])}")
    if less := sorted(wanted - inside):
        raise UnfitError(f"{wheel.name} lacks {', '.join(less[:5])}")
    shared = {name.partition(".data/data/")[2] for name in names - inside if ".data/" in name}
    if shared != SHARED:
        raise UnfitError(f"{wheel.name} installs {sorted(shared)} beside the package, not {SHARED}")
    return len(names)


def read_metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def check_metadata(metadata: Message, source: Path) -> str:
    """Raise `UnfitError` if the metadata contradict the rest of the repository; return the version."""
    version = metadata["Version"]
    newest = re.search(r"^## (\S+)", (source / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if newest is None or newest[1] != version:
        raise UnfitError(f"the newest heading of CHANGELOG.md is not {version}")
    workflow = (source / ".github/workflows/test.yml").read_text("utf-8")
    tried = re.search(r"python: \[(.*)\]", workflow)
    named = re.findall(r":: (3\.\d+)$", "\n".join(metadata.get_all("Classifier", [])), re.MULTILINE)
    if tried is None or named != re.findall(r"3\.\d+", tried[1]):
        raise UnfitError(f"Python {', '.join(named)} is promised, and others are tested")
    if metadata["Requires-Python"] != f">={named[0]}":
        raise UnfitError(f"Requires-Python is {metadata['Requires-Python']}, not >={named[0]}")
    return version


def check_licences(metadata: Message, source: Path) -> list[Vendored]:
    """Raise `UnfitError` if the package has a module of others without its licence; return these modules."""
    texts = {PurePosixPath(each) for each in metadata.get_all("License-File", [])}
    known = set(metadata["License-Expression"].split(" AND "))
    found = []
    for page in sorted((source / "src").rglob("vendor/README.md")):
        folder = page.parent
        modules = read_page(page)
        files = {file for each in modules for file in each.files} | {each.text for each in modules}
        if unsaid := {each.name for each in folder.iterdir()} - files - {page.name}:
            raise UnfitError(
                f"{page.relative_to(source)} says nothing of {', '.join(sorted(unsaid))}"
            )
        for each in modules:
            text = PurePosixPath((folder / each.text).relative_to(source))
            if text not in texts or each.licence not in known:
                raise UnfitError(
                    f"the metadata do not say that {each.name} is {each.licence}: {text}"
                )
        found += modules
    return found
