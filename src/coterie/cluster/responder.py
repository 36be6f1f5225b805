"""The least of HTTP that a metrics scraper needs: every GET is answered with one text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.membership import Address

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 5.0


async def serve_text(address: Address, text: Callable[[], str]) -> asyncio.Server:
    """Listen on `address`; `/metrics` and `/` give the text of the moment."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, text))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a caller that does not speak HTTP gets no answer
        finally:
            writer.close()

    return await asyncio.start_server(answer, address.host, address.port, limit=REQUEST_BYTES_MAX)


def _response(head: bytes, text: Callable[[], str]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        status, body = "405 Method Not Allowed", "only GET\n"
    elif path not in (b"/", b"/metrics"):
        status, body = "404 Not Found", "see /metrics\n"
    else:
        status, body = "200 OK", text()
    content = body.encode()
    lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(content)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + content
