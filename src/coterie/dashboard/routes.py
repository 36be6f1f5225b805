"""The addresses of the dashboard: its page, the stream of changes, the picture of the waits, jobs, the end of a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.algorithms.deadlock.wait_for import Graph
from coterie.dashboard import ASSETS
from coterie.dashboard.app import Json, page
from coterie.dashboard.breaks import end_hold, right_at
from coterie.dashboard.jobs import JobBoard
from coterie.diagram.wait_for import draw_wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from coterie.dashboard.monitor import Monitor


def dashboard_routes(monitor: Monitor) -> list[Route]:
    """Serve one monitor."""

    async def stream(_: Request) -> Response:
        return StreamingResponse(_events(monitor), media_type="text/event-stream")

    board = JobBoard(monitor.url)

    async def jobs(_: Request) -> Response:
        return Json(await board.jobs())

    async def breaks(request: Request) -> Response:
        if request.method == "POST":
            return Json(await end_hold(monitor.url, await request.body()))
        return Json(right_at(monitor.url))

    async def graph(_: Request) -> Response:
        waits: Graph[Any] = monitor.view.graph if monitor.view else Graph({})
        return Response(draw_wait_for(waits), media_type="image/svg+xml")

    return [
        page("/cluster", ASSETS / "cluster.html"),
        Route("/api/cluster/stream", stream),
        Route("/api/cluster/graph.svg", graph),
        Route("/api/cluster/jobs", jobs),
        Route("/api/cluster/break", breaks, methods=["GET", "POST"]),
    ]


async def _events(monitor: Monitor) -> AsyncIterator[bytes]:
    """Write updates as server-sent events, which browsers and curl understand."""
    async for kind, update in monitor.updates():
        yield b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(update))
