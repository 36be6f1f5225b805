"""A store in a real process that is killed (kill -9) loses nothing that it has acknowledged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie.transactions import Store
from tests.transactions.crashing import audit, crash

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("scheme", ["two-phase-locking", "multiversion", "optimistic"])
def test_no_acknowledged_commit_is_lost_and_no_transfer_is_half(
    scheme: str, tmp_path: Path
) -> None:
    """Four kills, one after another on the same file; `benchmarks/transactions/crashes.py` has more."""
    path = tmp_path / "bank"
    told: list[str] = []
    for seed in range(4):
        told += crash(path, scheme, seed, commits=12)
        books = asyncio.run(audit(path, scheme, told))
        assert not books.complaint, f"seed {seed}"
        assert books.receipts >= len(told) >= 12 * (seed + 1)


def test_the_audit_notices_a_lost_receipt_and_a_half_transfer(tmp_path: Path) -> None:
    """The control: change the books behind the back of the bank."""
    path = tmp_path / "bank"
    told = crash(path, "multiversion", 0, commits=5)
    books = asyncio.run(audit(path, "multiversion", [*told, "receipt/of/nobody"]))
    assert books.complaint.startswith("lost after they were acknowledged: ['receipt/of/nobody']")
    asyncio.run(_tamper(path))
    assert "half transfers" in asyncio.run(audit(path, "multiversion", told)).complaint


async def _tamper(path: Path) -> None:
    async with Store("multiversion", path=path) as store, store.transaction() as t:
        await t.put("account/0", await t.get("account/0") + 1)
