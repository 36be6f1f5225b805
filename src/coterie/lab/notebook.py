"""How a notebook shows a run, a verdict and a wait-for graph.

Their classes know no pictures. `import coterie.lab` registers the pictures with IPython's formatters.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Protocol

from coterie.diagram.space_time import space_time
from coterie.diagram.wait_for import draw_wait_for
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie.lab.explore.verdict import Verdict
    from coterie.trace import Trace

MOVES_MAX = 40  # each is looked at for a moment, and the reader waits for all of them
BYTES_MAX = 300_000  # that a notebook keeps of one picture
MILLISECONDS = 200  # for what one place leads to
HEIGHT = 640


class Formatter(Protocol):
    """What this module uses of a formatter of IPython."""

    def for_type_by_name(
        self, type_module: str, type_name: str, func: Callable[[Any], str | None], /
    ) -> object:
        """Use a function for a class, which need not be imported yet."""


def register(formatters: Mapping[str, Formatter]) -> None:
    """Register the pictures with formatters, which are found by their media types."""
    picture, page = formatters["image/svg+xml"], formatters["text/html"]
    picture.for_type_by_name("coterie.trace", "Trace", space_time)
    page.for_type_by_name("coterie.trace", "Trace", live_run)
    picture.for_type_by_name(
        "coterie.lab.scenario.performance", "Performance", lambda it: space_time(it.trace)
    )
    page.for_type_by_name(
        "coterie.lab.scenario.performance", "Performance", lambda it: live_run(it.trace)
    )
    page.for_type_by_name("coterie.lab.explore.verdict", "Verdict", show_verdict)
    picture.for_type_by_name("coterie.algorithms.deadlock.wait_for", "Graph", draw_wait_for)


def show_verdict(verdict: Verdict) -> str:
    """Return the verdict in words, with the counterexample to be played, or else drawn."""
    said = f"<p><strong>{verdict.verdict}</strong>: {html.escape(verdict.reason)}</p>"
    said += (
        f"<p>{verdict.states:,} states, {verdict.transitions:,} moves, depth {verdict.depth}</p>"
    )
    found = verdict.counterexample
    return said if found is None else said + (live_run(found) or space_time(found))


def live_run(trace: Trace) -> str | None:
    """Return a run as a live page, in a frame that can reach nothing outside it.

    Return None if the run is too long, if no hand can play it, or without NumPy: then the picture is shown.
    """
    try:
        from coterie.lab.play.runs.fork import address_of  # noqa: PLC0415 - needs numpy
        from coterie.lab.web.file import run_page  # noqa: PLC0415 - as above
    except (ImportError, ConfigError):
        return None
    try:
        run = address_of(trace)
        if len(run.moves) > MOVES_MAX:
            return None
        page = run_page(run.first, run.moves, milliseconds=MILLISECONDS)
    except UsageError:
        return None
    if len(page) > BYTES_MAX:
        return None
    # Without allow-same-origin the page is a stranger to the notebook: it cannot read or change it.
    return (
        f'<iframe sandbox="allow-scripts" title="{html.escape(run.first)}" srcdoc="{html.escape(page)}"'
        f' style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )
