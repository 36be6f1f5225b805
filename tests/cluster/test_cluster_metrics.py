"""The figures that a node shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from typing import TYPE_CHECKING

import coterie
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.runtime.logs import JsonFormatter
from coterie.cluster.voter import storage
from coterie.telemetry.text import Metric, Sample, gauge, render
from tests.cluster.local_cluster import document, running, until, url_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SAMPLE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+$')


def test_the_text_format_of_prometheus_is_kept() -> None:
    text = render(
        [gauge("a", "First.", 1.5), Metric("b", "counter", "Second.", [Sample({"x": 'q"\\\n'}, 2)])]
    )
    assert text.splitlines() == [
        "# HELP coterie_a First.",
        "# TYPE coterie_a gauge",
        "coterie_a 1.5",
        "# HELP b Second.",
        "# TYPE b counter",
        r'b{x="q\"\\\n"} 2',
    ]


async def get(port: int, request: bytes) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return head, body


def test_a_node_shows_its_figures_over_http() -> None:
    made = document(3)
    (port,) = free_ports(1)
    made["nodes"]["a"]["metrics"] = f"127.0.0.1:{port}"
    config = convert(made)

    async def main() -> None:
        async with (
            running(config),
            coterie.connect(url_of(config)) as coordinator,
            coordinator.lock("x"),
        ):
            head, body = await get(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert head.startswith("HTTP/1.1 200 OK")
            assert f"Content-Length: {len(body)}" in head
            samples = [line for line in body.splitlines() if not line.startswith("#")]
            assert all(SAMPLE.match(line) for line in samples), samples
            assert "coterie_voter_owned 1" in samples
            assert 'coterie_voter_messages_total{direction="sent",kind="Reply"} 1' in samples
            assert (await get(port, b"GET /x HTTP/1.1\r\n\r\n"))[0].startswith("HTTP/1.1 404")
            assert (await get(port, b"POST / HTTP/1.1\r\n\r\n"))[0].startswith("HTTP/1.1 405")
            assert await get(port, b"x" * 10_000 + b"\r\n\r\n") == ("", "")

    asyncio.run(main())


def test_a_node_shows_for_how_long_requests_wait() -> None:
    made = document(1)
    (port,) = free_ports(1)
    made["nodes"]["a"]["metrics"] = f"127.0.0.1:{port}"
    config = convert(made)

    async def figures() -> dict[str, float]:
        _, body = await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        pairs = (line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def main() -> None:
        async with (
            running(config) as (node,),
            coterie.connect(url_of(config)) as one,
            coterie.connect(url_of(config)) as two,
        ):
            async with one.lock("x"):
                assert (await figures())["coterie_voter_longest_wait_seconds"] == 0
                waiting = asyncio.ensure_future(two.lock("x").acquire())
                await until(lambda: node.voting.voter.ballots["x"].queue, "the request")
                first = (await figures())["coterie_voter_longest_wait_seconds"]
                second = (await figures())["coterie_voter_longest_wait_seconds"]
                assert 0 < first < second < 60, "it grows, and is in seconds"
            assert await waiting
            assert (await figures())["coterie_voter_longest_wait_seconds"] == 0

    asyncio.run(main())


def test_idle_scrapers_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.cluster.voter.metrics.REQUESTS_MAX", 3)
    (port,) = free_ports(1)
    config = document(1)
    config["nodes"]["a"]["metrics"] = f"127.0.0.1:{port}"

    async def main() -> None:
        async with running(convert(config)):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            for reader, _ in idle[:2]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b"", "the oldest go first"
            head, _ = await get(port, b"GET / HTTP/1.1\r\n\r\n")
            assert head.startswith("HTTP/1.1 200 OK")
            for _, writer in idle:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    asyncio.run(main())


def test_logs_are_json_on_request() -> None:
    error = ValueError("why")
    cause = (ValueError, error, None)
    record = logging.LogRecord("coterie", logging.WARNING, "", 1, "link to %s", ("a",), cause)
    entry = json.loads(JsonFormatter().format(record))
    assert entry["level"] == "warning"
    assert entry["message"] == "link to a"
    assert "ValueError: why" in entry["error"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])


def test_a_node_that_cannot_save_votes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(document(1, data="data"), tmp_path)

    async def main() -> None:
        failures: list[coterie.CoterieError] = []
        node = Node(config, "a", new_cluster=True, on_failure=failures.append)
        await node.start()
        try:
            async with coterie.connect(url_of(config)) as coordinator:

                def full(*_: object) -> None:
                    raise OSError(28, "No space left on device")

                monkeypatch.setattr(storage, "replace", full)
                waiting = asyncio.ensure_future(coordinator.lock("x").acquire())
                await until(lambda: failures, "the node to give up")
                monkeypatch.undo()
                assert not waiting.done()
                waiting.cancel()
        finally:
            await node.stop()
        (failure,) = failures
        assert "No space left on device" in str(failure)
        assert not (tmp_path / "data" / "a" / "memory").exists(), "it must not go on from here"

    asyncio.run(main())
