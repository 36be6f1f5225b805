"""Run random changes of the leased lock for many seeds, and print what happened in all.

    python -m tests.algorithms.mutex.leased_change_campaign FIRST LAST [PROFILE ...]

Every run that breaks a promise is printed with its profile and seed; it is the same run each time.
Ctrl-C ends the campaign with the figures so far.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.algorithms.mutex.leased_changes import CHANGING_PROFILES, world_of

FIGURES = (
    "entries",
    "steps",
    "joint_steps",
    "moves",
    "carried",
    "begun",
    "killed",
    "settled",
    "conflicted",
    "crashes",
    "switched_off",
    "losses",
    "broken",
    "forced",
    "events",
)


def run(first: int, last: int, profiles: tuple[str, ...]) -> int:
    """Run the seeds up to the last one; return how many runs broke a promise."""
    total: Counter[str] = Counter()
    try:
        for seed in range(first, last + 1):
            for profile in profiles:
                total.update(outcome(seed, profile))
            if seed % 20 == 0:
                sys.stderr.write(f"seed {seed}: {total['runs']:,} runs\n")
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    figures = ", ".join(f"{total[name]:,} {name}" for name in FIGURES)
    sys.stdout.write(f"{total['runs']:,} runs, {total['failed']:,} failed: {figures}\n")
    sys.stdout.write(f"CPU time: {time.process_time():.0f} s\n")
    return total["failed"]


def outcome(seed: int, profile: str) -> Counter[str]:
    """Run one seed, and count."""
    try:
        done = world_of(seed, profile).run()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is looked for
        sys.stdout.write(f"{profile} {seed}: {type(error).__name__}: {error}\n")
        sys.stdout.flush()
        return Counter({"runs": 1, "failed": 1})
    figures: dict[str, int] = {name: getattr(done, name) for name in FIGURES}
    return Counter({"runs": 1, **figures})


if __name__ == "__main__":
    chosen = tuple(sys.argv[3:]) or CHANGING_PROFILES
    sys.exit(1 if run(int(sys.argv[1]), int(sys.argv[2]), chosen) else 0)
