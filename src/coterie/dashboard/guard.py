"""What stands before every page: only this machine's own browser, on our own pages, is answered.

A page of another site that the user has open can make the browser call `127.0.0.1`. The rules against
that: `Host` must be the address that we serve, so that another name which was made to point here is
refused; an `Origin`, where there is one, must be ours; whatever takes a question is a POST of JSON,
which a foreign page cannot send without asking first, and we never allow it; and nothing under `/api` is
answered to a request that the browser says comes from another site, such as a picture of it.

Other users of this machine reach the same port. Where pages show what is not for all of them, they have a token:
nothing under `/api` is answered without it. It comes in a header that our scripts set, and not in a cookie: browsers
send cookies of a host to all of its ports, also to one that another user listens at. Pages, scripts and sheets
are the same everywhere, so they need no token.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 256 * 1024
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; frame-ancestors 'none';"
    " base-uri 'none'; form-action 'none'"
)
HEADERS = {
    # A new version of the program must not meet pages of the old one.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Wraps the pages: refuses what does not come from them, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], token: str | None = None) -> None:
        """Serve an application under these hosts, each with its port; questions need the token if there is one."""
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # neither a lifespan nor WebSockets are used

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self._admit(scope["method"], scope["path"], Headers(scope=scope))
        except HTTPException as refusal:
            answer = PlainTextResponse(f"{refusal.detail}\n", refusal.status_code)
            await answer(scope, receive, send_guarded)
        else:
            await self._app(scope, bounded(receive), send_guarded)

    def _admit(self, method: str, path: str, headers: Headers) -> None:
        # Compared whole: a pattern would let 127.0.0.1.example.org in.
        if headers.get("host", "") not in self._hosts:
            raise HTTPException(403, "this page is served on this machine only")
        if headers.get("origin", next(iter(self._origins))) not in self._origins:
            raise HTTPException(403, "another site may not ask")
        site = headers.get("sec-fetch-site", "none")
        if path.startswith("/api/") and site not in {"same-origin", "none"}:
            raise HTTPException(403, "another site may not ask")
        if path.startswith("/api/") and not self._knows_token(headers):
            raise HTTPException(
                401, "open the address that was printed: it has the token of this page"
            )
        if method == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise HTTPException(415, "send application/json")
        elif method not in {"GET", "HEAD"}:
            raise HTTPException(405, "only GET and POST are answered")

    def _knows_token(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        # In a time that does not tell how many of the letters are right.
        return kind.lower() == "bearer" and hmac.compare_digest(
            given.encode(), self._token.encode()
        )


def bounded(receive: Receive) -> Receive:
    """Refuse a body when more of it has come than a page ever sends."""
    taken = 0

    async def receive_bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY_BYTES_MAX:
            raise HTTPException(413, f"a question has at most {BODY_BYTES_MAX:,} bytes")
        return message

    return receive_bounded
