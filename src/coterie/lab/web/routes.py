"""The addresses of the laboratory: its page, and the questions that the page asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from coterie.dashboard.app import Json, make_app, page
from coterie.errors import CoterieError
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Superseded
from coterie.lab.web.check import CheckPages
from coterie.lab.web.exchange import page_of, read, refuse
from coterie.lab.web.exercises import ExercisePages
from coterie.lab.web.exports import ExportQuestion, export
from coterie.lab.web.file import OWN_ASSETS
from coterie.lab.web.proofs import ProofPages
from coterie.lab.web.record import RecordPages
from coterie.lab.web.searches import Searches
from coterie.lab.web.simulate import SimulatePages

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request

    from coterie.lab.play.laboratory import Laboratory
    from coterie.trace import Trace


class OpenQuestion(msgspec.Struct, frozen=True):
    """The fragment of an address."""

    address: str


class LabPages:
    """Answers the pages of one laboratory."""

    def __init__(self, laboratory: Laboratory, trace: Trace | None = None) -> None:
        """Begin with nothing asked; a trace is one to look at."""
        self._laboratory = laboratory
        self._trace = trace
        self._searches = Searches()
        self._checks = Searches()  # which take minutes: no other page waits for one
        self._simulations = Searches()  # which cannot be stopped on the way
        self._proofs = Searches()  # the solver works in a process of its own

    def close(self) -> None:
        """Stop what is searched, so that the program can end."""
        self._searches.close()
        self._checks.close()
        self._simulations.close()
        self._proofs.close()
        self._laboratory.solver.close()

    def app(self) -> Starlette:
        """Return the application: the page, the addresses that it asks, and their assets."""
        app = make_app(self.routes(), [("coterie.lab.web", "assets")])
        for kind in (CoterieError, Superseded):
            app.add_exception_handler(kind, refuse)
        return app

    def routes(self) -> list[Route]:
        """Return the page and the addresses that it asks."""
        questions = [self.open, self.play, self.code, self.fates, self.way, self.export]
        return [
            page("/", OWN_ASSETS / "lab.html"),
            Route("/api/catalogue", self.catalogue),
            *ExercisePages(self._laboratory, self._searches).routes(),
            *(Route(f"/api/{each.__name__}", each, methods=["POST"]) for each in questions),
            *SimulatePages(self._simulations).routes(),
            *CheckPages(self._checks).routes(),
            *ProofPages(self._laboratory.solver, self._proofs).routes(),
            *RecordPages(self._trace).routes(),
        ]

    async def catalogue(self, _: Request) -> Response:
        """List the algorithms."""
        return Json(await asyncio.to_thread(self._laboratory.catalogue))

    async def open(self, request: Request) -> Response:
        """Read an address."""
        asked = await read(request, OpenQuestion)
        return Json(self._laboratory.open(asked.address))

    async def play(self, request: Request) -> Response:
        """Play a run."""
        asked = await read(request, Question)
        # Quick, but not so quick that all other pages should wait for it.
        return Json(await asyncio.to_thread(self._laboratory.play, asked))

    async def code(self, request: Request) -> Response:
        """Show what the last move has executed."""
        asked = await read(request, Question)
        return Json(await asyncio.to_thread(self._laboratory.code, asked))

    async def fates(self, request: Request) -> Response:
        """Search what a place in a run leads to."""
        return await self._search(request, self._laboratory.fates)

    async def way(self, request: Request) -> Response:
        """Search the shortest way to a violation."""
        return await self._search(request, self._laboratory.way)

    async def _search(
        self, request: Request, search: Callable[[Question, Callable[[], bool]], object]
    ) -> Response:
        asked = await read(request, Question)
        page = page_of(request)
        return Json(await self._searches.run(page, lambda cancelled: search(asked, cancelled)))

    async def export(self, request: Request) -> Response:
        """Write a run down as a file."""
        asked = await read(request, ExportQuestion)
        written = await self._searches.queue(lambda cancelled: export(asked, cancelled))
        saved = {"Content-Disposition": f'attachment; filename="{written.name}"'}
        return Response(written.content, media_type=written.kind, headers=saved)
