"""The guard ends a command if we are killed: the lease is not renewed then, and the lock goes to others.

The guard is a shell that reads from a pipe of which only we have the other end, so its input ends
when we do, however that happens. The operating system does nothing of the kind by itself: it ends a
group of orphans only if one of them is stopped and no parent of the same session is left.
"""

from __future__ import annotations

import contextlib
import os
import signal

from coterie.errors import Unavailable

# Each line that it reads names the group to end and the seconds between TERM and KILL; the last line
# counts. A single sleep measures the time, since many short ones would add up to more. A loop beside
# it ends the guard once the group is gone: a later group may have the same number and must not be
# killed.
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
        """Start it with no group to watch yet; with 0 seconds it sends KILL without TERM before."""
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
            raise Unavailable(
                f"cannot run sh, which guards the command: {error.strerror}"
            ) from None
        finally:
            os.close(input_end)

    @property
    def pid(self) -> int | None:
        """The number of its process; None if it was dismissed."""
        return self._pid

    def watch(self, group: int) -> None:
        """End that group if we are killed from now on."""
        self._group = group
        self._tell(self._kill_after)

    def hurry(self) -> None:
        """Kill at once if we are killed from now on: TERM has been sent, and the lease ends."""
        self._tell(0)

    def dismiss(self) -> None:
        """End the guard; the group is safe from now on. Calling it twice does no harm."""
        if self._pid is None:
            return
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._pipe)
        self._pid = None

    def _tell(self, seconds: float) -> None:
        # The guard may have been killed by itself; the command goes on all the same.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, f"{self._group} {f'{seconds:.3f}' if seconds else 0}\n".encode())
