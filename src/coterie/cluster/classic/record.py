"""A recording of a live cluster that runs a classic algorithm: what its nodes note, as one trace.

The nodes note what their processes do, and nothing else changes for them or their programs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from coterie import system
from coterie.catalogue import find
from coterie.cluster.classic.frames import (
    GetRecords,
    RecordingBegun,
    Records,
    StartRecording,
    decode_answer,
)
from coterie.cluster.classic.order import NodePart, merge
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.trouble import explain
from coterie.errors import ProtocolError, Unavailable
from coterie.trace import AnyRecord, Header, Trace

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from coterie.cluster.membership.membership import Member, Membership
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.security import Security

ANSWER_SECONDS_MAX = 5.0
TICK_SECONDS = 0.25  # between two reports of progress

FAULTS = (TimeoutError, OSError, ProtocolError, msgspec.MsgspecError)  # of one node
AnswerT = TypeVar("AnswerT", RecordingBegun, Records)


class NodeRecords(NamedTuple):
    """What one node noted, in its order; times since the beginning of the recording."""

    name: str
    records: list[tuple[str, AnyRecord]]  # each with its lock
    before: dict[int, int]  # the number of the last letter to each peer before the recording
    left_out: int = 0
    trouble: str = ""


@dataclass(frozen=True)
class RecordedCluster:
    """What all nodes noted."""

    membership: Membership
    seconds: float
    nodes: list[NodeRecords]

    @property
    def locks(self) -> list[str]:
        """The locks of which anything was noted, the busiest first."""
        count = Counter(lock for node in self.nodes for lock, _ in node.records)
        return [lock for lock, _ in count.most_common()]

    def trace(self, lock: str) -> Trace:
        """Return what happened to one lock, in an order in which causes stand before effects."""
        choice = self.membership.algorithm
        assert choice is not None, "the leased lock has nodes of its own"
        entry = find(choice.name)
        named = {each.name: lock for each in entry.parameters if each.names_lock}
        header = Header(
            algorithm=entry.name,
            size=len(self.nodes),
            variant=choice.variant or "",
            parameters=named | dict(choice.parameters),
            title=f"{lock} on {self.membership.cluster}, {self.seconds:g} s recorded",
        )
        parts = [
            NodePart([record for name, record in node.records if name == lock], node.before)
            for node in self.nodes
        ]
        return Trace(header, merge(parts))


async def record_cluster(
    membership: Membership,
    security: Security,
    seconds: float,
    progress: Callable[[float], None],
) -> RecordedCluster:
    """Record for so long; `progress` hears how long it has been. Raise `Unavailable` if no node answers."""
    credentials = membership.credentials(security.secret_bytes())
    tls = security.client_context()
    began = system.now()
    askers = [_Asker(member, began) for member in membership.members]
    try:
        await asyncio.gather(*(asker.begin(credentials, tls) for asker in askers))
        if all(asker.trouble for asker in askers):
            trouble = f"{askers[0].name}: {askers[0].trouble}"
            raise Unavailable(f"no node of cluster {membership.cluster!r} is recorded; {trouble}")
        since = system.now()
        while (passed := system.now() - since) < seconds:
            progress(passed)
            await asyncio.sleep(min(TICK_SECONDS, seconds - passed))
        nodes = await asyncio.gather(*(asker.fetch() for asker in askers))
    finally:
        await asyncio.gather(*(asker.close() for asker in askers))
    return RecordedCluster(membership, seconds, nodes)


class _Asker:
    """Asks a node one question at a time; what goes wrong is said in `trouble`."""

    def __init__(self, member: Member, began: float) -> None:
        self.name = member.name
        self.trouble = ""
        self._address = member.address
        self._began = began
        self._before: dict[int, int] = {}
        self._ahead = 0.0  # of the node's clock, before the recording began by ours
        self._connection: Connection | None = None
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def begin(self, credentials: Credentials, tls: ssl.SSLContext | None) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                connection = self._connection = await dial(self._address, tls)
                caller = Caller(credentials, "admin", new_identity("admin"), self.name)
                await caller.greet(connection)
                connection.use(
                    lambda frame: self._answers.put_nowait(bytes(frame)),
                    lambda _: self._answers.put_nowait(None),
                )
                asked = system.now()
                begun = await self._ask(StartRecording(), RecordingBegun)
        except FAULTS as error:
            self.trouble = explain(error)
            return
        # The node has read its clock between the question and the answer.
        self._ahead = begun.now - (asked + system.now()) / 2 + self._began
        self._before = begun.before
        self.trouble = begun.refusal

    async def fetch(self) -> NodeRecords:
        """Fetch what the node has noted until now."""
        records: list[tuple[str, AnyRecord]] = []
        left_out = 0
        while not self.trouble:
            try:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    answer = await self._ask(GetRecords(), Records)
            except FAULTS as error:
                self.trouble = explain(error)
                break
            left_out = answer.left_out
            if not answer.records:
                break
            for lock, record in answer.records:
                time = max(0.0, record.time - self._ahead)
                records.append((lock, msgspec.structs.replace(record, time=time)))
        return NodeRecords(self.name, records, self._before, left_out, self.trouble)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close("all questions are answered")
            await self._connection.wait_closed()

    async def _ask(self, question: StartRecording | GetRecords, kind: type[AnswerT]) -> AnswerT:
        assert self._connection is not None, "it has been called"
        self._connection.send(question)
        answer = await self._answers.get()
        if answer is None:
            raise ProtocolError("the node closed the connection")
        said = decode_answer(answer)
        if not isinstance(said, kind):
            raise ProtocolError(f"expected a {kind.__name__}, got a {type(said).__name__}")
        return said
