"""The bare lock table: a queue for each name, first come, first served."""

from __future__ import annotations

import asyncio
import collections
import sys
from typing import ClassVar


class TableServer(asyncio.Protocol):
    queues: ClassVar[dict[bytes, collections.deque[asyncio.Transport]]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(line[:1], line[1:])

    def _handle(self, verb: bytes, name: bytes) -> None:
        queue = self.queues.setdefault(name, collections.deque())
        if verb == b"A":
            queue.append(self._transport)
            if len(queue) > 1:
                return
        elif verb == b"R":
            queue.popleft()
            if queue:
                queue[0].write(b"A\n")
        if not queue:
            del self.queues[name]
        self._transport.write(verb + b"\n")


async def serve(host: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(TableServer, host, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
