"""The explorer with a clock beside the one without, in states per second of CPU.

The algorithm of 1996 relies on bounds of time and is explored tick by tick; Maekawa's rules, which it
is built on, and those of Ricart and Agrawala are explored without a clock. All searches are
exhaustive. Each is made three times, in turn with the others, and its best run counts; the start of
Python is left out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coterie.catalogue import find
from coterie.lab.explore import check, check_timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.explore import Verdict

RUNS = 3
WHEEL = "1,2 1,3 1,4 2,3,4"
WAITS = {"sigma": "1", "lambda": "1", "t-max": "4", "t-limit": "4"}


def main() -> None:
    searches: dict[str, Callable[[], Verdict]] = {
        "clock: fault-tolerant, majority of 3, 1 crash": lambda: timed(3, "majority", 1),
        "clock: fault-tolerant, wheel of 4, 1 crash": lambda: timed(4, WHEEL, 1),
        "clock: fault-tolerant, wheel of 4, 2 crashes": lambda: timed(4, WHEEL, 2),
        "no clock: majority of 4": lambda: untimed("majority", 4, 1),
        "no clock: ricart-agrawala, 3 of 3 entries": lambda: untimed("ricart-agrawala", 3, 3),
        "no clock: ricart-agrawala, 4 of 1 entry": lambda: untimed("ricart-agrawala", 4, 1),
    }
    best = dict.fromkeys(searches, float("inf"))
    verdicts = {}
    for _ in range(RUNS):
        for name, search in searches.items():
            began = time.process_time()
            verdicts[name] = search()
            best[name] = min(best[name], time.process_time() - began)
    print(f"{'search':46}    states  transitions  CPU s  states/CPU s")
    for name, verdict in verdicts.items():
        assert verdict.verdict == "verified", verdict.reason
        rate = verdict.states / best[name]
        print(
            f"{name:46} {verdict.states:>9,} {verdict.transitions:>12,} {best[name]:>6.2f}"
            f" {rate:>13,.0f}"
        )


def timed(size: int, coterie: str, crashes: int) -> Verdict:
    entry = find("fault-tolerant")
    processes = entry.build(entry.setup(size, None, {"coterie": coterie, **WAITS}))
    return check_timed(processes, requesters=[1, 2, 3], crashes=crashes)


def untimed(name: str, size: int, entries: int) -> Verdict:
    entry = find(name)
    return check(entry.build(entry.setup(size)), entries=entries)


if __name__ == "__main__":
    main()
