"""A recorded run in a notebook: the page of the laboratory, in a frame that can reach nothing outside it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from coterie.lab.runs.address import Refusal
from coterie.lab.runs.fork import address_of
from coterie.web.lab.file import run_page

if TYPE_CHECKING:
    from coterie.trace import Trace

MOVES_MAX = 40  # each is looked at for a moment, and the reader waits for all of them
BYTES_MAX = 300_000  # that a notebook keeps of one picture
MILLISECONDS = 200  # for what one place leads to
HEIGHT = 640


def live_run(trace: Trace) -> str | None:
    """Return a run as a live page; None if it is too long, or no hand can play it."""
    run = address_of(trace)
    if isinstance(run, Refusal) or len(run.moves) > MOVES_MAX:
        return None
    page = run_page(run.first, run.moves, milliseconds=MILLISECONDS)
    if isinstance(page, Refusal) or len(page) > BYTES_MAX:
        return None
    # Without allow-same-origin the page is a stranger to the notebook: it cannot read or change it.
    return (
        f'<iframe sandbox="allow-scripts" title="{html.escape(run.first)}" srcdoc="{html.escape(page)}"'
        f' style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )
