"""The pages on a port of this machine, from the first free one on, until the program ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING

import click
import uvicorn

from coterie.dashboard.guard import Guard
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

LOOPBACK = ("127.0.0.1", "::1")
PORTS_TRIED = 20
SHUTDOWN_SECONDS = 1  # for answers under way; a stream of events would last


def listen(port: int, tries: int) -> list[socket.socket]:
    """Listen on this machine's own addresses, at this port or the first free one of the next.

    Raise `Unavailable` if none of so many is.
    """
    last = min(port + tries, 65536) - 1
    for candidate in range(port, last + 1):
        with contextlib.suppress(OSError):
            return _bind(candidate)
    ports = f"port {port}" if last == port else f"no port from {port} to {last}"
    raise Unavailable(f"{ports} is {'taken' if last == port else 'free'}: choose another")


def _bind(port: int) -> list[socket.socket]:
    """Bind both families where there are two; a browser may try either for `localhost`."""
    first = socket.create_server((LOOPBACK[0], port))
    sockets = [first]
    # Without IPv6, or with its port taken by another, IPv4 has to do.
    with contextlib.suppress(OSError):
        chosen = first.getsockname()[1]
        sockets.append(socket.create_server((LOOPBACK[1], chosen), family=socket.AF_INET6))
    return sockets


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """Serves pages beside whatever else the event loop does."""

    def __init__(self, app: ASGIApp, port: int, tries: int = 1) -> None:
        """Listen at this port, or the first free one of so many; nothing is answered yet."""
        self._sockets = listen(port, tries)
        self.port: int = self._sockets[0].getsockname()[1]
        names = ("127.0.0.1", "localhost", "[::1]")
        config = uvicorn.Config(
            Guard(app, [f"{name}:{self.port}" for name in names]),
            access_log=False,
            lifespan="off",
            log_config=None,  # the program's own
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ws="none",
        )
        self._server = _Server(config)

    def address(self, page: str = "/") -> str:
        """Return the address of a page."""
        return f"http://127.0.0.1:{self.port}{page}"

    async def serve(self) -> None:
        """Answer until the task is cancelled or `stop` is called."""
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            for each in self._sockets:
                each.close()

    def stop(self) -> None:
        """Take no more requests, and let `serve` return."""
        self._server.should_exit = True


def show(app: ASGIApp, port: int | None, usual: int, page: str, *, browser: bool) -> None:
    """Serve pages until Ctrl-C: print the address, and open it where a person would see it.

    Without a port the usual one counts, or the next that is free; a port that was chosen has to be free.
    """
    server = WebServer(app, usual, PORTS_TRIED) if port is None else WebServer(app, port)
    if port is None and server.port != usual:
        click.echo(f"port {usual} is taken: using {server.port}", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        click.echo(server.address(page))
        if browser and sys.stdout.isatty():
            # A browser of the terminal keeps its caller waiting, and asks us meanwhile.
            opening = Thread(target=webbrowser.open, args=(server.address(page),), daemon=True)
            opening.start()
        asyncio.run(server.serve())
