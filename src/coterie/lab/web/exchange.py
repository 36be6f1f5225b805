"""A question of a page read, and its answer written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from coterie.dashboard.app import Json
from coterie.lab.play.laboratory import SUPERSEDED
from coterie.lab.play.runs.address import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")


def page_of(request: Request) -> str:
    """Return the name that a page has given itself."""
    return request.headers.get("coterie-page", "")[:64]


async def read(request: Request, kind: type[T]) -> T | Refusal:
    """Decode a question."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Refusal(f"not a question: {error}")


def answer(value: Any) -> Response:
    """Write an answer; a question that a newer one has overtaken is a conflict."""
    if value is SUPERSEDED:
        return Json(value, 409)
    return Json(value, 400 if isinstance(value, Refusal) else 200)
