"""One server of ZooKeeper, as it describes itself: by the command `srvr`, which needs no session."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from typing import TYPE_CHECKING

from coterie.engines.queue.server import ServerNode
from coterie.engines.zookeeper.connection import CALL_SECONDS_MAX, tls_settings

if TYPE_CHECKING:
    from coterie.engines.queue.url import ServerUrl

ANSWER_BYTES_MAX = 1 << 16
CLOSED = "it has closed the connection"


async def describe(url: ServerUrl) -> ServerNode:
    """Ask the one server that the URL names."""
    tls = _context(url)
    host, port = url.addresses[0]
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(b"srvr")
                answer = (await reader.read(ANSWER_BYTES_MAX)).decode(errors="replace")
            finally:
                writer.close()
    except TimeoutError:
        return ServerNode(url.shown, trouble=f"no answer in {CALL_SECONDS_MAX:g} s")
    except ssl.SSLError as error:
        return ServerNode(url.shown, trouble=f"TLS: {error.reason or error}")
    except OSError as error:
        known = (
            os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        )
        return ServerNode(url.shown, trouble=known or CLOSED)
    if not answer:
        return ServerNode(url.shown, trouble=CLOSED)
    if "not currently serving" in answer:
        return ServerNode(url.shown, trouble="it has no quorum, and serves no requests")
    # A server whose administrator allows no such command answers, too.
    version = re.search(r"version: ([\d.]+)", answer)
    role = re.search(r"^Mode: (\w+)", answer, re.MULTILINE)
    return ServerNode(url.shown, version[1] if version else "", role[1] if role else "")


def _context(url: ServerUrl) -> ssl.SSLContext | None:
    settings = tls_settings(url)
    if not settings:
        return None
    context = ssl.create_default_context(cafile=settings["ca"])
    if settings["certfile"]:
        context.load_cert_chain(settings["certfile"], settings["keyfile"])
    return context
