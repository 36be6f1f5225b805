"""Proofs as a stream: each clause as it is decided, the verdict, and pictures of what fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.dashboard.app import Json
from coterie.lab.web.exchange import page_of, read
from coterie.lab.web.stream import stream

if TYPE_CHECKING:
    from starlette.requests import Request

    from coterie.lab.play.proofs.solver_process import SolverProcess
    from coterie.lab.web.searches import Searches
    from coterie.lab.web.stream import Tell, Unwanted


class ProofText(msgspec.Struct, frozen=True):
    """A page as a reader has made it."""

    text: str


class ProofPages:
    """Answers the page of proofs."""

    def __init__(self, solver: SolverProcess, searches: Searches) -> None:
        """Wait for the solver in a thread that is there for it alone."""
        self._solver = solver
        self._searches = searches

    def routes(self) -> list[Route]:
        """Return the addresses that the page asks."""
        return [
            Route("/api/proofs", self.proofs),
            Route("/api/prove", self.prove, methods=["POST"]),
        ]

    async def proofs(self, _: Request) -> Response:
        """List what has a page, files that the user has named among them."""
        return Json(self._solver.pages())

    async def prove(self, request: Request) -> Response:
        """Prove, and tell of it line by line."""
        asked = await read(request, ProofText)

        def search(tell: Tell, unwanted: Unwanted) -> None:
            for line in self._solver.lines(asked.text, unwanted):
                tell(line)

        lines = stream(self._searches, page_of(request), search)
        return StreamingResponse(lines, media_type="application/x-ndjson")
