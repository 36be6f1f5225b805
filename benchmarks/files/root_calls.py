"""What root asks the system for when it takes a lock in a directory that another user has laid out.

    python -m benchmarks.files.root_calls

It needs root and strace, makes a directory of `nobody` in the folder of temporary files, and prints the calls
that name a file or change an owner or a mode, each once: with the file in the place of
a descriptor, and random names counted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NOBODY = 65534
TRACED = "trace=%file,fchmod,fchown"
LAY_OUT = """
import os, sys, coterie.sync
with coterie.sync.connect("file:" + sys.argv[2]) as c, c.lock("a"):  # imports what is needed
    pass
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
with coterie.sync.connect("file:" + sys.argv[1]) as c, c.lock("a"):
    pass
"""
IDENTITY = re.compile(r"[0-9a-f]{15,16}")  # of a program or a handle
HERE = re.compile(r"AT_FDCWD<[^>]*>")
DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
LINK = re.compile(r"/fd/\d+(.*) = \d+$")
SIZE = re.compile(r"st_size=\d+")


def traced(folder: Path) -> list[str]:
    """Take a lock there under strace, and return its lines."""
    output = folder.parent / "calls"
    command = ["strace", "-qq", "-y", "-e", TRACED, "-e", "signal=none", "-o", str(output)]
    taken = [sys.executable, "-m", "coterie", "lock", "--url", f"file:{folder}", "a", "--", "true"]
    subprocess.run([*command, *taken], check=True)
    return output.read_text(encoding="utf-8", errors="replace").splitlines()


class Reader:
    """Rewrites lines of strace so that they are the same in each run."""

    def __init__(self, folder: Path) -> None:
        """Begin with no names; the directory is called /locks."""
        self._folder = str(folder)
        self._names: dict[str, str] = {}

    def read(self, line: str) -> str | None:
        """Return a call, or None for one that concerns other files or failed."""
        call, _, result = line.rpartition(" = ")
        is_ours = self._folder in line and not line.startswith("execve")
        if not is_ours or result.startswith("-1"):
            return None
        text = f"{call.rstrip()} = {result}".replace(self._folder, "/locks")
        text = LINK.sub(r"/fd/…\1 = …", HERE.sub("AT_FDCWD", SIZE.sub("st_size=…", text)))
        text = DESCRIPTOR.sub(lambda found: f"<{found[1]}>", text)
        return IDENTITY.sub(lambda found: self._name(found[0]), text)

    def _name(self, found: str) -> str:
        return self._names.setdefault(found, f"ID{len(self._names) + 1}")


def main() -> int:
    """Print the calls."""
    if os.geteuid() != 0:
        print("it needs root", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        place.chmod(0o755)
        folder = place / "locks"
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o1777)
        made = [sys.executable, "-c", LAY_OUT, str(folder), str(place / "other"), str(NOBODY)]
        subprocess.run(made, check=True)
        reader, seen = Reader(folder), set()
        for line in traced(folder):
            call = reader.read(line)
            if call is not None and call not in seen:
                seen.add(call)
                print(call)
    return 0


if __name__ == "__main__":
    sys.exit(main())
