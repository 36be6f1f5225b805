"""Something that greets as PostgreSQL does: one of another version, or a pooler that shares one session."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING

from coterie.lab.servers.postgresql import POOLED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SSL_REQUEST = 80877103
VERSION = 3 << 16


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def texts(*parts: str) -> bytes:
    return b"".join(part.encode() + b"\0" for part in parts)


class Pooler:
    """Gives the statements of all clients to one session, each when no other is under way."""

    def __init__(self, target: int, version: str) -> None:
        self._target = target
        self._version = version
        self._turn = asyncio.Lock()
        self._session: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._greet(reader, writer)
            while True:
                first = await reader.read(65536)
                if not first or first[:1] == b"X":
                    break
                async with self._turn:
                    await self._pass(first, reader, writer)
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            content = await reader.readexactly(size - 4)
            if struct.unpack("!i", content[:4]) != (SSL_REQUEST,):
                break
            writer.write(b"N")
        writer.write(message(b"R", struct.pack("!i", 0)))
        known = {"server_version": self._version, "client_encoding": "UTF8"}
        known |= {"standard_conforming_strings": "on", "integer_datetimes": "on"}
        for name, value in known.items():
            writer.write(message(b"S", texts(name, value)))
        writer.write(message(b"K", struct.pack("!ii", 1, 2)))
        writer.write(message(b"Z", b"I"))

    async def _pass(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass on one transaction: until the server is ready for the next."""
        if self._session is None:
            self._session = await self._connect()
        answers, server = self._session
        server.write(first)
        more = asyncio.create_task(self._pass_on(reader, server))
        try:
            while True:
                kind, content = await read(answers)
                writer.write(message(kind, content))
                if (kind, content) == (b"Z", b"I"):
                    return
        finally:
            more.cancel()
            await asyncio.wait([more])

    async def _pass_on(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            server.write(data)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        content = struct.pack("!i", VERSION) + texts("user", POOLED, "database", "postgres", "")
        writer.write(struct.pack("!i", len(content) + 4) + content)
        while (await read(reader))[0] != b"Z":
            pass
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, size = struct.unpack("!ci", await reader.readexactly(5))
    return kind, await reader.readexactly(size - 4)


@contextlib.asynccontextmanager
async def pooler(target: int, version: str = "18.1") -> AsyncIterator[int]:
    """Listen, and yield the port."""
    made = Pooler(target, version)
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await made.close()
