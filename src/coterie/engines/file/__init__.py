"""Locks for the processes of one machine, on locks of its operating system; nothing to run.

Guaranteed, as long as no file is removed from the directory and all processes share one kernel:
at most one holder (or several in shared mode) at a time; tokens that only grow, also across
`kill -9` and power failures; service in the order in which the places in the queue were drawn; the
end of a process, however it ends, frees what it held and withdraws what it asked for, at once.
There is no lease: a process that is stopped keeps its locks, and a hold never runs out.

The idea is a bakery. A task that wants a lock draws a number and leaves a ticket in the queue: a file
that its process keeps locked by `flock` as long as it lives. It may enter when no living ticket stands
before its own. The number is its fencing token.
"""

import sys

from coterie.errors import ConfigError

if sys.platform == "win32":
    raise ConfigError(
        "file: locks need a POSIX system (flock and named pipes), which Windows is not;"
        " connect to a coordinator on another machine"
    )

from coterie.engines.file.engine import FileEngine, make_engine

__all__ = ["FileEngine", "make_engine"]
