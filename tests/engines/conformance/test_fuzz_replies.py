"""Answers that arrive mutilated end in errors of ours: no task dies, and nothing hangs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.fuzz_replies import ENGINES, fuzz

if TYPE_CHECKING:
    from coterie.lab.servers.supplier import Supplier

pytestmark = pytest.mark.real

SEEDS = range(4)
LIMITS = (
    "coterie.engines.etcd.server.CALL_SECONDS_MAX",
    "coterie.engines.mariadb.server.CALL_SECONDS_MAX",
    "coterie.engines.nats.server.CALL_SECONDS_MAX",
    "coterie.engines.postgresql.connection.CALL_SECONDS_MAX",
    "coterie.engines.s3.server.CALL_SECONDS_MAX",
    "coterie.engines.redis.server.CALL_SECONDS_MAX",
)


def test_no_answer_that_makes_no_sense_makes_a_program_stumble(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    if supplier.name not in ENGINES:
        pytest.skip(f"{supplier.name}: no server whose answers we read")
    for limit in LIMITS:
        monkeypatch.setattr(limit, 0.5)
    total: Counter[str] = Counter()
    for seed in SEEDS:
        total += asyncio.run(fuzz(supplier, seed))
    assert total["changed"] >= len(SEEDS)
    assert total["Unavailable"]
