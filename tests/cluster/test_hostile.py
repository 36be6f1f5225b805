"""Hostile bytes: refused with a log line, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.cluster.config import convert
from coterie.cluster.voter.frames import (
    FindOwners,
    GetStatus,
    GetTokenBound,
    OwnerReport,
)
from coterie.cluster.wire.connection import FRAME_BYTES_MAX, Connection
from coterie.cluster.wire.frames import GetMembership
from coterie.cluster.wire.handshake import Caller, Credentials, Identity, new_identity
from coterie.cluster.wire.link import dial
from coterie.deadlock.service.lock_waits import Wanted
from coterie.mutex.quorum.leased.frames import (
    Beat,
    Bye,
    Data,
    Probe,
    Release,
    Request,
    SessionName,
    Term,
)
from tests.cluster.local_cluster import document, running, until, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.cluster.config import Config
    from coterie.cluster.voter.node import Node


@contextlib.asynccontextmanager
async def undisturbed(config: Config) -> AsyncIterator[list[Node]]:
    """Run a cluster in which somebody holds a lock meanwhile, and goes on to take others."""
    async with running(config) as nodes, coterie.connect(url_of(config)) as coordinator:
        async with coordinator.lock("precious") as held:
            yield nodes
            assert held.valid
            async with coordinator.lock("another"):
                pass
        assert not await coordinator.locked("precious")


async def let_in(config: Config, identity: Identity) -> Connection:
    """Get past the handshake at the first node."""
    membership = config.membership
    connection = await dial(membership.members[0].address, None)
    credentials = Credentials(membership.cluster, membership.digest)
    await Caller(credentials, "participant", identity, "a").greet(connection)
    connection.use(lambda _: None)
    return connection


async def refused(connection: Connection) -> None:
    async with asyncio.timeout(10):
        await connection.wait_ended()


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def test_random_bytes_before_the_handshake_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    config = convert(document(3))
    dice = random.Random(1)

    async def main() -> None:
        async with undisturbed(config):
            for size in (4, 5, 40, 400, 4000):
                for whole in (False, True):
                    noise = dice.randbytes(size)
                    connection = await dial(config.membership.members[0].address, None)
                    connection.transport.write(framed(noise) if whole else b"\xff" + noise)
                    await refused(connection)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.text.count("refused") == 10


def frames_of(identity: str) -> list[bytes]:
    session = SessionName(identity, 1)
    bodies = (Request("x", 1, 5, 5), Release("x", 1, 0))
    return [
        msgspec.msgpack.encode(frame)
        for frame in (
            Data(session, 1, 0, 5, 1.0, bodies),
            Beat(session, 0, 5, 2.0),
            Probe(session),
            Term(session, 0.5),
            Bye(session),
            GetStatus(locks=True),
            GetTokenBound(),
            FindOwners(1, (Wanted("x"), Wanted("precious")), search=True),
            OwnerReport(1, 1, identity, ()),
            GetMembership(),
        )
    ]


def test_mutated_frames_harm_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    config = convert(document(3))
    dice = random.Random(2)

    async def main() -> int:
        sent = 0
        async with undisturbed(config) as nodes:
            for _ in range(500):
                identity = new_identity("mutant:1")
                connection = await let_in(config, identity)
                for frame in frames_of(identity.name):
                    mutant = bytearray(frame)
                    for _ in range(dice.randint(0, 3)):
                        mutant[dice.randrange(len(mutant))] = dice.randrange(256)
                    connection.transport.write(framed(bytes(mutant)))
                    sent += 1
                connection.transport.write_eof()
                await refused(connection)
            assert "precious" in nodes[0].voting.voter.ballots
        return sent

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(main()) == 500 * len(frames_of(""))
    assert "refused" in caplog.text, "some were no frames any more"
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not errors, "none made the node stumble"


def test_an_oversize_frame_of_somebody_let_in_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    config = convert(document(3))

    async def main() -> None:
        async with undisturbed(config):
            connection = await let_in(config, new_identity("big:1"))
            connection.transport.write(struct.pack(">I", FRAME_BYTES_MAX + 1))
            await refused(connection)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert f"a frame of {FRAME_BYTES_MAX + 1} bytes" in caplog.text


@pytest.mark.parametrize("kind", ["release", "bye", "term", "standing"])
def test_a_client_cannot_speak_in_the_name_of_another(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = convert(document(3))

    async def main() -> None:
        async with undisturbed(config) as nodes:
            (victim,) = nodes[0].voting.voter.sessions
            session = nodes[0].voting.voter.sessions[victim].session
            [number] = nodes[0].voting.voter.ballots["precious"].owners
            forged = {
                "release": Data(
                    session, 2, 0, 9, 9.0, (Release("precious", number.claim.number, 0),)
                ),
                "bye": Bye(session),
                "term": Term(session, 0.01),
                "standing": OwnerReport(1, 1, victim, ()),
            }[kind]
            connection = await let_in(config, new_identity("thief:1"))
            connection.send(forged)
            await refused(connection)
            assert nodes[0].voting.voter.ballots["precious"].owners == [number]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "in the name of" in caplog.text


def test_who_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.cluster.wire.handshake.HANDSHAKE_SECONDS_MAX", 0.05)
    config = convert(document(1))

    async def main() -> None:
        async with running(config):
            connection = await dial(config.membership.members[0].address, None)
            await refused(connection)

    asyncio.run(main())


def test_a_second_connection_of_a_participant_takes_the_place_of_the_first() -> None:
    config = convert(document(3))

    async def main() -> None:
        async with undisturbed(config) as nodes:
            identity = new_identity("twice:1")
            first = await let_in(config, identity)
            second = await let_in(config, identity)
            await refused(first)
            second.send(Probe(SessionName(identity.name, 1)))
            await until(lambda: nodes[0].voting.sent["Answer"], "an answer on the second")
            second.close("done")
            await second.wait_closed()

    asyncio.run(main())
