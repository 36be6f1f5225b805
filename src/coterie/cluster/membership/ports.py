"""Ports of this machine that no program listens on."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Return that many different ones; another program may still take one first."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
