"""A question of a page read, and the answer where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from coterie.dashboard.app import Json
from coterie.lab.play.runs.refusal import Refusal, Superseded

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")


def page_of(request: Request) -> str:
    """Return the name that a page has given itself."""
    return request.headers.get("coterie-page", "")[:64]


async def read(request: Request, kind: type[T]) -> T:
    """Decode a question; refuse a body that is none."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(f"not a question: {error}") from None


async def refuse(_: Request, error: Exception) -> Response:
    """Answer a question that was refused; one that a newer question has overtaken is a conflict."""
    return Json(refusal_of(error), 409 if isinstance(error, Superseded) else 400)


def refusal_of(error: Exception) -> dict[str, Any]:
    """Return the reason as a page reads it, with the refused move if there is one."""
    reason = "superseded" if isinstance(error, Superseded) else str(error)
    at, possible = (error.at, error.possible) if isinstance(error, Refusal) else (None, [])
    return {"error": reason, "at": at, "possible": possible}
