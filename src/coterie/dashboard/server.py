"""The pages on a port of this machine, from the first free one on, until the program ends."""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click
import uvicorn

from coterie.dashboard.guard import Guard
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

TOKEN_BYTES = 16  # of a token in the address of a page
LOOPBACK = ("127.0.0.1", "::1")
PORTS_TRIED = 20
LEADING = """<!doctype html><meta charset="utf-8"><title>coterie</title>
<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">open the page</a>
"""
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

    def __init__(
        self, app: ASGIApp, port: int, tries: int = 1, *, token: str | None = None
    ) -> None:
        """Listen at this port, or the first free one of so many; nothing is answered yet.

        Questions of pages are answered only with the token, if there is one.
        """
        self._token = token
        self._sockets = listen(port, tries)
        self.port: int = self._sockets[0].getsockname()[1]
        names = ("127.0.0.1", "localhost", "[::1]")
        config = uvicorn.Config(
            Guard(app, [f"{name}:{self.port}" for name in names], token),
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
        """Return the address of a page, without the token."""
        return f"http://127.0.0.1:{self.port}{page}"

    def opening_address(self, page: str = "/") -> str:
        """Return the address that opens a page: with the token, where there is one.

        It stands behind the `#`: what is there browsers send to no server, nor name to one in a `Referer`.
        """
        return (
            self.address(page)
            if self._token is None
            else f"{self.address(page)}#token={self._token}"
        )

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


@contextlib.contextmanager
def address_file(address: str) -> Iterator[Path]:
    """Write a file that leads a browser to an address, and that other users cannot read.

    The command line of a browser can be read by all users of a machine, and a log by many: both name the file.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR") or None
    with tempfile.TemporaryDirectory(
        prefix="coterie-", dir=runtime, ignore_cleanup_errors=True
    ) as folder:
        file = Path(folder) / "open.html"
        file.write_text(LEADING.format(html.escape(address, quote=True)), encoding="utf-8")
        yield file


def show(
    app: ASGIApp,
    port: int | None,
    usual: int,
    page: str,
    *,
    browser: bool,
    token: str | None = None,
) -> None:
    """Serve pages until Ctrl-C: print the address, and open it where a person would see it.

    Without a port the usual one counts, or the next that is free; a port that was chosen has to be free.
    """
    tries, first = (PORTS_TRIED, usual) if port is None else (1, port)
    server = WebServer(app, first, tries, token=token)
    if port is None and server.port != usual:
        click.echo(f"port {usual} is taken: using {server.port}", err=True)
    address = server.opening_address(page)
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        click.echo(address)
        if browser and sys.stdout.isatty():
            if token is not None:
                address = stack.enter_context(address_file(address)).as_uri()
            # A browser of the terminal keeps its caller waiting, and asks us meanwhile.
            opening = Thread(target=webbrowser.open, args=(address,), daemon=True)
            opening.start()
        asyncio.run(server.serve())
