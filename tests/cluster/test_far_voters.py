"""Programs whose voters are far away, beside a node that is near and knows an old configuration."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.discovery import OTHERS_SECONDS_MAX
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import parse_address
from tests.cluster.changed_cluster import fleet
from tests.cluster.local_cluster import until
from tests.cluster.test_discovery import slow_line
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


@contextlib.asynccontextmanager
async def a_voter_and_a_spare(folder: Path) -> AsyncIterator[str]:
    """Run a spare that has not heard that all it knows was replaced, before a voter that is far."""
    async with fleet(folder, 1, lease=1.0) as made:
        await made.join("b")
        spare = await made.join("spare")
        assert await made.command("replace", "a", made.at("b")) == 0
        await made.stop("a")
        assert spare.voting.membership.configuration.number == 1
        async with slow_line(parse_address(made.addresses["b"]), OTHERS_SECONDS_MAX) as far:
            yield f"{made.url_at('spare')},{far}"


@in_loop
async def test_a_spare_that_is_near_does_not_hide_the_voters(tmp_path: Path) -> None:
    async with a_voter_and_a_spare(tmp_path) as url:
        assert (await make_visit(url).learn()).configuration.number == 3


@in_loop
async def test_a_program_that_was_led_astray_asks_with_more_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.VOTERS_SECONDS_MAX", 0.0)
    async with a_voter_and_a_spare(tmp_path) as url:
        engine = ClusterEngine(make_visit(url))
        await engine.open()
        supply = engine.groups[None].supply
        assert supply.membership.configuration.number == 1
        await until(supply.reaches_a_quorum, "the voter that is far")
        assert supply.membership.configuration.number == 3
        await engine.close()
