"""The state of a whole cluster, as its nodes and the programs connected to them tell it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.consulting import Consultation, consult
from coterie.cluster.frames import Concerned, Condition, Figures, HowIsIt, NodeReport, Whose
from coterie.cluster.handshake import Credentials
from coterie.cluster.survey import Survey
from coterie.coordinator.engine import Party
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    import ssl

    from coterie.cluster.access import Visit
    from coterie.cluster.membership import Member, Membership

ANSWERS_SECONDS_MAX = 1.0
HEALTHY, DEGRADED, NO_QUORUM = 0, 1, 69  # the exit statuses of `coterie status`


class NodeState(msgspec.Struct, frozen=True):
    """A node, or why it cannot be asked."""

    name: str
    address: str
    trouble: str
    report: Figures | None


class LockState(msgspec.Struct, frozen=True):
    """A lock that somebody holds, keeps or waits for."""

    name: str
    holders: list[Party]
    waiters: list[Party]


class ClusterState(msgspec.Struct, frozen=True):
    """What could be learnt."""

    cluster: str
    coterie: str
    lease: float
    nodes: list[NodeState]
    locks: list[LockState]
    health: int


async def inspect(visit: Visit, *, locks: bool) -> ClusterState:
    """Ask every node, and if wanted everybody who is concerned with a lock."""
    membership, security = await visit.learn(), visit.security
    credentials = Credentials(membership.cluster, membership.digest, security.secret_bytes())
    tls = security.client_context()
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            _open(stack, member, credentials, tls, locks=locks) for member in membership.members
        ]
        asked = await asyncio.gather(*opened)
        states = [state for state, _ in asked]
        consultations = {
            voter: consultation
            for voter, (_, consultation) in enumerate(asked, 1)
            if consultation is not None
        }
        known = await _survey(consultations, _names(states)) if locks else []
    settings = membership.settings
    return ClusterState(
        membership.cluster,
        settings.coterie,
        settings.lease,
        states,
        known,
        _health(membership, states),
    )


async def _open(
    stack: contextlib.AsyncExitStack,
    member: Member,
    credentials: Credentials,
    tls: ssl.SSLContext | None,
    *,
    locks: bool,
) -> tuple[NodeState, Consultation | None]:
    try:
        async with asyncio.timeout(ANSWERS_SECONDS_MAX):
            consultation = await stack.enter_async_context(
                consult(member.address, credentials, tls)
            )
            answer = await consultation.ask(HowIsIt(locks), NodeReport)
    except TimeoutError:
        return NodeState(member.name, str(member.address), "no answer", None), None
    except (OSError, ProtocolError, msgspec.MsgspecError) as error:
        trouble = str(error) or type(error).__name__
        return NodeState(member.name, str(member.address), trouble, None), None
    return NodeState(member.name, str(member.address), "", answer.figures), consultation


def _names(states: list[NodeState]) -> list[str]:
    reports = [state.report for state in states if state.report is not None]
    return sorted({lock.lock for report in reports for lock in report.locks})


def _health(membership: Membership, states: list[NodeState]) -> int:
    """Judge; while programs are not back at a node, the next one had better not be restarted."""
    reports = [state.report for state in states if state.report is not None]
    up = [voter for voter, state in enumerate(states, 1) if state.report is not None]
    if not membership.settings.quorums.contains_quorum(up):
        return NO_QUORUM
    complete = len(up) == len(states) and all(
        not report.abstains_seconds and all(session.connected for session in report.sessions)
        for report in reports
    )
    return HEALTHY if complete else DEGRADED


async def _survey(consultations: dict[int, Consultation], locks: list[str]) -> list[LockState]:
    surveys = [Survey(lock, consultations) for lock in locks]
    for consultation in consultations.values():
        for question, lock in enumerate(locks):
            consultation.send(Whose(question, lock))
    listening = [
        asyncio.ensure_future(_listen(voter, consultation, surveys))
        for voter, consultation in consultations.items()
    ]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWERS_SECONDS_MAX):
            for survey in surveys:
                await survey.complete.wait()
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    return [LockState(survey.lock, survey.holders(), survey.waiters()) for survey in surveys]


async def _listen(voter: int, consultation: Consultation, surveys: list[Survey]) -> None:
    while True:
        answer = await consultation.next()
        if isinstance(answer, Concerned):
            surveys[answer.question].name(voter, answer)
        elif isinstance(answer, Condition):
            surveys[answer.question].hear(answer)
