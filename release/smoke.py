"""Try an installed wheel on this system: what docs/install.md promises there works, the rest is refused in one line.

python release/smoke.py          # in the environment of the wheel, anywhere but in the repository
"""

from __future__ import annotations

import subprocess
import sys

POSIX = sys.platform != "win32"
REFUSED = 78  # a setting that cannot work here, as docs/locks.md has it


def expect(status: int, said: str, *command: str) -> None:
    """Run a command of coterie; raise `SystemExit` unless it ends with `status` and says `said` without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    out = done.stdout + done.stderr
    line = "coterie " + " ".join(command)
    if done.returncode != status or said not in out or "Traceback" in out:
        raise SystemExit(f"{line}: exit {done.returncode}, not {status} with {said!r}\n{out}")
    print(f"{line}: exit {status}")


def main() -> None:
    """Try a command of each kind."""
    expect(0, "coterie, version", "--version")
    expect(0, "maekawa", "algorithms")
    expect(0, "unserved      0", "simulate", "maekawa", "-N", "3", "--seed", "1")
    inside = ("lock", "smoke", "--", sys.executable, "-c", "print('in' + 'side')")
    if POSIX:
        expect(0, "inside", *inside)
        expect(
            0, "smoke", "lock", "smoke", "--", sys.executable, "-m", "coterie", "status", "locks"
        )
    else:
        expect(REFUSED, "signals of a POSIX system", *inside)
        expect(REFUSED, "signals of a POSIX system", "serve", "--dev")
        expect(REFUSED, "file: locks need a POSIX system", "status", "locks")
    if sys.platform == "linux":
        expect(0, "digest", "simulate-stack", "--seed", "1")
    else:
        expect(REFUSED, "needs Linux", "simulate-stack", "--seed", "1")


if __name__ == "__main__":
    main()
