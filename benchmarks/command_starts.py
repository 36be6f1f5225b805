"""What short commands and programs cost as a whole, beside flock(1) and beside Python that does nothing.

    python benchmarks/command_starts.py [--runs 15]

Each run is a process of its own, measured whole: CPU milliseconds of user and system, with those of
the program that `coterie lock` and `flock` run, which is true(1). The commands take turns, so that
a change of the machine's pace meets all of them; the table shows the least and the median. Modules
are compiled before, as they are where a package is installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

COTERIE = (sys.executable, "-c", "from coterie.cli import main; main()")
FILE_LOCK = "import coterie.sync\nwith coterie.sync.connect() as c, c.lock('x'): pass"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: text for name, text in os.environ.items() if name[:6] != "PYTHON"}
        environment["COTERIE_URL"] = f"file:{folder}/locks"
        rows = commands(Path(folder))
        taken: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(runs + 1):
            for name, command in rows.items():
                taken[name].append(cpu_milliseconds(command, environment))
    print("CPU ms of the whole command            least  median")
    for name, times in taken.items():
        after = times[1:]  # the first one compiles
        print(f"{name:<38} {min(after):>5.1f} {median(after):>7.1f}")
    return 0


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    found = {"python -c pass, the floor": (sys.executable, "-c", "pass")}
    if shutil.which("flock"):
        found["flock FILE true"] = ("flock", str(folder / "flock"), "true")
    return found | {
        "import asyncio": (sys.executable, "-c", "import asyncio"),
        "import coterie.sync": (sys.executable, "-c", "import coterie.sync"),
        "coterie.sync, a file lock": (sys.executable, "-c", FILE_LOCK),
        "coterie lock x -- true": (*COTERIE, "lock", "x", "--", "true"),
        "coterie lock --wait=5s x -- true": (*COTERIE, "lock", "--wait=5s", "x", "--", "true"),
        "coterie --help": (*COTERIE, "--help"),
        "coterie check ricart-agrawala": (*COTERIE, "check", "ricart-agrawala"),
    }


def cpu_milliseconds(command: tuple[str, ...], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
