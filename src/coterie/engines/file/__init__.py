"""Locks for the processes of one machine, on locks of its operating system; nothing to run.

Guaranteed, as long as no file is removed from the directory and all processes share one kernel:
at most one holder (or several in shared mode) at a time; tokens that only grow, also across
`kill -9` and power failures; service in the order in which requests came; the end of a process,
however it ends, frees what it held and withdraws what it asked for, at once. There is no lease: a
process that is stopped keeps its locks, and a hold never runs out.

A lock is a byte of the file `words`, which its holder keeps locked; the byte is found by a hash of
the lock's name, so nothing is made or removed for a lock that is free (`directory/lock_file.py`). A task that has
to wait joins the queue of the lock, a file in which each waiter keeps its own place locked
(`directory/wait_queue.py`). The kernel drops the locks of a process when that ends: no record has to be believed
for exclusion or order. What people and deadlock detection see stands on the board of each program
(`directory/program_record.py`).
"""

import sys

from coterie.errors import ConfigError

if sys.platform == "win32":
    raise ConfigError(
        "file: locks need a POSIX system (byte locks and named pipes), which Windows is not;"
        " connect to a coordinator on another machine"
    )
