"""Asking a node about itself and its cluster, as an administrator or a newcomer does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import Condition, Query
from coterie.cluster.membership.membership import Membership, check_learnt
from coterie.cluster.wire.connection import FAULTS
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.trouble import explain_at
from coterie.cluster.wire.voter_frames import decode_from_voter
from coterie.errors import ProtocolError, Unavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

    from coterie.cluster.membership.membership import Address
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Role, Welcome
    from coterie.cluster.wire.security import Security
    from coterie.cluster.wire.voter_frames import FromVoter

ANSWER_SECONDS_MAX = 3.0
DISCOVERY_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.1
QUERY_PROTOCOL = 7  # the first in which nodes tell where they stand
OTHERS_SECONDS_MAX = 0.1  # for the nodes that are being asked when the first has answered
VOTERS_SECONDS_MAX = 1.0  # the same, if that does not vote and so may know an old configuration

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Consultation:
    """A connection for questions, answered one after the other."""

    def __init__(self, connection: Connection, welcome: Welcome) -> None:
        """Take over a connection on which the handshake is done."""
        self.node = welcome.node  # its name
        self.disk = welcome.disk  # the identity of its disk; empty: it has none
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
        answer = await self.next()
        self.round_trip = loop.time() - began
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


async def ask_condition(
    name: str, address: Address, credentials: Credentials, tls: ssl.SSLContext | None
) -> Condition:
    """Ask a voting node, or a spare, where it stands; raises `OSError` or `ProtocolError`."""
    async with consult(address, credentials, tls, name) as consultation:
        if consultation.protocol < QUERY_PROTOCOL:
            raise ProtocolError(
                f"it speaks protocol {consultation.protocol} at most, and protocol"
                f" {QUERY_PROTOCOL} is needed: run a newer version of coterie there"
            )
        return await consultation.ask(Query(), Condition)


async def ask_membership(consultation: Consultation) -> Membership:
    """Ask a node for the newest configuration that it knows."""
    answer = await consultation.ask(GetMembership(), MembershipReply)
    membership = msgspec.msgpack.decode(answer.shared, type=Membership)
    check_learnt(membership, consultation.configuration)
    return membership


class NodeAnswer(NamedTuple):
    """What one node knows of its cluster."""

    node: str  # its name
    disk: str  # the identity of its disk
    membership: Membership

    @property
    def is_voter(self) -> bool:
        """Whether a voter of the configuration has its name, as far as the node knows."""
        return any(member.name == self.node for member in self.membership.members)


def newest(answers: Sequence[NodeAnswer]) -> Membership:
    """Return the newest configuration of those that nodes know; there is at least one answer.

    Numbers are compared within one installation. Where nodes of several answer, as after one was set up
    again and a disk of the first has come back, it is the installation of which a quorum of voters
    answers with their own disks, or else most of them.
    """
    by_cluster: dict[str, list[NodeAnswer]] = {}
    for answer in answers:
        identity = answer.membership.configuration.cluster_identity
        by_cluster.setdefault(identity, []).append(answer)
    if len(by_cluster) > 1:
        by_cluster.pop("", None)  # a file, which any installation may have begun with

    def standing(group: Sequence[NodeAnswer]) -> tuple[bool, int, int]:
        configuration = _newest_of(group).configuration
        disks = {answer.disk for answer in group}
        there = [member.seat for member in configuration.members if member.identity in disks]
        is_served = configuration.quorums.contains_quorum(there)
        return is_served, len(there), configuration.number

    return _newest_of(max(by_cluster.values(), key=standing))


def _newest_of(answers: Sequence[NodeAnswer]) -> Membership:
    return max((each.membership for each in answers), key=lambda it: it.configuration.number)


async def discover(
    addresses: Sequence[Address],
    cluster: str,
    security: Security,
    patience: float = OTHERS_SECONDS_MAX,
) -> Membership:
    """Learn the newest configuration that any of these nodes knows.

    The first answer is enough; the nodes that are being asked meanwhile get so many seconds for theirs,
    and more if the first was of a node that does not vote: no process tells a spare of changes.
    """
    credentials = Credentials(cluster, "", security.secret_bytes())
    tls = security.client_context()
    troubles: dict[Address, str] = {}
    asked: set[Address] = set()  # nodes that are being asked just now
    asking = [
        asyncio.ensure_future(_learn(address, credentials, tls, troubles, asked))
        for address in addresses
    ]
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS_MAX):
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        reasons = "; ".join(troubles.get(each, f"no answer at {each}") for each in addresses)
        raise Unavailable(f"no node of the cluster can be reached: {reasons}") from None
    else:
        # A node that was removed while it was away has the configuration of that time, and may be
        # the first to answer. Besides, a node takes a caller that leaves in the middle of a
        # handshake for one with another secret.
        others = [task for address, task in zip(addresses, asking, strict=True) if address in asked]
        if not any(task.result().is_voter for task in asking if task.done()):
            patience = max(patience, VOTERS_SECONDS_MAX)
        if others:
            await asyncio.wait(others, timeout=patience)
        return newest([task.result() for task in asking if task.done()])
    finally:
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


async def _learn(
    address: Address,
    credentials: Credentials,
    tls: ssl.SSLContext | None,
    troubles: dict[Address, str],
    asked: set[Address],
) -> NodeAnswer:
    """Ask one node, again and again until it answers."""
    while True:
        asked.add(address)
        try:
            async with consult(address, credentials, tls) as consultation:
                membership = await ask_membership(consultation)
                return NodeAnswer(consultation.node, consultation.disk, membership)
        except (OSError, *FAULTS) as error:
            troubles[address] = explain_at(address, error)
        finally:
            asked.discard(address)
        await asyncio.sleep(RETRY_SECONDS)
