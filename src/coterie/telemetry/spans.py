"""Spans of OpenTelemetry: one for waiting, one for holding, linked and with the same token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie import system
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, StatusCode, TracerProvider

    from coterie.telemetry.observer import Outcome

NANOSECONDS = 1_000_000_000
ERRORS = ("timeout", "deadlock", "failed")  # ends of a wait that a trace shows in red


class Spans:
    """Writes a span `coterie.wait` and a span `coterie.hold` for each lock that the program takes.

    Use it by `coterie.connect(url, observers=[Spans()])`. Both are children of the span in which the
    task or thread is when it gets the lock; the second has a link to the first. Attributes are
    `coterie.lock`, `coterie.shared`, `coterie.token`, and `coterie.outcome` or `coterie.lost`.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Write to a provider, by default to the one that the program has set."""
        try:
            from opentelemetry import trace  # noqa: PLC0415 - only here, to say what is missing
        except ModuleNotFoundError:
            raise ConfigError(
                "spans need opentelemetry-api, which is not there: pip install 'coterie[otel]'"
            ) from None
        self._trace = trace
        self._tracer = trace.get_tracer("coterie", tracer_provider=provider)

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> HoldSpan:
        """Write the wait, and begin the span of the hold."""
        wait = self._wait(name, "obtained", shared, wait_seconds, token)
        link = self._trace.Link(wait.get_span_context())
        hold = self._tracer.start_span("coterie.hold", links=[link])
        hold.set_attribute("coterie.lock", name)
        hold.set_attribute("coterie.shared", shared)
        hold.set_attribute("coterie.token", token)
        return HoldSpan(hold, self._trace.StatusCode.ERROR)

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        """Write a wait that did not end with the lock."""
        self._wait(name, outcome, shared, wait_seconds, None)

    def _wait(
        self, name: str, outcome: Outcome, shared: bool, seconds: float, token: int | None
    ) -> Span:
        now = int(system.wall() * NANOSECONDS)
        span = self._tracer.start_span("coterie.wait", start_time=now - int(seconds * NANOSECONDS))
        span.set_attribute("coterie.lock", name)
        span.set_attribute("coterie.shared", shared)
        span.set_attribute("coterie.outcome", outcome)
        if token is not None:
            span.set_attribute("coterie.token", token)
        if outcome in ERRORS:
            span.set_status(self._trace.StatusCode.ERROR, outcome)
        span.end(now)
        return span


class HoldSpan:
    """The span of a hold that goes on."""

    def __init__(self, span: Span, error: StatusCode) -> None:
        """Go on until the end is told."""
        self._span = span
        self._error = error

    def end(self, *, lost: bool) -> None:
        """End the span, in red if the lock was lost."""
        self._span.set_attribute("coterie.lost", lost)
        if lost:
            self._span.set_status(self._error, "lost")
        self._span.end()
