"""What a faulty node of a classic algorithm sends: it is taken or refused, and nothing else suffers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.permission.lamport import Request
from coterie.catalogue import algorithms
from coterie.clocks import Stamp
from coterie.cluster.classic.node import NUMBER_MAX, Classic, HostedProcess, Program
from coterie.cluster.membership.config import convert
from coterie.cluster.runtime.host import decoder
from coterie.cluster.wire.frames import ClassicMessage, Receipt
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.listener import Listener
from coterie.errors import ProtocolError
from coterie.process import Election, Mutex, Outbox, encode, seat
from tests.cluster.absurd import Drawer, absurd
from tests.cluster.local_cluster import document, until

if TYPE_CHECKING:
    from coterie.catalogue import Setup
    from coterie.cluster.membership.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello
    from coterie.cluster.wire.handshake import Identity
    from coterie.process import Seat

SETUPS = [
    (name, variant.name)
    for name, entry in algorithms().items()
    if issubclass(entry.process, Mutex | Election) and name != "leased"
    for variant in entry.variants
]


def seats(name: str, variant: str) -> tuple[Setup, Seat]:
    entry = algorithms()[name]
    setup = entry.setup(4, variant, {})
    seated = seat(entry.build(setup)[0])
    seated.start(Outbox(1))
    return setup, seated


@pytest.mark.parametrize(("name", "variant"), SETUPS)
def test_whatever_a_node_sends_is_taken_whole_or_not_at_all(name: str, variant: str) -> None:
    drawer = Drawer(1)
    for _ in range(20):
        setup, seated = seats(name, variant)
        hosted = HostedProcess(seated, setup.size)
        kinds = msgspec.inspect.type_info(seated.messages)
        for now in range(12):
            message = drawer.draw(kinds)
            before, out = encode(seated), Outbox[Any](1, float(now))
            try:
                hosted.receive(drawer.dice.choice((2, 3, 4)), message, out)
            except ProtocolError:
                assert encode(seated) == before, message
            else:
                assert all(1 <= to <= setup.size for to, _ in out.sends)
                for _, sent in out.sends:
                    assert decoder(seated.messages)(encode(sent)) == sent


def test_a_number_from_which_no_clock_could_go_on_is_refused() -> None:
    _, seated = seats("lamport", "plain")
    hosted = HostedProcess(seated, 4)
    hosted.receive(2, Request(Stamp(NUMBER_MAX, 2)), Outbox(1))
    with pytest.raises(ProtocolError, match="a number that no process reaches"):
        hosted.receive(2, Request(Stamp(NUMBER_MAX + 1, 2)), Outbox(1))


async def called(config: Config, identity: Identity) -> tuple[Connection, list[bytes]]:
    """Call the first node as the peer that the identity is labelled with."""
    membership = config.membership
    connection = await dial(membership.members[0].address, None)
    credentials = Credentials(membership.cluster, membership.digest)
    answers: list[bytes] = []
    await Caller(credentials, "peer", identity, "a").greet(connection)
    connection.use(lambda frame: answers.append(bytes(frame)))
    return connection, answers


def test_letters_of_absurd_values_end_the_connection_over_which_they_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = convert(document(2, algorithm="lamport"))
    node = Classic(config, "a", Program())

    async def main() -> None:
        await node.start()
        identity = new_identity("b")
        for letter in absurd(ClassicMessage(1, "x", encode(Request(Stamp(1, 2))))):
            connection, _ = await called(config, identity)
            connection.send(letter)
            connection.close("the next")
            await connection.wait_ended()
        connection, answers = await called(config, identity)
        await until(lambda: answers, "a receipt: it is let in")
        connection.close("done")
        await connection.wait_closed()
        await node.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "came after letter" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_caller_that_no_node_is_called_like_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    config = convert(document(2, algorithm="lamport"))
    node = Classic(config, "a", Program())

    async def main() -> None:
        await node.start()
        for name in ("nobody", "a"):
            connection, answers = await called(config, new_identity(name))
            await connection.wait_ended()
            assert not answers
        await node.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "refused: no node is called 'nobody'" in caplog.text
    assert "refused: another process runs this very node" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("seq", [1, (1 << 64) - 1])
def test_a_receipt_for_what_was_not_sent_ends_the_connection(
    seq: int, caplog: pytest.LogCaptureFixture
) -> None:
    config = convert(document(2, algorithm="lamport"))
    node = Classic(config, "a", Program())

    def admit(connection: Connection, _: Hello) -> None:
        connection.use(lambda _: None)
        connection.send(Receipt(seq))

    async def main() -> None:
        mine = config.membership.credentials(b"")
        liar = Listener(
            config.local_node("b"), "a start", lambda: 0, admit, credentials=lambda: mine
        )
        await liar.open()
        await node.start()
        await until(lambda: f"a receipt for letter {seq}" in caplog.text, "a complaint")
        await node.stop()
        await liar.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
