"""Every interleaving of the leased lock while its voters change: the cases too large for the tests.

Each case is one step from a configuration to the next, with two clients that enter once each; see
`tests/mutex/leased_steps.py` for what is left out. A case ends when all states were seen, or after the
seconds given.

    python -m benchmarks.leased_steps [--device gpu] [--seconds 60] [CASE ...]
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from coterie.explore import check
from tests.mutex.leased_steps import after, beginning, change, is_fine, part, properties

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.configuration import Configuration

ONE = beginning(1, part(1))
TWO = beginning(1, part(1, 2))
THREE = beginning(1, part(1, 2, 3))
JOINT = beginning(2, part(1, 2, 3), part(1, 2, 4))
APART = beginning(2, part(1, 2), part(3, 4))
BEGUN = after(THREE, part(1, 2, 3), part(1, 2, 4))

STEPS: dict[str, tuple[Configuration, Configuration]] = {
    "1": (ONE, after(ONE, part(1))),
    "1 > 12": (ONE, after(ONE, part(1, 2))),
    "12 > 1": (TWO, after(TWO, part(1))),
    "12 > 123": (TWO, after(TWO, part(1, 2, 3))),
    "123 > 1234": (THREE, after(THREE, part(1, 2, 3, 4))),
    "123 > 123+124": (THREE, BEGUN),
    "123+124 > 124": (JOINT, after(JOINT, part(1, 2, 4))),
    "12 > 12+34": (TWO, after(TWO, part(1, 2), part(3, 4))),
    "12+34 > 34": (APART, after(APART, part(3, 4))),
    "taken back": (BEGUN, after(BEGUN, part(1, 2, 3))),
}
FAULTS: dict[str, dict[str, Any]] = {
    "": {},
    "lapse": {"lapses": (0,)},
    "voter restart": {"reboots": (1,)},
    "crash": {"watchful": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--fault", choices=tuple(FAULTS), action="append")
    arguments = parser.parse_args()
    for name in arguments.cases or STEPS:
        present, following = STEPS[name]
        old = (THREE, None) if name == "taken back" else (None, None)
        for fault in arguments.fault or FAULTS:
            processes = change(present, following, clients=old, **FAULTS[fault])
            begun = time.perf_counter()
            verdict = check(
                processes,
                requesters=(len(processes) - 1, len(processes)),
                properties=properties(following),
                crashes=int(fault == "crash"),
                max_seconds=arguments.seconds,
                device=arguments.device,
            )
            passed = time.perf_counter() - begun
            fine = "fine" if is_fine(verdict) else f"{verdict.verdict} {verdict.sometimes}"
            print(
                f"{name:15} {fault:14} {verdict.states:>13,} {verdict.transitions:>15,}"
                f" {passed:6.0f} s  {fine}",
                flush=True,
            )


if __name__ == "__main__":
    main()
