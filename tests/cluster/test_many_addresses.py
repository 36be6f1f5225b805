"""A node that may be at many addresses: it is called at all of them, a moment apart, and not at one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cluster.membership.config import convert
from coterie.cluster.wire.address import Address
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import Link
from tests.cluster.local_cluster import document, running
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from coterie.cluster.membership.config import Config

pytestmark = pytest.mark.usefixtures("open_and_guarded")

LEASE = 10.0
SOON_SECONDS = 4.0  # less than two calls in vain take


@contextlib.contextmanager
def hanging(number: int) -> Iterator[list[Address]]:
    """Listen at so many addresses, and say nothing to those who call."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            made.append(Address(*listener.getsockname()))
        yield made


def link_to(config: Config, addresses: Sequence[Address], **more: Any) -> Link:
    """Make a link to the only node of a cluster, which may be at any of these addresses."""
    membership, security = config.membership, config.security

    def caller(disk: str) -> Caller:
        credentials = membership.credentials(security.secret_bytes())
        return Caller(credentials, "participant", new_identity("test:1"), "a", disk=disk)

    handlers = {"decode": bytes, "receive": print, "connected": print, **more}
    tls = security.client_context()
    return Link("a", lambda: addresses, caller, tls, lambda: LEASE, **handlers)


def test_a_node_behind_nine_addresses_that_hang_is_reached_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It took half a minute: each call in vain lasts for seconds."""
    config = convert(document(1, data="data", lease=LEASE), tmp_path)

    async def main() -> None:
        async with running(config):
            with hanging(9) as others:
                link = link_to(config, [*others, config.membership.members[0].address])
                link.start()
                await passing(SOON_SECONDS)
                assert link.is_up
                await passing(LEASE)  # what is left of the other calls does no harm
                assert link.is_up
                await link.stop()

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    assert not caplog.records


def test_one_connection_is_left_where_two_addresses_lead_to_the_same_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second would take the place of the first, and its end would look like that of the program."""
    config = convert(document(1, data="data", lease=LEASE), tmp_path)
    connected: list[object] = []

    async def main() -> None:
        async with running(config) as nodes:
            address = config.membership.members[0].address
            same = Address("::ffff:127.0.0.1", address.port)
            monkeypatch.setattr("coterie.cluster.wire.calls.STAGGER_SECONDS", 0.0)
            link = link_to(config, [address, same], connected=connected.append)
            link.start()
            await passing(SOON_SECONDS)
            assert link.is_up
            assert len(connected) == 1
            assert nodes[0].voting.programs.connected() == ["test:1"]
            await link.stop()

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    said = [record.getMessage() for record in caplog.records]
    assert all(
        "hung up in the handshake" in line for line in said
    )  # of TLS: no word can be said then


def test_all_that_is_wrong_at_the_addresses_is_said_when_no_call_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = convert(document(1, data="data", lease=LEASE), tmp_path)

    async def main() -> None:
        async with running(config):
            with hanging(2) as others:
                link = link_to(config, [*others, config.membership.members[0].address])
                link.insist_on("the disk that was lost")
                link.start()
                await link.tried.wait()
                await passing(LEASE)
                for address in others:
                    assert str(address) in link.trouble
                assert "another data directory than the voter of that name" in link.trouble
                await link.stop()

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    assert caplog.text.count("link to a is down") == 1


def test_a_link_that_is_stopped_while_it_calls_leaves_no_task_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = convert(document(1, lease=LEASE))

    async def main() -> None:
        before = asyncio.all_tasks()
        with hanging(3) as others:
            link = link_to(config, others)
            link.start()
            await passing(1.0)
            await link.stop()
            assert asyncio.all_tasks() == before

    run(monkeypatch, main)
