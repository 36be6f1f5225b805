"""A node with an empty disk that cannot ask the others: whatever the reason, it has heard nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.cluster.membership.config import convert
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.recovery import recover
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.security import Security
from tests.cluster.local_cluster import document
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

TURNS = 50  # of the event loop, far more than it takes to read the files


@in_loop
async def test_certificates_that_are_being_renewed_are_no_answer_of_the_others(
    tmp_path: Path,
) -> None:
    files: dict[str, Any] = {name: str(tmp_path / name) for name in ("ca", "certificate", "key")}
    config = msgspec.structs.replace(convert(document(3), tmp_path), security=Security(**files))
    storage = Storage(tmp_path / "a")
    storage.open()
    voting = VoterHost(config.membership, "a", storage, lambda _: None, reach=lambda *_: None)
    voting.start()
    recovering = asyncio.ensure_future(recover(config, voting))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert voting.recovers
    assert not recovering.done()
    recovering.cancel()
    await asyncio.wait({recovering})
    voting.stop()
    storage.close()
