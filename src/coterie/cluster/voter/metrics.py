"""Metrics in the text format of Prometheus, and the little HTTP that a scraper needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.runtime import clock
from coterie.cluster.voter.report import abstention
from coterie.cluster.wire.frame_counts import frame_counts
from coterie.telemetry.text import Metric, Sample, counter, gauge, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.algorithms.mutex.quorum.leased.ballot import Ballot
    from coterie.cluster.voter.host import VoterHost
    from coterie.cluster.wire.address import Address

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 5.0
REQUESTS_MAX = 32  # at a time; the oldest go first


def node_metrics(voting: VoterHost, program: Iterable[Metric] = ()) -> str:
    """Return the figures of a voting node, and of the program that it is part of."""
    return render([*_voter(voting), *program])


def _voter(voting: VoterHost) -> list[Metric]:
    voter, now = voting.voter, system.now()
    ballots = list(voter.ballots.values())
    known = abstention(voting)
    reasons = {
        "restart": bool(known.reason) and voting.votes and not voting.recovers,
        "empty data directory": bool(known.reason) and voting.recovers,
        "spare": not voting.votes,
    }
    configuration = voting.membership.configuration
    lagging = sum(link.number < voter.number for link in voter.sessions.values())
    messages = frame_counts("voter_messages", voting.received, voting.programs.sent)
    return [
        gauge("voter_up_seconds", "Time since the node started.", now - voting.started),
        gauge(
            "voter_abstains_seconds", "Time until the voter votes again; 0 normally.", known.seconds
        ),
        Metric(
            "coterie_voter_abstains",
            "gauge",
            "Whether the voter gives no votes for this reason.",
            [Sample({"reason": reason}, holds) for reason, holds in reasons.items()],
        ),
        gauge("voter_connections", "Open connections.", len(voting.programs.sinks)),
        gauge("voter_sessions", "Participants with a lease.", len(voter.sessions)),
        gauge("voter_owned", "Locks whose vote is given.", sum(bool(b.owners) for b in ballots)),
        gauge("voter_waiting", "Requests that wait here.", sum(len(b.queue) for b in ballots)),
        gauge(
            "voter_longest_wait_seconds",
            "About how long the oldest request that waits here has waited.",
            _longest_wait(voting, ballots),
        ),
        counter("voter_expired_sessions", "Leases that ran out.", voting.expired),
        gauge("voter_configuration", "Number of the configuration.", configuration.number),
        gauge(
            "voter_configuration_joint",
            "Whether a change is under way that needs the old and the new voters.",
            configuration.is_joint,
        ),
        gauge("voter_lagging", "Participants that count by an earlier configuration.", lagging),
        messages,
    ]


def _longest_wait(voting: VoterHost, ballots: Iterable[Ballot]) -> float:
    """Return the seconds that the oldest request has waited, as far as logical clocks tell.

    An age is the reading of a clock that follows the time; a holder that asks for one more vote does
    not wait.
    """
    ages = [claim.age for ballot in ballots for claim in ballot.queue if not claim.hold]
    if not ages:
        return 0.0
    return max(0, voting.clock() - min(ages)) / clock.NUMBERS_PER_SECOND


async def serve_text(address: Address, text: Callable[[], str]) -> asyncio.Server:
    """Listen on `address`; `/metrics` and `/` give the text of the moment."""
    open_requests: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_requests) >= REQUESTS_MAX:
            oldest = next(iter(open_requests))
            del open_requests[oldest]
            oldest.transport.abort()
        open_requests[writer] = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, text))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a caller that does not speak HTTP gets no answer
        finally:
            open_requests.pop(writer, None)
            writer.close()

    return await asyncio.start_server(answer, address.host, address.port, limit=REQUEST_BYTES_MAX)


def _response(head: bytes, text: Callable[[], str]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        status, body = "405 Method Not Allowed", "only GET\n"
    elif path not in (b"/", b"/metrics"):
        status, body = "404 Not Found", "see /metrics\n"
    else:
        status, body = "200 OK", text()
    content = body.encode()
    lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(content)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + content
