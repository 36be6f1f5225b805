"""The pages as one application: files of this package, and the questions that they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from coterie.dashboard import ASSETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import BaseRoute


class Json(Response):
    """A struct as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the value."""
        return msgspec.json.encode(content)


def page(path: str, file: Path) -> Route:
    """Serve one file under an address of its own."""

    async def answer(_: Request) -> Response:
        return FileResponse(file)

    return Route(path, answer)


def make_app(routes: Sequence[BaseRoute], more_assets: Sequence[tuple[str, str]] = ()) -> Starlette:
    """Put the assets beside these routes; more are looked for in folders of packages, named in pairs."""
    files = StaticFiles(directory=ASSETS, packages=list(more_assets))
    return Starlette(routes=[*routes, Mount("/assets", files, name="assets")])
