"""Ends a command if we are killed: without us nobody renews the lease, and the lock goes to others.

The guard is a shell that reads from a pipe of which only we have the other end, so its input ends
when we do, however that happens. The system by itself does nothing of the kind: it ends a group of
orphans only if one of them is stopped and no parent of the same session is left.
"""

from __future__ import annotations

import contextlib
import os
import signal

from coterie.errors import Unavailable

# Each line it reads says whom to end and how long after TERM to kill; the last one counts.
# A single sleep measures the time, since many short ones would add up to more. Beside it somebody
# looks whether the group is gone: nobody may be killed later whose group has the same number.
END_THE_GROUP = """
trap '' HUP INT QUIT TERM
last=
while read -r line; do last=$line; done
set -- $last
[ $# = 2 ] || exit 0
if [ "$2" != 0 ]; then
    kill -TERM -"$1"
    kill -CONT -"$1"
    (while kill -0 -"$1"; do sleep 0.1; done; kill -KILL 0) &
    sleep "$2"
fi
kill -KILL -"$1"
kill -KILL 0
"""
NOWHERE = "/dev/null"


class Guard:
    """A process that ends a process group when we end without having dismissed it."""

    def __init__(self, kill_after: float) -> None:
        """Start it, with nobody to watch yet; with 0 seconds it kills without asking first."""
        self._kill_after = kill_after
        self._group = 0
        input_end, self._pipe = os.pipe()
        try:
            self._pid: int | None = os.posix_spawnp(
                "sh",
                ("sh", "-c", END_THE_GROUP),
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, input_end, 0),
                    (os.POSIX_SPAWN_OPEN, 1, NOWHERE, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, NOWHERE, os.O_WRONLY, 0),
                ],
                setpgroup=0,  # what the terminal sends is not for it
            )
        except OSError as error:
            os.close(self._pipe)
            raise Unavailable(f"sh, to guard the command, cannot be run: {error}") from None
        finally:
            os.close(input_end)

    def watch(self, group: int) -> None:
        """End that group if we are killed from now on."""
        self._group = group
        self._tell(self._kill_after)

    def hurry(self) -> None:
        """Kill at once if we are killed from now on: the group has been asked, and the lease ends."""
        self._tell(0)

    def dismiss(self) -> None:
        """Take it down; from now on it ends nobody. Safe to do twice."""
        if self._pid is None:
            return
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._pipe)
        self._pid = None

    def _tell(self, seconds: float) -> None:
        # Somebody may have killed the guard alone; the command does not suffer for that.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, f"{self._group} {f'{seconds:.3f}' if seconds else 0}\n".encode())
