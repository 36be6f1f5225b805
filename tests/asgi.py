"""Asks an application directly, without a socket: what a browser would send, and what it would get."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message

HOST = "127.0.0.1:8420"


@dataclass
class Answer:
    status: int = 0
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""


def ask(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Send one request and collect the answer."""
    answer = Answer()
    sent = {"host": HOST, **(headers or {})}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.partition("?")[0],
        "raw_path": path.encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(key.lower().encode(), value.encode()) for key, value in sent.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8420),
    }

    parts = [body]

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()  # the browser waits for the answer
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert not answer.status, "an answer has one beginning"
            answer.status = message["status"]
            answer.headers = Headers(raw=message["headers"])
        else:
            answer.body += message.get("body", b"")

    async def call() -> None:
        await app(scope, receive, send)

    asyncio.run(call())
    return answer
