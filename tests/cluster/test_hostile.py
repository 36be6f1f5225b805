"""Hostile bytes: refused with a log line, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.frames import (
    Beat,
    Bye,
    Data,
    Probe,
    Raise,
    Release,
    Request,
    SessionName,
    Term,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.voter import FAR, NEAR
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.complaints import LINES_PER_ADDRESS_MAX
from coterie.cluster.wire.connection import FRAME_BYTES_MAX, Connection
from coterie.cluster.wire.frames import GetMembership
from coterie.cluster.wire.handshake import Caller, Credentials, Identity, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import FindOwners, GetStatus, GetTokenBound, decode_to_voter
from coterie.errors import ProtocolError
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.leases.frames import OwnerReport
from tests.cluster.absurd import absurd
from tests.cluster.local_cluster import (
    COTERIE,
    PATIENCE_SECONDS,
    document,
    running,
    until,
    url_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.cluster.membership.config import Config
    from coterie.cluster.node import Node


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


def renamed(frame: Data, participant: str, lock: str) -> Data:
    """Put names in the place of the empty participant and the lock "x"."""
    session = frame.session
    if not session.participant:
        session = msgspec.structs.replace(session, participant=participant)
    bodies = tuple(
        msgspec.structs.replace(body, lock=lock) if body.lock == "x" else body
        for body in frame.bodies
    )
    return msgspec.structs.replace(frame, session=session, bodies=bodies)


def test_absurd_values_of_every_field_harm_no_other_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Afterwards the others acquire, and their tokens have grown by what can be expected."""
    config = convert(document(1))
    held = (Request("x", 1, 5, 5),)

    async def token() -> int:
        async with coterie.connect(url_of(config)) as coordinator, coordinator.lock("y") as own:
            assert own.token is not None
            return own.token

    async def main() -> tuple[int, int, int]:
        sent = 0
        async with undisturbed(config):
            first = await token()
            for body in (Release("x", 1, 5), Yield("x", 1, 5), Raise("x", 1, 50), *held):
                for frame in absurd(Data(SessionName("", 1), 2, 0, 5, 1.0, (body,))):
                    identity = new_identity("absurd:1")
                    session = SessionName(identity.name, 1)
                    connection = await let_in(config, identity)
                    for data in (Data(SessionName("", 1), 1, 0, 5, 1.0, held), frame):
                        connection.send(renamed(data, identity.name, f"x{sent}"))
                    connection.send(Bye(session))
                    connection.close("the next")
                    await refused(connection)
                    sent += 1
            identity = new_identity("absurd:2")
            for encoded in frames_of(identity.name):
                for frame in absurd(decode_to_voter(encoded)):
                    connection = await let_in(config, identity)
                    connection.send(frame)
                    connection.close("the next")
                    await refused(connection)
                    sent += 1
            return first, await token(), sent

    first, last, sent = asyncio.run(main())
    assert sent > 300
    assert first < last < first + sent * (FAR + NEAR)
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


def test_callers_that_prove_nothing_have_to_make_room_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coterie.cluster.wire.listener.UNPROVEN_MAX", 8)
    config = convert(document(3))

    async def main() -> None:
        async with undisturbed(config):
            address = config.membership.members[0].address
            idle = [await dial(address, None) for _ in range(20)]
            for connection in idle[:12]:
                await refused(connection)
            assert not any(connection.closed for connection in idle[12:])
            proven = await let_in(config, new_identity("in-earnest:1"))
            later = [await dial(address, None) for _ in range(20)]
            await refused(idle[-1])
            assert not proven.closed
            for connection in (*later, proven):
                connection.abort("done")
                await connection.wait_closed()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "8 others are in the handshake" in caplog.text
    assert caplog.text.count(" refused: ") == 10, "a caller cannot fill the disk with lines"
    assert "more connections were refused, which are not listed" in caplog.text


def test_a_caller_that_knows_another_secret_is_named_in_the_log_of_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = convert(document(1))
    config = msgspec.structs.replace(plain, security=Security("ours, and no other"))
    membership = config.membership

    async def main() -> None:
        async with running(config):
            connection = await dial(membership.members[0].address, None)
            theirs = Credentials(membership.cluster, membership.digest, b"theirs, not ours")
            caller = Caller(theirs, "participant", new_identity("stranger:1"), "a")
            with pytest.raises(ProtocolError, match="secret mismatch"):
                await caller.greet(connection)
            connection.close("it is another cluster")
            await connection.wait_closed()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "connection with 127.0.0.1:" in caplog.text
    assert "'stranger:1' leaves without a proof: its secret is another one than ours" in caplog.text


def test_a_caller_that_says_nothing_is_named_in_the_log_of_the_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coterie.cluster.wire.handshake.HANDSHAKE_SECONDS_MAX", 0.05)
    config = convert(document(1))

    async def main() -> None:
        async with running(config):
            await refused(await dial(config.membership.members[0].address, None))

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "refused: no handshake in 0.05 s" in caplog.text


NODE_OF_FEW_DESCRIPTORS = 64
FLOOD = 300


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_idle_connections_without_the_secret_do_not_end_a_node(tmp_path: Path) -> None:
    """They take all descriptors that they can get; then the node has to save its first bound."""
    limited = f'ulimit -n {NODE_OF_FEW_DESCRIPTORS}; exec "$@"'
    serve = ["serve", "--dev", "1", "--port", "0", "--lease", "5s", "--data", str(tmp_path), "-q"]
    command = ["sh", "-c", limited, "sh", *COTERIE, *serve]

    async def main(url: str, pid: int) -> None:
        host, _, port = url.removeprefix("coterie://").rpartition(":")
        descriptors = Path(f"/proc/{pid}/fd")
        async with coterie.connect(url) as coordinator:
            flood = [await asyncio.open_connection(host, int(port)) for _ in range(FLOOD)]

            def has_arrived() -> bool:
                if any(reader.at_eof() or reader.exception() for reader, _ in flood):
                    return True
                return len(list(descriptors.iterdir())) >= NODE_OF_FEW_DESCRIPTORS - 2

            await until(has_arrived, "the node to have no descriptor left, or to make room")
            async with asyncio.timeout(PATIENCE_SECONDS):
                async with coordinator.lock("x") as held, coterie.connect(url):
                    assert held.valid
            for _, writer in flood:
                writer.transport.abort()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            asyncio.run(main(server.stdout.readline().decode().strip(), server.pid))
            assert server.poll() is None, "it goes on"
        finally:
            server.terminate()
            _, log = server.communicate(timeout=PATIENCE_SECONDS)
    assert server.returncode == 0, log.decode()
    assert b"Traceback" not in log
    assert len(log.splitlines()) < 2 * LINES_PER_ADDRESS_MAX, "the log stays readable"


def test_a_second_connection_of_a_participant_takes_the_place_of_the_first() -> None:
    config = convert(document(3))

    async def main() -> None:
        async with undisturbed(config) as nodes:
            identity = new_identity("twice:1")
            first = await let_in(config, identity)
            second = await let_in(config, identity)
            await refused(first)
            second.send(Probe(SessionName(identity.name, 1)))
            await until(lambda: nodes[0].voting.programs.sent["Answer"], "an answer on the second")
            second.close("done")
            await second.wait_closed()

    asyncio.run(main())
