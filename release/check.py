"""Build a release of the last commit and judge it, as far as that needs no network but the package index.

make release-check        # leaves the sdist, the wheel and its bill of materials in dist/
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from release.bill import bill_of_materials
from release.package import (
    UnfitError,
    build,
    check_licences,
    check_metadata,
    check_same_bytes,
    check_sdist,
    check_wheel,
    digest,
    export,
    read_metadata,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from release.vendored import Vendored

ROOT = Path(__file__).parent.parent


def check(work: Path, dist: Path) -> Iterator[str]:
    """Yield what was found, a line for each step; raise `UnfitError` at the first that fails."""
    moment = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    tracked = export(ROOT, work / "first")
    export(ROOT, work / "second")
    changed = run("git", "status", "--porcelain", cwd=ROOT)
    yield f"commit    {run('git', 'log', '-1', '--format=%h %s', cwd=ROOT).strip()}" + (
        ", without what is not committed" if changed else ""
    )

    sdist, wheel = build(work / "first", work / "one", moment)
    # made in the time zone, the umask and the order of another machine, as far as one machine has these
    again = build(
        work / "second", work / "two", moment, {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}
    )
    check_same_bytes((sdist, wheel), again)
    yield "bytes     two builds are the same"
    yield f"sdist     {check_sdist(sdist, tracked)} files, each of them tracked"
    yield f"wheel     {check_wheel(wheel, tracked)} files, {wheel.stat().st_size >> 10} KiB"

    metadata = read_metadata(wheel)
    version = check_metadata(metadata, work / "first")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    yield f"metadata  version {version}, Python {metadata['Requires-Python']}; twine has nothing to say"
    vendored = check_licences(metadata, work / "first")
    yield f"licences  {metadata['License-Expression']}, with {len(vendored)} modules of others"

    python = _install(wheel, work)
    yield f"install   {run(python, ROOT / 'release' / 'smoke.py', cwd=work).count(': exit ')} commands tried"
    for file in (sdist, wheel):
        shutil.copy2(file, dist)
        yield f"sha256    {digest(file)}  {file.name}"
    yield f"bill      {_write_bill(python, vendored, wheel, dist)}"


def _install(wheel: Path, work: Path) -> Path:
    """Install the wheel into an empty environment, its dependencies by hash; return the environment's Python."""
    run(sys.executable, "-m", "venv", work / "fresh")
    python = work / "fresh" / "bin" / "python"
    pinned = work / "first" / "docs" / "deploy" / "requirements.txt"
    run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pinned)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    run(python, "-m", "pip", "check")
    return python


def _write_bill(python: Path, vendored: list[Vendored], wheel: Path, dist: Path) -> str:
    """Write the bill of materials beside the wheel; return its name."""
    serial = str(uuid.uuid5(uuid.NAMESPACE_OID, digest(wheel)))  # the same for the same bytes
    bill = bill_of_materials(python, vendored, serial)
    file = dist / "coterie.cdx.json"
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return file.name


def main() -> int:
    """Check, and print a line for each step as it is done."""
    began = time.monotonic()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with tempfile.TemporaryDirectory() as work:
        try:
            for line in check(Path(work), dist):
                print(line, flush=True)
        except UnfitError as error:
            print(f"not fit for a release: {error}", file=sys.stderr)
            return 1
    print(f"fit for a release; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
