"""Asking a node about itself and its cluster, as an administrator or a newcomer does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import Condition, Query
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.voter_frames import AskDeath, Deaths, decode_from_voter
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Role, Welcome
    from coterie.cluster.wire.voter_frames import FromVoter

ANSWER_SECONDS_MAX = 3.0
QUERY_PROTOCOL = 7  # the first in which nodes tell where they stand

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Consultation:
    """A connection for questions, answered one after the other."""

    def __init__(self, connection: Connection, welcome: Welcome) -> None:
        """Take over a connection on which the handshake is done."""
        self.node = welcome.node  # its name
        self.disk = welcome.disk  # the identity of its disk; empty: it has none
        self.start = welcome.start  # another word for each start of the node
        self.configuration = welcome.configuration  # the digest of that of the node
        self.number = welcome.number  # of that configuration
        self.protocol = welcome.protocol  # that is spoken over the connection
        self.round_trip = 0.0  # how many seconds the latest answer took
        self._connection = connection
        self._answers: asyncio.Queue[FromVoter | None] = asyncio.Queue()
        connection.use(
            lambda frame: self._answers.put_nowait(decode_from_voter(frame)),
            lambda _: self._answers.put_nowait(None),
        )

    def send(self, question: msgspec.Struct) -> None:
        """Ask; there may be several answers, or none."""
        self._connection.send(question)

    async def next(self) -> FromVoter:
        """Wait for the next answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await self._answers.get()
        except TimeoutError:
            raise ProtocolError("no answer") from None
        if answer is None:
            raise ProtocolError("the node closed the connection")
        return answer

    async def ask(self, question: msgspec.Struct, kind: type[Kind]) -> Kind:
        """Ask, and wait for the answer."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.send(question)
        answer = await self.next_of(kind)
        self.round_trip = loop.time() - began
        return answer

    async def next_of(self, kind: type[Kind]) -> Kind:
        """Wait for the next answer, which has to be of a kind."""
        answer = await self.next()
        if not isinstance(answer, kind):
            raise ProtocolError(
                f"expected a {kind.__name__} in answer, got a {type(answer).__name__}"
            )
        return answer


def _label() -> str:
    return f"{system.host_name()}:{system.pid()}"


@contextlib.asynccontextmanager
async def consult(
    address: Address,
    credentials: Credentials,
    tls: ssl.SSLContext | None,
    node: str | None = None,
    *,
    role: Role = "admin",
) -> AsyncIterator[Consultation]:
    """Open a connection for questions; raises `OSError` or `ProtocolError` if it cannot be.

    `node` is the name that the node has to have; as an operator one may also give orders.
    """
    connection = await dial(address, tls)
    try:
        caller = Caller(credentials, role, new_identity(_label()), node)
        yield Consultation(connection, await caller.greet(connection))
    finally:
        connection.close("all questions are answered")
        await connection.wait_closed()


class Introduction(NamedTuple):
    """What a node says of itself."""

    start: str  # another word for each start: two nodes may have copies of one disk
    condition: Condition


async def ask_condition(
    name: str | None, address: Address, credentials: Credentials, tls: ssl.SSLContext | None
) -> Condition:
    """Ask a voting node, or a spare, where it stands; raises `OSError` or `ProtocolError`.

    `name` is the name that it has to have; None: any.
    """
    return (await introduce(name, address, credentials, tls)).condition


async def introduce(
    name: str | None, address: Address, credentials: Credentials, tls: ssl.SSLContext | None
) -> Introduction:
    """Ask the same, and which start of the node it is."""
    async with consult(address, credentials, tls, name) as consultation:
        if consultation.protocol < QUERY_PROTOCOL:
            raise ProtocolError(
                f"it speaks protocol {consultation.protocol} at most, and protocol"
                f" {QUERY_PROTOCOL} is needed: run a newer version of coterie there"
            )
        return Introduction(consultation.start, await consultation.ask(Query(), Condition))


async def ask_deaths(
    call: AbstractAsyncContextManager[Consultation],
    lives: Sequence[str],
    tell: Callable[[str, str], None],
) -> None:
    """Ask a voting node which of these programs have ended; one that cannot be asked says nothing.

    `call` opens the connection; `tell` takes each life that has ended, and the name of the node.
    """
    with contextlib.suppress(OSError, ProtocolError, msgspec.MsgspecError):
        async with call as consultation:
            condition = await consultation.ask(Query(), Condition)
            if not condition.is_witness:  # it is told not to, or does not know the question yet
                return
            consultation.send(AskDeath(tuple(lives)))
            while ended := (await consultation.next_of(Deaths)).lives:
                for life in ended:
                    tell(life, consultation.node)
