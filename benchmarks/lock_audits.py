"""Audit the locks of many libraries, for docs/audit-locks.md: python -m benchmarks.lock_audits [TARGET ...].

Prints a Markdown table with a row for each target that is installed. A picture of redis-py's smallest violation is
written to docs/pictures/audit-locks.svg, if there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError
from coterie.lab.lock_audit.adapter import KNOWN

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "audit-locks.svg"
DRAWN = "redis-py"
HEADER = (
    "target",
    "exclusion",
    "if asked",
    "fence",
    "waiters",
    "overtaken",
    "left behind",
    "told of a loss",
)


def audit(target: str, rounds: int, seed: int, faults: str) -> dict[str, Any] | None:
    """Audit one target; return None if it is not installed."""
    command = [sys.executable, "-m", "coterie", "audit-locks", target, "-o", "json"]
    command += ["--rounds", str(rounds), "--seed", str(seed)]
    command += ["--faults", faults] if faults else []
    command += ["--picture", str(PICTURE)] if target == DRAWN and not faults else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(f"{target}: {done.stderr.strip()}", file=sys.stderr)
        if done.returncode == ConfigError.exit_status:
            return None
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(found: dict[str, Any]) -> list[str]:
    """Put a verdict into the cells of a row."""
    told, left = found["told"], found["left_behind"]
    fence = found["fence"]
    counts = {
        "before": told["before"],
        "too late": told["after"],
        "when it asked": told["asked"],
        "at release": told["at_release"],
        "never": told["never"],
    }
    back = f"**{fence['back']} back**" if fence["back"] else "grows"
    return [
        f"`{found['target']}`, {found['version']}",
        exclusion(found["exclusion"]),
        exclusion(found["exclusion_asked"]) if found["exclusion_asked"] else "",
        back if fence["is_given"] else "none",
        f"**{len(found['forgotten'])} forgotten**" if found["forgotten"] else "all served",
        f"{found['service']['overtaken_max']}",
        "" if left["seconds_max"] is None else f"{left['seconds_max']:.1f} s",
        ", ".join(f"{count} {name}" for name, count in counts.items() if count),
    ]


def exclusion(found: dict[str, Any]) -> str:
    """Say whether it was kept, and after which faults not."""
    if not found["overlaps"]:
        return "kept"
    after = ", ".join(f"{count} after {name}" for name, count in found["after"].items())
    lease = f", {found['beyond_lease']} beyond the lease" if found["beyond_lease"] else ""
    many = "s" if found["overlaps"] > 1 else ""
    return f"**{found['overlaps']} overlap{many}**{lease}: {after}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", choices=[[], *KNOWN])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="")
    given = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for target in given.targets or KNOWN:
        found = audit(target, given.rounds, given.seed, given.faults)
        if found is not None:
            print(f"| {' | '.join(row(found))} |", flush=True)


if __name__ == "__main__":
    main()
