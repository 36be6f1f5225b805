"""Orders of operators to a node: changes of the voters, holds that are ended, nodes to be called."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Close,
    CopyValue,
    GetValue,
    ListValues,
    Prepare,
    Query,
)
from coterie.cluster.membership.membership import check_attempt, check_decided, check_heard
from coterie.cluster.wire.frames import FIRST_NUMBERED
from coterie.cluster.wire.voter_frames import (
    AbstentionEnded,
    BreakHold,
    EndAbstention,
    HoldBroken,
    Impose,
    Reach,
)
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.algorithms.mutex.quorum.leased.frames import Ask
    from coterie.algorithms.mutex.quorum.leased.voter import Voter
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.membership.proof import Prover
    from coterie.cluster.runtime.host import Host
    from coterie.cluster.voter.hosted_voter import HostedVoter
    from coterie.cluster.voter.programs import Programs
    from coterie.cluster.wire.voter_frames import Reached
    from coterie.process import ProcessId

Order: TypeAlias = Impose | Reach | BreakHold | EndAbstention

logger = logging.getLogger("coterie.cluster")


class OperatorDesk:
    """Takes the frames that change a cluster, and carries them out at the voter of this node."""

    def __init__(
        self,
        node: str,
        hosted: HostedVoter,
        host: Host,
        programs: Programs,
        *,
        membership: Callable[[], Membership],
        prover: Prover,
        reach: Callable[[str, str, Callable[[Reached], None]], None],
        adopted: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            node: The name of the node.
            hosted: Its voter.
            host: Runs each step of the voter.
            programs: The programs that are connected, operators among them.
            membership: Returns the newest configuration that the node knows.
            prover: Proves what an operator imposes, as this node tells it to others.
            reach: Calls another node by name and address, and passes on what came of it.
            adopted: Called when the voter goes by what an operator has imposed.
        """
        self._node = node
        self._hosted = hosted
        self._host = host
        self._programs = programs
        self._membership = membership
        self._prover = prover
        self._reach = reach
        self._adopted = adopted

    @property
    def _voter(self) -> Voter:
        return self._hosted.voter

    def receive(self, number: ProcessId, frame: Ask | Order) -> None:
        """Handle what changes the cluster; only the question where we stand is open to others.

        Other programs do not make a node call what they name.
        """
        if not self._programs.is_operator(number) and not isinstance(frame, Query):
            raise ProtocolError(f"a {type(frame).__name__} of a program that is not an operator")
        if self._hosted.recovers and isinstance(frame, Prepare | Accept):
            # What it promised would be on disk, and the next start would take that for a disk that
            # knows which numbers were used. Changers ask again.
            return
        match frame:
            case Impose():
                self._impose(frame)
            case BreakHold():
                self._break(number, frame)
            case EndAbstention():
                self._programs.send(number, self._end_abstention(number))
            case Reach(name, address):
                self._reach(name, address, partial(self._programs.send, number))
            case Query() | Close() | Prepare() | Accept() | ListValues() | GetValue() | CopyValue():
                if isinstance(frame, Prepare | Accept):
                    check_attempt(frame.attempt)
                if isinstance(frame, Accept):
                    check_decided(frame.configuration)
                self._find_slowest()
                self._host.step(self._voter.receive, number, frame)

    def _impose(self, order: Impose) -> None:
        configuration = self._prover.prove(order.configuration)
        check_heard(configuration, self._membership().configuration)
        self._host.step(self._voter.impose, configuration)
        self._adopted()
        self._programs.announce(self._membership())
        logger.critical(
            "node %(node)s goes on by configuration %(number)d, which was not decided",
            {"node": self._node, "number": configuration.number},
            extra={"event": "configuration-forced"},
        )

    def _end_abstention(self, number: ProcessId) -> AbstentionEnded:
        """Forget all votes and vote at once, unless what we see contradicts the word of the operator.

        A program that is connected runs, and may hold a lock with votes of ours from before our start
        which we do not know. Of one that is not connected nothing can be known here: for that the
        operator vouches.
        """
        if self._hosted.recovers:
            return AbstentionEnded((), "its data directory is empty: start it with --new-cluster")
        programs = self._programs.connected()
        if not programs:
            logger.warning(
                "node %(node)s votes at once: operator %(operator)s vouches that no program runs",
                {"node": self._node, "operator": self._programs.operator(number)},
                extra={"event": "abstention-ended"},
            )
            self._host.step(self._voter.end_abstention)
        return AbstentionEnded(tuple(programs), "")

    def _find_slowest(self) -> None:
        """Look which program keeps the protocol down.

        What one that is connected, or has a session, cannot understand must not be decided.
        """
        self._voter.protocol, self._voter.slowest = self._programs.slowest(self._membership())

    def _break(self, number: ProcessId, order: BreakHold) -> None:
        """End the holds of a lock, as far as this node has given its vote to them."""
        lock, programs, membership = order.lock, self._programs, self._membership()
        tenures = self._voter.revocable(lock, order.participants, order.token)
        owners = [tenure.claim.participant for tenure in tenures]
        labels = {name: programs.labels.get(name, "unknown") for name in owners}
        too_old = tuple(
            labels[name] for name in owners if programs.version(name, membership) < FIRST_NUMBERED
        )
        told = () if too_old else tuple(labels.values())
        if told:
            logger.warning(
                "node %(node)s: operator %(operator)s has ended the hold of lock %(lock)r by"
                " %(holders)s",
                {
                    "node": self._node,
                    "operator": programs.operator(number),
                    "lock": lock,
                    "holders": ", ".join(told),
                },
                extra={"event": "hold-broken"},
            )
            self._host.step(self._voter.revoke, lock, tenures, order.token)
        programs.send(number, HoldBroken(told, too_old))
