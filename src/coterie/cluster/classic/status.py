"""The state of a cluster that runs a classic algorithm, as its nodes tell it, and in words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import find
from coterie.cluster.classic.frames import (
    ClassicFigures,
    ClassicStatus,
    GetClassicStatus,
    decode_answer,
)
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.trouble import explain
from coterie.errors import ProtocolError, Unavailable
from coterie.locks.engine import WATCH_SECONDS, LockState
from coterie.locks.status import NodeView, Status, down
from coterie.process import Election

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    from coterie.cluster.membership.membership import Member, Membership
    from coterie.cluster.wire.security import Security

ANSWER_SECONDS_MAX = 1.0
HEALTHY, DEGRADED, UNREACHABLE = 0, 1, 69  # the exit statuses of `coterie status`
HEALTH = {HEALTHY: "healthy", DEGRADED: "degraded", UNREACHABLE: "no node answers"}
OWN_WAITS = "nodes of a classic algorithm know no waits but their own"


class ClassicNodeState(msgspec.Struct, frozen=True):
    """A node, or why it cannot be asked."""

    name: str
    address: str
    trouble: str
    report: ClassicFigures | None


class ClassicState(msgspec.Struct, frozen=True):
    """What could be learnt."""

    cluster: str
    algorithm: str
    elects: bool
    leader: str | None  # of an election: the one that all nodes that answer follow
    nodes: list[ClassicNodeState]
    locks: list[LockState]  # those that programs at the nodes hold or wait for
    health: int


async def inspect(membership: Membership, security: Security) -> ClassicState:
    """Ask every node."""
    assert membership.algorithm is not None, "the leased lock is asked in another way"
    credentials = membership.credentials(security.secret_bytes())
    tls = security.client_context()
    nodes = await asyncio.gather(*(_ask(member, credentials, tls) for member in membership.members))
    reports = [node.report for node in nodes if node.report is not None]
    followed = {report.leader for report in reports}
    elects = issubclass(find(membership.algorithm.name).process, Election)
    leader = followed.pop() if len(followed) == 1 else None
    complete = len(reports) == len(nodes) and all(
        report.ready and not report.away for report in reports
    )
    if not reports:
        health = UNREACHABLE
    else:
        health = HEALTHY if complete and (leader is not None or not elects) else DEGRADED
    return ClassicState(
        membership.cluster,
        membership.algorithm.name,
        elects,
        leader,
        list(nodes),
        _merge([lock for report in reports for lock in report.locks]),
        health,
    )


def follow(membership: Membership, security: Security) -> AsyncGenerator[str | None, None] | None:
    """Follow the leader that the nodes agree on, by asking; None if they elect none."""
    choice = membership.algorithm
    if choice is None or not issubclass(find(choice.name).process, Election):
        return None
    return _follow(membership, security)


async def _follow(membership: Membership, security: Security) -> AsyncGenerator[str | None, None]:
    state = await inspect(membership, security)
    if state.health == UNREACHABLE:
        raise Unavailable(f"no node of cluster {membership.cluster!r} answers")
    yield state.leader
    while True:
        seen = state.leader
        await asyncio.sleep(WATCH_SECONDS)
        state = await inspect(membership, security)
        if state.leader != seen:
            yield state.leader


def _merge(locks: list[LockState]) -> list[LockState]:
    """Put together what the nodes tell of each lock; the order of waiters is that of the nodes."""
    merged: dict[str, LockState] = {}
    for lock in sorted(locks, key=lambda lock: lock.name):
        known = merged.setdefault(lock.name, LockState(lock.name, [], [], []))
        known.holders.extend(lock.holders)
        known.waiters.extend(lock.waiters)
    return list(merged.values())


async def _ask(
    member: Member, credentials: Credentials, tls: ssl.SSLContext | None
) -> ClassicNodeState:
    address = str(member.address)
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return ClassicNodeState(
                member.name, address, "", await _figures(member, credentials, tls)
            )
    except TimeoutError:
        return ClassicNodeState(member.name, address, "no answer", None)
    except (OSError, ProtocolError, msgspec.MsgspecError) as error:
        return ClassicNodeState(member.name, address, explain(error), None)


async def _figures(
    member: Member, credentials: Credentials, tls: ssl.SSLContext | None
) -> ClassicFigures:
    connection = await dial(member.address, tls)
    try:
        await Caller(credentials, "admin", new_identity("admin"), member.name).greet(connection)
        answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        connection.use(
            lambda frame: answers.put_nowait(bytes(frame)), lambda _: answers.put_nowait(None)
        )
        connection.send(GetClassicStatus())
        answer = await answers.get()
        if answer is None:
            raise ProtocolError("the node closed the connection")
        status = decode_answer(answer)
        if not isinstance(status, ClassicStatus):
            raise ProtocolError(f"expected a ClassicStatus, got a {type(status).__name__}")
        return status.figures
    finally:
        connection.close("all questions are answered")
        await connection.wait_closed()


# In words


class ClassicSource:
    """Asks the nodes of a classic algorithm, which know no waits but their own."""

    def __init__(self, membership: Membership, security: Security) -> None:
        """Remember which nodes to ask."""
        self._membership = membership
        self._security = security

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        """Ask every node; each reports its locks in any case, and no graph."""
        state = await inspect(self._membership, self._security)
        health = HEALTH[state.health]
        leader = f", leader {state.leader or '-'}" if state.elects else ""
        leads = f"leader: {state.leader or 'none that all follow'}"
        return Status(
            "classic cluster",
            state.cluster,
            state,
            [node_view(node, elects=state.elects) for node in state.nodes],
            ("misses", "leader") if state.elects else ("misses", "locks", "held", "waiting"),
            health,
            f"cluster {state.cluster}: {state.algorithm}, {health}{leader}",
            about=[state.algorithm, leads if state.elects else OWN_WAITS],
        )


def node_view(node: ClassicNodeState, *, elects: bool) -> NodeView:
    """Describe a node."""
    report = node.report
    if report is None:
        return down(node.name, node.address, node.trouble)
    facts = {"misses": ", ".join(report.away) or "-"}
    if elects:
        facts["leader"] = report.leader or "-"
    else:
        facts["locks"] = str(report.known)
        facts["held"] = str(sum(len(lock.holders) for lock in report.locks))
        facts["waiting"] = str(sum(len(lock.waiters) for lock in report.locks))
    return NodeView(
        node.name,
        node.address,
        "good" if report.ready and not report.away else "warning",
        "up" if report.ready else "has not met all nodes",
        up_seconds=report.up_seconds,
        facts=facts,
    )
