"""The explorer against Spin, on the same model of Ricart and Agrawala's algorithm.

Both search exhaustively, with reductions off, for two inside at once and for someone who waits for
ever: coterie by `coterie.lab.explore.check`, Spin by the assertion and the invalid end states of
`ricart_agrawala.pml`, compiled with gcc -O2 (and -DSAFETY, which leaves out what only other checks
need). Each run is a process of its own, measured whole: CPU seconds of user and system, and the
largest resident set. What Spin needs to generate and compile its verifier stands in its own column
and is not counted in the ratio. Best of three runs.

Spin counts the initial state as a transition; the table shows its transitions less one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

MODELS = ((3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (4, 1))  # processes, and entries of each
PROMELA = Path(__file__).parent / "ricart_agrawala.pml"
RUNS = 3


class Run(NamedTuple):
    """What a process took, and what it printed."""

    cpu_seconds: float
    mebibytes: float
    output: str


class Result(NamedTuple):
    states: int
    transitions: int
    best: Run


def main() -> int:
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        print(f"{' and '.join(missing)} not found: apt-get install spin gcc", file=sys.stderr)
        return 69
    print(
        "Ricart-Agrawala            states  transitions |  Spin s     MiB  build s | coterie s   MiB |"
    )
    crossing = None
    for size, entries in MODELS:
        ours = run_coterie(size, entries)
        spin, build_seconds = run_spin(size, entries)
        if (ours.states, ours.transitions) != (spin.states, spin.transitions):
            print(f"the searches disagree: {ours[:2]} here and {spin[:2]} in Spin", file=sys.stderr)
            return 1
        faster = spin.best.cpu_seconds / ours.best.cpu_seconds
        smaller = spin.best.mebibytes / ours.best.mebibytes
        print(
            f"{size} processes x {entries} {ours.states:>17,} {ours.transitions:>12,} |"
            f" {spin.best.cpu_seconds:>7.2f} {spin.best.mebibytes:>7.0f} {build_seconds:>8.2f} |"
            f" {ours.best.cpu_seconds:>9.2f} {ours.best.mebibytes:>5.0f} |"
            f" Spin takes {faster:.2f} times the CPU and {smaller:.2f} times the memory"
        )
        if faster > 1 and crossing is None:
            crossing = ours.states
    if crossing is None:
        print("Spin is ahead on all of these.")
        return 1
    print(
        f"coterie is ahead in CPU from the model with {crossing:,} states on; on smaller ones, starting"
        " Python and running each handler once cost more than the search."
    )
    return 0


def run_coterie(size: int, entries: int) -> Result:
    best = measure([sys.executable, __file__, "explore", str(size), str(entries)], Path.cwd())
    states, transitions = json.loads(best.output)
    return Result(states, transitions, best)


def run_spin(size: int, entries: int) -> tuple[Result, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = [f"-DN={size}", f"-DENTRIES={entries}", str(PROMELA)]
        generate = measure_once(["spin", "-a", *model], folder)
        options = ["-O2", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"]
        build = measure_once(["gcc", *options], folder)
        best = measure(["./pan"], folder)
    if "errors: 0" not in best.output:
        raise SystemExit(f"Spin found an error:\n{best.output}")
    states = number(r"(\d+) states, stored", best.output)
    transitions = number(r"(\d+) transitions", best.output) - 1
    return Result(states, transitions, best), generate.cpu_seconds + build.cpu_seconds


def measure(command: list[str], folder: Path) -> Run:
    return min(measure_once(command, folder) for _ in range(RUNS))


def measure_once(command: list[str], folder: Path) -> Run:
    """Run a command to its end; the usage is that of the process and of its children."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command[0]} failed with status {process.returncode}")
        output.seek(0)
        return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.read())


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, f"no {pattern!r} in what Spin printed"
    return int(found[1])


def explore(size: int, entries: int) -> None:
    """Be the process that is measured: only here is the package imported."""
    from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala  # noqa: PLC0415
    from coterie.lab.explore import check  # noqa: PLC0415 - see above
    from coterie.process import Channel  # noqa: PLC0415

    processes = [RicartAgrawala(me, size) for me in range(1, size + 1)]
    verdict = check(processes, entries=entries, channel=Channel.FIFO)
    assert verdict.verdict == "verified", verdict.reason
    print(json.dumps([verdict.states, verdict.transitions]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["explore"]:
        explore(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main())
