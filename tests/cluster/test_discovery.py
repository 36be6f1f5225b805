"""Learning the configuration from several nodes at once, of which one answer is enough."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from coterie.cluster.admin.connection import discover
from coterie.cluster.config import convert
from coterie.cluster.membership import Address
from tests.cluster.local_cluster import document, running
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

LATE_SECONDS = 0.01


@contextlib.asynccontextmanager
async def slow_line(address: Address) -> AsyncIterator[Address]:
    """Stand before a node, and let everything arrive late."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(65536):
            await asyncio.sleep(LATE_SECONDS)
            writer.write(content)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(address.host, address.port)
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


@in_loop
async def test_no_node_takes_a_newcomer_that_has_its_answer_for_an_intruder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("COTERIE_SECRET", "a secret that is long enough")
    config = convert(document(), tmp_path)
    members = config.membership.members
    with caplog.at_level(logging.WARNING):
        async with running(config), slow_line(members[2].address) as far:
            near = [member.address for member in members[:2]]
            found = await discover([*near, far], config.membership.cluster, config.security)
            assert found == config.membership
    assert not [record for record in caplog.records if "prove itself" in record.getMessage()]
