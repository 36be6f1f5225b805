"""The explorer on a GPU and with NumPy on the same machine, on Ricart and Agrawala's algorithm.

Four processes enter twice each, the model that `ricart_agrawala.pml` is for Spin with -DN=4
-DENTRIES=2; then three times each; then five processes once each, until so many states were seen
that time to start is lost among the rest. Each is searched three times in one process: the first
time CUDA starts and kernels are compiled or loaded. `--numpy` searches the first model without the
GPU, too; `--fill` the largest until the memory is full.

    python benchmarks/explorer_on_gpu.py --numpy
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.errors import ConfigError
from coterie.lab.explore import check
from coterie.lab.explore.device import open_device
from coterie.process import Channel

if TYPE_CHECKING:
    from coterie.lab.explore.device import DeviceName

RUNS = 3


def main() -> int:
    try:
        gpu = open_device("gpu")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 69
    print(f"{gpu}")
    print("processes x entries              states      transitions   depth  seconds  million/s")
    for size, entries, limit in ((4, 2, None), (4, 3, None), (5, 1, 10**9)):
        for _ in range(RUNS):
            measure(size, entries, limit, "gpu")
    if "--numpy" in sys.argv:
        measure(4, 2, None, "cpu")
    if "--fill" in sys.argv:
        measure(4, 4, None, "gpu")
    return 0


def measure(size: int, entries: int, limit: int | None, device: DeviceName) -> None:
    processes = [RicartAgrawala(me, size) for me in range(1, size + 1)]
    began = time.perf_counter()
    verdict = check(
        processes, entries=entries, channel=Channel.FIFO, device=device, max_states=limit
    )
    seconds = time.perf_counter() - began
    assert verdict.verdict != "violated", verdict.reason
    print(
        f"{size} x {entries} {verdict.verdict:>10} {device} {verdict.states:>17,}"
        f" {verdict.transitions:>16,} {verdict.depth:>7} {seconds:>8.2f}"
        f" {verdict.transitions / seconds / 1e6:>10,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
