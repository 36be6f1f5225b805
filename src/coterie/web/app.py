"""The pages as one application: files of this package, and the questions that they ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

ASSETS = Path(__file__).parent / "assets"


class Json(Response):
    """A struct as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the value."""
        return msgspec.json.encode(content)


def page(path: str, file: str) -> Route:
    """Serve one file of the assets under an address of its own."""

    async def answer(_: Request) -> Response:
        return FileResponse(ASSETS / file)

    return Route(path, answer)


def make_app(routes: Sequence[BaseRoute]) -> Starlette:
    """Put the assets beside these routes."""
    assets = Mount("/assets", StaticFiles(directory=ASSETS), name="assets")
    return Starlette(routes=[*routes, assets])
