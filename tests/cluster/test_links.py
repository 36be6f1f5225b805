"""Links between programs and voters, where connections fail, or end in an unusual order."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.cluster.client.access import Links
from coterie.cluster.membership.config import convert
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.wire.address import Address
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import Link
from coterie.cluster.wire.places import Places
from tests.cluster.local_cluster import document, running, until
from tests.cluster.virtual_time import passing, run
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.membership.membership import Membership

pytestmark = pytest.mark.usefixtures("open_and_guarded")

LEASE = 10.0


def _ignore(_: object) -> None:
    """Take what a link passes on."""


def _no_call(_: str) -> Caller:
    raise AssertionError("no node is there to be greeted")


IGNORE: dict[str, Any] = {"decode": bytes, "receive": _ignore, "connected": _ignore}


def test_a_node_with_another_disk_is_not_called_often_and_serves_no_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A spare may stand in the place of a lost disk for long, and all programs call it there."""
    config = convert(document(1, data="data", lease=LEASE), tmp_path)
    membership = config.membership
    calls: list[str] = []

    def caller(disk: str) -> Caller:
        calls.append(disk)
        credentials = membership.credentials(config.security.secret_bytes())
        return Caller(credentials, "participant", new_identity("test:1"), "a", disk=disk)

    async def main() -> None:
        async with running(config):
            address, tls = membership.members[0].address, config.security.client_context()
            link = Link("a", lambda: [address], caller, tls, lambda: LEASE, **IGNORE)
            link.insist_on("the disk that was lost")
            link.start()
            await link.tried.wait()
            assert "another data directory than the voter of that name" in link.trouble
            await until(
                lambda: "it wants the voter of this name" in caplog.text, "the node to notice"
            )
            await passing(0.4)
            assert calls == ["the disk that was lost"]
            assert "secret" not in caplog.text  # nothing is wrong with that
            await passing(1.0)
            assert len(calls) > 1
            await link.stop()

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)


@in_loop
async def test_a_host_that_cannot_be_looked_up_is_a_trouble_like_others() -> None:
    address = Address("d..example", 7420)
    link = Link("d", lambda: [address], _no_call, None, lambda: LEASE, **IGNORE)
    link.start()
    await link.tried.wait()
    assert link.trouble == "no host can have that name at d..example:7420"
    await link.stop()


@in_loop
async def test_the_link_of_a_removed_voter_is_forgotten_and_not_waited_for() -> None:
    """It may have been stopped before its first call, when the change was taken back at once."""
    config = convert(document(1))
    membership = config.membership
    links = Links(config.security, new_identity("test:1"), Places())
    line = links.link(membership, 1, lambda: membership, _ignore, _ignore)
    trying = asyncio.ensure_future(links.tried())
    await asyncio.sleep(0)
    assert not trying.done()
    await line.stop()
    await trying
    kept = weakref.ref(line)
    del line
    gc.collect()
    assert kept() is None
    await links.stop()


def test_a_connection_is_given_up_by_the_lease_of_the_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease was made shorter after the connection had come about."""
    config = convert(document(1, lease=LEASE))
    membership = config.membership
    unanswered = NewConfiguration(membership.configuration)

    def current() -> Membership:
        return membership

    async def main() -> None:
        nonlocal membership
        async with running(config):
            links = Links(config.security, new_identity("test:1"), Places())
            line = links.link(membership, 1, current, _ignore, _ignore)
            line.start()
            await links.tried()
            assert line.is_up
            settings = msgspec.structs.replace(membership.settings, lease=1.0)
            membership = msgspec.structs.replace(membership, settings=settings)
            for _ in range(6):
                line.send(unanswered)
                await passing(0.3)
            await links.stop()

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    assert "no answer for 1 s" in caplog.text


def two_connections() -> tuple[VoterHost, Connection, Connection]:
    """Make a voter with an older and a newer connection of one program."""
    membership = convert(document(1)).membership
    voting = VoterHost(membership, "a", None, _ignore, reach=lambda *_: None, new_cluster=True)
    voting.start()
    hello = Hello(PROTOCOL, "", "", "participant", "program", "test:1", b"", newest=PROTOCOL)
    older, newer = Connection(), Connection()
    voting.attach(hello, older)
    voting.attach(hello, newer)
    return voting, older, newer


@in_loop
async def test_the_older_connection_of_a_program_may_be_the_last_to_end() -> None:
    voting, older, newer = two_connections()
    voting.leave("program", newer)
    assert not voting.programs.labels
    voting.leave("program", older)
    assert not voting.programs.sinks
    voting.stop()


@in_loop
async def test_the_end_of_the_older_connection_is_not_that_of_the_newer() -> None:
    """Taken for it, the program would get no answer until it calls again, a lease later."""
    voting, older, newer = two_connections()
    voting.leave("program", older)
    assert list(voting.programs.sinks.values()) == [newer]
    assert voting.programs.labels == {"program": "test:1"}
    voting.stop()
