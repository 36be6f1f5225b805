"""Learning the configuration from several nodes at once: one answer is enough, the newest counts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.change.force import check_force, force
from coterie.cluster.change.survey import look, look_for_spares
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.discovery import OTHERS_SECONDS_MAX, discover
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import Address, parse_address
from coterie.errors import ChangeConflict, UsageError
from tests.cluster.changed_cluster import fleet
from tests.cluster.local_cluster import document, running
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LATE_SECONDS = 0.01


@contextlib.asynccontextmanager
async def slow_line(address: Address, seconds: float = LATE_SECONDS) -> AsyncIterator[Address]:
    """Stand before a node, and let everything arrive late."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(65536):
                await asyncio.sleep(seconds)
                writer.write(content)
        finally:  # also where the loop ends before what is on its way has come
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


@in_loop
async def test_a_removed_node_that_has_missed_it_does_not_hide_the_newest_configuration(
    tmp_path: Path,
) -> None:
    """It is back with its old disk, and the first to answer."""
    async with fleet(tmp_path) as made:
        await made.join("d")
        first = await made.look()
        await made.stop("a")
        assert await made.command("replace", "a", made.at("d"), url=made.url_at("b")) == 0
        assert (await made.start("a")).voting.voter.number == 1
        assert await look_for_spares(make_visit(made.url_at("d")), first) == []  # it votes by now
        stale, newest = parse_address(made.addresses["a"]), parse_address(made.addresses["d"])
        cluster, security = made.config.membership.cluster, made.config.security

        async with slow_line(newest) as late:
            found = await discover([stale, late], cluster, security)
            assert found.configuration.number == 3

        async with slow_line(newest, OTHERS_SECONDS_MAX) as later:
            visit = make_visit(f"{made.url_at('a')},{later}")
            standing = await look(visit)
            assert [voter.name for voter in standing.voters] == ["b", "c", "d"]
            assert [spare.name for spare in await look_for_spares(visit, standing)] == ["a"]
            with pytest.raises(UsageError, match="no voter is called 'a'"):
                check_force(standing, ["a"])

            before = await look(make_visit(made.url_at("b")))
            assert await made.command("set", "lease=2s", url=made.url_at("b")) == 0
            with pytest.raises(ChangeConflict, match="knows of configuration 4"):
                await force(before, [voter for voter in before.voters if voter.name == "b"])
