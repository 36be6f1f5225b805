"""Who is let in, and who is not."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.wire import frames
from coterie.cluster.wire.frames import Hello, Proof, Welcome
from coterie.cluster.wire.handshake import Caller, Credentials, Identity, name_of, new_identity
from coterie.cluster.wire.link import dial
from coterie.errors import ProtocolError
from tests.cluster.local_cluster import document, running, until, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.wire.connection import Connection

pytestmark = pytest.mark.usefixtures("open_and_guarded")

SECRET = "long enough/" * 3


def config_with(secret: str = "", **changes: Any) -> Config:
    config = convert(document(1, **changes))
    security = msgspec.structs.replace(config.security, secret=secret)
    return msgspec.structs.replace(config, security=security)


def credentials(config: Config, **changes: Any) -> Credentials:
    membership, security = config.membership, config.security
    own = Credentials(membership.cluster, membership.digest, security.secret_bytes())
    return msgspec.structs.replace(own, **changes)


async def call(config: Config, caller: Caller) -> Connection:
    connection = await dial(config.membership.members[0].address, config.security.client_context())
    try:
        await caller.greet(connection)
    except ProtocolError:
        connection.close("it is not to be")
        await connection.wait_closed()
        raise
    return connection


def refusal(config: Config, caller: Caller) -> str:
    async def main() -> str:
        async with running(config):
            with pytest.raises(ProtocolError) as raised:
                await call(config, caller)
            return str(raised.value)

    return asyncio.run(main())


def caller(config: Config, **changes: Any) -> Caller:
    return Caller(credentials(config, **changes), "participant", new_identity("test:1"), "a")


def test_who_agrees_in_everything_is_let_in() -> None:
    async def main() -> None:
        config = config_with(SECRET)
        async with running(config) as (node,):
            connection = await call(config, caller(config))
            await until(lambda: node.voting.programs.sinks, "the node to let us in")
            connection.close("done")
            await connection.wait_closed()
            await until(lambda: not node.voting.programs.sinks, "the node to forget us")
            assert not node.voting.programs.labels

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster": "other"}, "wants cluster 'other', and this is cluster 'test'"),
        ({"configuration": "0" * 32}, "the configurations differ"),
        ({"configuration": ""}, "the configurations differ"),
        ({"secret": b"another secret, long enough"}, "another secret than we have, or none"),
        ({"secret": b""}, "one, and we have none: set COTERIE_SECRET_FILE"),
    ],
)
def test_a_caller_of_another_cluster_configuration_or_secret_gives_up(
    changes: dict[str, Any], reason: str
) -> None:
    config = config_with(SECRET)
    assert reason in refusal(config, caller(config, **changes))


def test_another_version_of_the_protocol_is_refused() -> None:
    config = config_with()
    other = caller(config)
    other.hello = msgspec.structs.replace(other.hello, protocol=frames.PROTOCOL + 1)
    versions = f"{frames.OLDEST_PROTOCOL} to {frames.PROTOCOL}"
    spoken = f"the caller speaks protocol {frames.PROTOCOL + 1} and this node protocols {versions}"
    refused = refusal(config, other)
    assert spoken in refused
    assert "\n" not in refused


def test_a_node_at_the_address_of_another_is_not_taken_for_it() -> None:
    config = config_with()
    wrong = Caller(credentials(config), "participant", new_identity("test:1"), "b")
    assert "this is node 'a' where 'b' was expected" in refusal(config, wrong)


def impostor(config: Config, caplog: pytest.LogCaptureFixture, change: dict[str, Any]) -> str:
    """Let a caller prove itself in another way than it should; gives the log."""

    async def main() -> None:
        async with running(config) as (node,):
            connection = await dial(
                config.membership.members[0].address, config.security.client_context()
            )
            identity = new_identity("test:1")
            honest = Caller(credentials(config), "participant", identity, "a")
            over = asyncio.Event()

            def answer(frame: memoryview) -> None:
                welcome = frames.decode_welcome(frame)
                assert isinstance(welcome, Welcome)
                right = credentials(config).prove(b"caller", honest.hello, welcome)
                wrong = {"proof": right, "key": identity.key, **change}
                connection.send(Proof(**wrong))

            connection.use(answer, lambda _: over.set())
            connection.send(honest.hello)
            await over.wait()
            assert not node.voting.programs.sinks

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    return caplog.text


def test_a_caller_without_the_secret_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    log = impostor(config_with(SECRET), caplog, {"proof": b"0" * 32})
    assert "'test:1' does not know the secret" in log


def test_a_caller_that_claims_the_identity_of_another_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = impostor(config_with(), caplog, {"key": b"not the key to this identity"})
    assert "'test:1' claims an identity that is not its own" in log


def test_a_caller_that_leaves_without_a_word_is_not_said_to_have_another_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So do the callers of a node that hung: they have given up when it answers."""
    config = config_with()

    async def main() -> None:
        async with running(config):
            connection = await dial(
                config.membership.members[0].address, config.security.client_context()
            )
            connection.use(lambda _: connection.abort("it has waited long enough"))
            connection.send(caller(config).hello)
            await until(lambda: "hung up after our proof" in caplog.text, "the node to notice")

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "it has ended, or did not wait for our answer" in caplog.text
    assert "secret" not in caplog.text


def test_a_proof_cannot_be_reflected_or_replayed() -> None:
    own = Credentials("test", "digest", SECRET.encode())
    hello = Hello(1, "test", "digest", "participant", "me", "me", b"1" * 32)
    welcome = Welcome("a", "test", "digest", 7, None, "start", b"2" * 32, b"")
    proof = own.prove(b"caller", hello, welcome)
    assert proof != own.prove(b"node", hello, welcome)
    again = msgspec.structs.replace(welcome, challenge=b"3" * 32)
    assert proof != own.prove(b"caller", hello, again)


def test_an_identity_is_the_digest_of_its_key() -> None:
    one, other = new_identity("x"), new_identity("x")
    assert one.name == name_of(one.key) != other.name
    assert isinstance(one, Identity)


def test_programs_take_the_secret_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    config = config_with(SECRET)

    async def main() -> int:
        async with (
            running(config),
            coterie.connect(url_of(config, f"secret-file={path}")) as coordinator,
            coordinator.lock("x") as held,
        ):
            return held.token

    assert asyncio.run(main())
