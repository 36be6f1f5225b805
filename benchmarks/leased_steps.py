"""Every interleaving of the leased lock while its voters change: the cases too large for the tests.

Each case is one step from a configuration to the next, with clients that enter once each; see
`tests/algorithms/mutex/leased_steps.py` for what is left out. With `--held` one client has the lock from the
beginning and keeps it, and another waits for it (`tests/algorithms/mutex/leased_prepared.py`). A case ends when all
states were seen, or after the seconds given.

    python -m benchmarks.leased_steps [--device gpu] [--seconds 60] [--clients 1] [--held] [CASE ...]
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from coterie.lab.explore import check
from tests.algorithms.mutex.leased_prepared import held
from tests.algorithms.mutex.leased_steps import (
    FENCING,
    after,
    beginning,
    change,
    is_fine,
    part,
    properties,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.lab.explore import Verdict
    from coterie.process import Process

ONE = beginning(1, part(1))
TWO = beginning(1, part(1, 2))
THREE = beginning(1, part(1, 2, 3))
JOINT = beginning(2, part(1, 2, 3), part(1, 2, 4))
APART = beginning(2, part(1, 2), part(3, 4))
BEGUN = after(THREE, part(1, 2, 3), part(1, 2, 4))

PAIR = beginning(2, part(1), part(2))
PAIR_BEGUN = after(ONE, part(1), part(2))

STEPS: dict[str, tuple[Configuration, Configuration]] = {
    "1": (ONE, after(ONE, part(1))),
    "1 > 12": (ONE, after(ONE, part(1, 2))),
    "1 > 1+2": (ONE, PAIR_BEGUN),
    "1+2 > 2": (PAIR, after(PAIR, part(2))),
    "1+2 taken back": (PAIR_BEGUN, after(PAIR_BEGUN, part(1))),
    "12 > 1": (TWO, after(TWO, part(1))),
    "12 > 123": (TWO, after(TWO, part(1, 2, 3))),
    "123 > 1234": (THREE, after(THREE, part(1, 2, 3, 4))),
    "123 > 123+124": (THREE, BEGUN),
    "123+124 > 124": (JOINT, after(JOINT, part(1, 2, 4))),
    "12 > 12+34": (TWO, after(TWO, part(1, 2), part(3, 4))),
    "12+34 > 34": (APART, after(APART, part(3, 4))),
    "taken back": (BEGUN, after(BEGUN, part(1, 2, 3))),
}
# By which numbers the first client may still count, where it is not the present one.
BEFORE = {"taken back": THREE, "1+2 taken back": ONE}
FAULTS: dict[str, dict[str, Any]] = {
    "": {},
    "lapse": {"lapses": (0,)},
    "voter restart": {"reboots": (1,)},
    "crash": {"watchful": True},
}


def searched(name: str, fault: str, arguments: argparse.Namespace) -> Verdict:
    """Explore one case with one fault."""
    present, following = STEPS[name]
    options, before = FAULTS[fault], BEFORE.get(name)
    processes: Sequence[Process[Any]]
    if arguments.held:
        processes = held(present, following, before=before, queued=True, **options)
        asking = 0
    else:
        asking = arguments.clients
        processes = change(present, following, clients=(before, None)[:asking], **options)
    return check(
        processes,
        requesters=tuple(range(len(processes) - asking + 1, len(processes) + 1)),
        properties=(*properties(following), FENCING),
        crashes=int(fault == "crash"),
        max_seconds=arguments.seconds,
        device=arguments.device,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, choices=(1, 2), default=2)
    parser.add_argument("--held", action="store_true", help="without lapses and restarts")
    parser.add_argument("--fault", choices=tuple(FAULTS), action="append")
    arguments = parser.parse_args()
    possible = ["", "crash"] if arguments.held else list(FAULTS)
    for name in arguments.cases or STEPS:
        for fault in arguments.fault or possible:
            begun = time.perf_counter()
            verdict = searched(name, fault, arguments)
            passed = time.perf_counter() - begun
            fine = "fine" if is_fine(verdict) else f"{verdict.verdict} {verdict.sometimes}"
            print(
                f"{name:15} {fault:14} {verdict.states:>13,} {verdict.transitions:>15,}"
                f" {passed:6.0f} s  {fine}",
                flush=True,
            )


if __name__ == "__main__":
    main()
