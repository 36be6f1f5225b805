"""`coterie status` and the dashboard say the same of a node."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.cluster.membership.abstention import ALONE, SPARE, STARTED
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.voter_frames import Abstention
from coterie.dashboard.monitor import First, Monitor
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from coterie.dashboard.snapshot import Snapshot


async def snapshot_of(url: str) -> Snapshot:
    updates = Monitor(url).updates()
    try:
        _, first = await anext(updates)
    finally:
        await updates.aclose()  # type: ignore[attr-defined]
    assert isinstance(first, First)
    return first.snapshot


@pytest.mark.parametrize(
    ("abstention", "state", "printed"),
    [
        (Abstention(0.0, ""), "votes", "votes"),
        (Abstention(3.0, STARTED), "abstains", "abstains for 3.0 s"),
        (Abstention(math.inf, ALONE), "abstains: empty disk", "abstains: empty disk"),
        (Abstention(math.inf, SPARE), "spare", "spare"),
    ],
)
def test_a_node_has_one_state_in_words(
    abstention: Abstention,
    state: str,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = convert(document(1))
    url = url_of(config)

    async def main() -> Snapshot:
        async with running(config):
            monkeypatch.setattr("coterie.cluster.voter.report.abstention", lambda _: abstention)
            await asyncio.to_thread(run, ["status", "--url", url])
            return await snapshot_of(url)

    snapshot = asyncio.run(main())
    out, err = capsys.readouterr()
    _, row = out.splitlines()
    assert re.split(" {2,}", row)[2] == printed
    assert snapshot.nodes["a"].state == state
    assert err.strip() == f"cluster test: {snapshot.health}"
