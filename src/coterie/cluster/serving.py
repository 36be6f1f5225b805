"""How a listening server ends without leaving anybody at the door."""

from __future__ import annotations

import asyncio


async def stop_serving(server: asyncio.Server) -> None:
    """Accept nobody any more, and close the server; who was accepted before is connected.

    A connection gets its transport a turn after it was accepted. A server of Python 3.11 that is
    closed in between refuses the transport, and the socket stays open until it is collected
    (CPython issue 109564).
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    await asyncio.sleep(0)
    server.close()
    await asyncio.sleep(0)  # the protocols hear of their transports
