"""The state of a whole cluster, as its nodes and the programs connected to them tell it, and in words."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.cluster.membership.abstention import OF_ANOTHER, SPARE, no_votes
from coterie.cluster.membership.discovery import VOTERS_SECONDS_MAX, copies, newest, rivals
from coterie.cluster.voter.report import LOCKS_MAX
from coterie.cluster.wire.query import Consultation, consult
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import Abstention, Figures, FindOwners, GetStatus, NodeStatus
from coterie.errors import ProtocolError
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.graph import lasting_graph
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.engine import LockState
from coterie.locks.leases.frames import OwnerReport, Owners
from coterie.locks.leases.owner_query import OwnerQuery
from coterie.locks.status import NodeView, ProgramView, Status, down

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator, Sequence

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.cluster.client.access import Visit
    from coterie.cluster.membership.membership import Member, Membership
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.handshake import Credentials

OPEN_SECONDS_MIN = 3.0  # to wait for a node: a call, a handshake and an answer
ANSWERS_SECONDS_MIN = 1.0  # to wait for what programs say
ROUND_TRIPS = 4  # of the longest that was measured, if that is longer
LOCKS_PER_QUESTION = 100
DEATHS_SHOWN_SECONDS = 600.0
HEALTHY, DEGRADED, NO_QUORUM = 0, 1, 69  # the exit statuses of `coterie status`
COLUMNS = ("programs", "owned", "waiting")


class NodeState(msgspec.Struct, frozen=True):
    """A node, or why it cannot be asked."""

    name: str
    address: str
    trouble: str
    report: Figures | None


class ClusterState(msgspec.Struct, frozen=True):
    """What could be learnt."""

    cluster: str
    coterie: str
    lease: float
    nodes: list[NodeState]
    locks: list[LockState]
    health: int
    reason: str = ""  # why there is no quorum, or what is missing though there is one
    truncated: bool = False  # nodes know more locks than they list
    locks_left_out: int = 0  # at least so many
    number: int = 0  # of the configuration; 0: it is the file
    joint: bool = False  # a change of the voters is under way, or was left in the middle


async def inspect(visit: Visit, *, locks: bool) -> ClusterState:
    """Ask every node, and with `locks` every program that has a lock or waits for one."""
    async with _asking(visit, locks=locks) as (asked, consultations):
        names = _names(asked.states) if locks else []
        surveyed = await _survey(consultations, names, itertools.count())
    return _cluster_state(asked, surveyed)


async def inspect_lock(visit: Visit, lock: str) -> tuple[ClusterState, OwnerQuery]:
    """Ask about one lock alone, also if nodes know too many to list it."""
    async with _asking(visit, locks=False) as (asked, consultations):
        surveyed = await _survey(consultations, [Wanted(lock)], itertools.count())
    return _cluster_state(asked, surveyed), surveyed[0][0]


async def inspect_all(visit: Visit) -> tuple[ClusterState, Graph[str]]:
    """Ask once for everything: the nodes, the locks, and which waits last."""
    async with _asking(visit, locks=True) as (asked, consultations):
        locks, questions = _names(asked.states), itertools.count()
        first = await _collect(consultations, locks, questions)
        surveyed = await _survey(consultations, locks, questions)
        second = await _collect_further(consultations, surveyed, questions)
    return _cluster_state(asked, surveyed), lasting_graph(first, second)


class Asked(NamedTuple):
    """The nodes that were asked, and what they have answered."""

    membership: Membership
    states: list[NodeState]
    rivals: list[str]  # nodes that go by what contradicts it, or run twice, in words


def _cluster_state(
    asked: Asked,
    surveyed: list[tuple[OwnerQuery, list[Wanted]]],
) -> ClusterState:
    membership, states, contradicting = asked
    settings = membership.settings
    known = [
        LockState(lock, survey.holders(lock), survey.silent(lock), survey.waiters(lock))
        for survey, part in surveyed
        for lock in (wanted.lock for wanted in part)
    ]
    left_out = _left_out(states)
    no_quorum, degraded = _why_no_quorum(membership, states), _why_degraded(membership, states)
    reasons = [*filter(None, [no_quorum or degraded]), *contradicting]
    return ClusterState(
        membership.cluster,
        settings.coterie,
        settings.lease,
        states,
        known,
        NO_QUORUM if no_quorum else DEGRADED if reasons else HEALTHY,
        "; ".join(reasons),
        left_out > 0,
        left_out,
        membership.configuration.number,
        membership.configuration.is_joint,
    )


async def inspect_waits(visit: Visit) -> tuple[ClusterState, Graph[str]]:
    """Ask twice which tasks wait for which; return the nodes, and the waits that lasted."""
    async with _asking(visit, locks=True) as (asked, consultations):
        locks, questions = _names(asked.states), itertools.count()
        first = await _collect(consultations, locks, questions)
        second = await _collect(consultations, locks, questions)
    return _cluster_state(asked, []), lasting_graph(first, second)


async def _collect(
    consultations: dict[int, Consultation], locks: list[Wanted], questions: Iterator[int]
) -> Collection:
    """Ask about all locks, then what blocks each request to share one."""
    surveyed = await _survey(consultations, locks, questions)
    return await _collect_further(consultations, surveyed, questions)


async def _collect_further(
    consultations: dict[int, Consultation],
    surveyed: list[tuple[OwnerQuery, list[Wanted]]],
    questions: Iterator[int],
) -> Collection:
    """Put the answers together, and ask what blocks each request to share a lock."""
    known = [(survey, lock) for survey, part in surveyed for lock in part]
    collection = Collection(owner for survey, lock in known for owner in survey.waiting(lock.lock))
    for survey, lock in known:
        collection.hear(lock, survey.holds(lock))
    shared = [wanted for wanted in collection.wanted() if wanted.requester.participant]
    for survey, part in await _survey(consultations, shared, questions, search=True):
        for wanted in part:
            collection.hear(wanted, survey.holds(wanted))
    return collection


@contextlib.asynccontextmanager
async def _asking(
    visit: Visit, *, locks: bool
) -> AsyncIterator[tuple[Asked, dict[int, Consultation]]]:
    """Open a connection to every node that answers, within some times what the first one took."""
    loop, security = asyncio.get_running_loop(), visit.security
    began = loop.time()
    answers = await visit.ask_around(VOTERS_SECONDS_MAX)
    membership = newest(answers)
    limit = max(OPEN_SECONDS_MIN, ROUND_TRIPS * (loop.time() - began))
    credentials = membership.credentials(security.secret_bytes())
    tls = security.client_context()
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            _open(
                stack,
                visit.ways(membership, voter),
                member,
                credentials,
                tls,
                limit=limit,
                locks=locks,
            )
            for voter, member in zip(membership.seats, membership.members, strict=True)
        ]
        asked = await asyncio.gather(*opened)
        states = [state for state, _ in asked]
        consultations = {
            voter: consultation
            for voter, (_, consultation) in zip(membership.seats, asked, strict=True)
            if consultation is not None
        }
        found = [*rivals(answers, membership.configuration), *copies(answers)]
        yield Asked(membership, states, found), consultations


async def _open(
    stack: contextlib.AsyncExitStack,
    ways: Sequence[Address],
    member: Member,
    credentials: Credentials,
    tls: ssl.SSLContext | None,
    *,
    limit: float,
    locks: bool,
) -> tuple[NodeState, Consultation | None]:
    """Ask a node, at the first of these addresses where it answers."""
    trouble = "no answer"
    try:
        async with asyncio.timeout(limit):
            for address in ways:
                try:
                    consultation = await stack.enter_async_context(
                        consult(address, credentials, tls, member.name)
                    )
                    answer = await consultation.ask(GetStatus(locks), NodeStatus)
                except (OSError, ProtocolError, msgspec.MsgspecError) as error:
                    if address == member.address or trouble == "no answer":
                        trouble = explain(error)
                else:
                    return NodeState(member.name, str(address), "", answer.figures), consultation
    except TimeoutError:
        pass
    return NodeState(member.name, str(member.address), trouble, None), None


def _names(states: list[NodeState]) -> list[Wanted]:
    reports = [state.report for state in states if state.report is not None]
    return sorted({lock.wanted for report in reports for lock in report.locks})


def _left_out(states: list[NodeState]) -> int:
    """Count the locks that are not listed; those that nodes leave out may be the same ones."""
    return max((state.report.locks_left_out for state in states if state.report), default=0)


def _why_no_quorum(membership: Membership, states: list[NodeState]) -> str:
    """Say why no quorum votes; empty if one does."""
    quorums = membership.configuration.quorums
    seated = zip(membership.seats, states, strict=True)
    up = {voter: state.report for voter, state in seated if state.report is not None}
    if quorums.contains_quorum([v for v, report in up.items() if not report.abstains_seconds]):
        return ""
    troubles = [f"{state.name}: {state.trouble}" for state in states if state.report is None]
    if not quorums.contains_quorum(up):
        return f"no quorum of nodes answers: {'; '.join(troubles)}"
    abstentions = {
        membership.at(voter).name: Abstention(report.abstains_seconds, report.abstains_because)
        for voter, report in up.items()
        if report.abstains_seconds
    }
    formed = membership.decided is not None
    return f"no quorum votes: {no_votes(abstentions, troubles, formed=formed)}"


def _why_degraded(membership: Membership, states: list[NodeState]) -> str:
    """Say what is not as it should be; empty if all nodes vote and all programs are there.

    Until all programs are back at a node, the next one should not be restarted.
    """
    reasons = []
    if membership.configuration.is_joint:
        reasons.append(
            f"configuration {membership.configuration.number} is joint: the change is under way, or"
            " waits for coterie cluster finish or abort"
        )
    for state in states:
        report = state.report
        if report is None:
            reasons.append(f"{state.name}: {state.trouble}")
        elif report.abstains_seconds:
            reasons.append(f"{state.name} abstains: {report.abstains_because}")
        elif away := sum(not session.connected for session in report.sessions):
            reasons.append(f"{state.name} has lost {away} of {len(report.sessions)} programs")
    return "; ".join(reasons)


async def _survey(
    consultations: dict[int, Consultation],
    locks: list[Wanted],
    questions: Iterator[int],
    *,
    search: bool = False,
) -> list[tuple[OwnerQuery, list[Wanted]]]:
    """Ask all participants concerned, some locks at a time, each time with the next number."""
    parts = [locks[i : i + LOCKS_PER_QUESTION] for i in range(0, len(locks), LOCKS_PER_QUESTION)]
    surveys = {next(questions): OwnerQuery(consultations) for _ in parts}
    for consultation in consultations.values():
        for question, part in zip(surveys, parts, strict=True):
            consultation.send(FindOwners(question, tuple(part), search))
    listening = [
        asyncio.ensure_future(_listen(voter, consultation, surveys))
        for voter, consultation in consultations.items()
    ]
    # A program may be as far from its node as that is from here.
    longest = max((each.round_trip for each in consultations.values()), default=0.0)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(ANSWERS_SECONDS_MIN, ROUND_TRIPS * longest)):
                for survey in surveys.values():
                    await survey.complete.wait()
    finally:  # also for a caller who has given up: what is left would fail when its connection is closed
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    return list(zip(surveys.values(), parts, strict=True))


async def _listen(voter: int, consultation: Consultation, surveys: dict[int, OwnerQuery]) -> None:
    while True:
        answer = await consultation.next()
        if not isinstance(answer, Owners | OwnerReport) or answer.question not in surveys:
            continue  # it has come too late
        survey = surveys[answer.question]
        if isinstance(answer, Owners):
            survey.name(voter, answer)
        else:
            survey.hear(answer)


# In words


class ClusterSource:
    """Asks the nodes of a cluster, and through them the programs that are connected."""

    def __init__(self, visit: Visit) -> None:
        """Remember which nodes to ask."""
        self._visit = visit

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        """Ask every node, and every program if locks or waits are wanted."""
        graph = None
        if not waits:
            state = await inspect(self._visit, locks=locks)
        else:
            state, graph = await (inspect_all if locks else inspect_waits)(self._visit)
        health = f"degraded: {state.reason}" if state.health == DEGRADED else state.reason
        health = health or "healthy"
        number = f", configuration {state.number}" if state.number else ""
        cut = "the list is not complete" if locks else "the graph is not complete"
        return Status(
            "cluster",
            state.cluster,
            state,
            [node_view(node) for node in state.nodes],
            COLUMNS,
            health,
            f"cluster {state.cluster}{number}: {health}",
            graph,
            _programs(state),
            state.lease,
            [f"coterie {state.coterie}, lease {state.lease:g} s"],
            [
                *_deaths(state),
                *([f"{cut}: {_left_out_in_words(state)}"] if state.truncated else []),
            ],
        )


def _deaths(state: ClusterState) -> list[str]:
    """Say which programs were found dead of late, and by whom: each once, though all nodes may know."""
    found: dict[str, tuple[float, str]] = {}
    for node in state.nodes:
        for death in node.report.deaths if node.report else ():
            if death.seconds_ago <= DEATHS_SHOWN_SECONDS:
                said = death.seconds_ago, death.witness
                found[death.label] = min(said, found.get(death.label, said))
    return [
        f"program {label} died {seconds:.0f} s ago, as {witness} has seen; its locks were given on"
        for label, (seconds, witness) in sorted(found.items())
    ]


def _left_out_in_words(state: ClusterState) -> str:
    more = f"there are at least {state.locks_left_out:,} more"
    return f"a node lists {LOCKS_MAX:,} locks at most, and {more}"


def node_view(node: NodeState) -> NodeView:
    """Describe a node."""
    report = node.report
    if report is None:
        return down(node.name, node.address, node.trouble)
    away = sum(not session.connected for session in report.sessions)
    facts = {
        "programs": f"{len(report.sessions)} ({away} away)" if away else str(len(report.sessions)),
        "owned": str(report.owned),
        "waiting": str(report.waiting),
        "version": report.version,
    }
    lasting = report.abstains_seconds if math.isfinite(report.abstains_seconds) else 0.0
    return NodeView(
        node.name,
        node.address,
        "warning" if report.abstains_seconds else "good",
        _state(report),
        lasting,
        report.up_seconds,
        facts,
        report.messages,
    )


def _state(report: Figures) -> str:
    if not report.abstains_seconds:
        return "votes"
    if math.isfinite(report.abstains_seconds):
        return "abstains"
    if report.abstains_because.startswith(OF_ANOTHER):
        return "disk of another voter"
    return "spare" if report.abstains_because == SPARE else "abstains: empty disk"


def _programs(state: ClusterState) -> list[ProgramView]:
    """Put together what the nodes say of each program: the node that heard it last is right."""
    connected: dict[str, int] = {}
    silent: dict[str, float] = {}
    for node in state.nodes:
        for session in node.report.sessions if node.report else ():
            connected[session.label] = connected.get(session.label, 0) + session.connected
            heard = silent.get(session.label, math.inf)
            silent[session.label] = min(heard, session.silent_seconds)
    return [
        ProgramView(label, connected[label], state.lease - silent[label])
        for label in sorted(connected)
    ]
