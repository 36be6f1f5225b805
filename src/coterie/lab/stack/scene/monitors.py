"""What is promised to users of locks and transactions, judged while a run goes on.

A program that is told that it holds a lock reports the hold here, and each hold is judged at that
instant of true time, every process by its own clock: what a program would find if it looked just then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.lab.serializability import check
from coterie.lab.stack.world import ViolationError
from coterie.lab.stack.world.machine import observed
from coterie.transactions.history import History, HistoryEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.frames import Attempt
    from coterie.algorithms.mutex.quorum.leased.voter import Voter
    from coterie.lab.stack.world import World
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Holding


ACCUSATION = "refused: "  # how a node logs that it will not have a connection
NUMBERS_WATCHED = 6  # of configurations, before the newest
NO_ACCUSATIONS = (
    "hung up after our proof",  # a caller that has died or given up
    "leaves without a proof",  # one that wants another node or disk
    "the caller hung up in the handshake",  # of TLS, as above
    "connection reset by peer",  # in the handshake of TLS
    "of a start of the peer that is over",  # a letter or a call
    "does not tolerate restarts",
    "has no data directory",  # and its time of day is away from ours
)
QUESTION_SECONDS = 0.5  # between two, at most
STUCK = (  # for so many seconds: what a caller has sent is on its way, or is not read
    "no handshake in",
    "SSL handshake is taking longer than",
)


@dataclass(eq=False)
class Hold:
    """What a program has been told that it holds."""

    process: Process
    held: Holding
    lock: str
    shared: bool
    token: int
    since: float

    def is_valid(self, at: float) -> bool:
        """Return whether its program, looking at that instant, would find it valid."""
        if not self.process.is_alive:
            return False
        with observed(self.process, at):
            return self.held.valid

    def is_told(self, at: float) -> bool:
        """Return whether its program has heard of the loss."""
        with observed(self.process, at):
            return self.held.lost.is_set()

    def __str__(self) -> str:
        """Name it as people do."""
        mode = "shares" if self.shared else "holds"
        return f"{self.process.name} {mode} {self.lock} since {self.since:.6f} (token {self.token})"


class LockMonitor:
    """Exclusion, tokens that only grow, and losses that are told before the next grant."""

    def __init__(self, world: World, lease: float, *, fenced: bool = True) -> None:
        """Begin with nothing held; without `fenced`, tokens mean nothing."""
        self.fenced = fenced
        self.grants = 0
        self.losses = 0
        self.holds: dict[str, list[Hold]] = {}
        self.lease = lease  # the longest there is
        # An operator who ends a hold does not wait for its program, whose next turn may be late by a moment.
        self.turns_excuse = False
        self._world = world
        self._highest: dict[str, int] = {}
        self._highest_exclusive: dict[str, int] = {}

    def granted(self, process: Process, held: Holding, *, shared: bool = False) -> None:
        """Judge a hold that a program has just got; several at once if it is of several locks."""
        for lock, token in held.tokens.items():
            if process.is_alive:
                self._granted(Hold(process, held, lock, shared, token, process.true_now()))

    def _granted(self, hold: Hold) -> None:
        at, lock = hold.since, hold.lock
        self.grants += 1
        self._world.recorder.told(at, hold.process.number, "Entered")
        self._world.recorder.log(at, hold.process.name, f"granted {lock}, token {hold.token}")
        before = self.holds.setdefault(lock, [])
        if hold.is_valid(at):
            for other in before:
                if not (hold.shared and other.shared):
                    self._judge(hold, other, at)
            self._judge_token(hold)
        before.append(hold)

    def _judge(self, hold: Hold, other: Hold, at: float) -> None:
        if other.is_valid(at):
            self._world.violate("exclusion", f"at {at:.6f} {hold} while {other}")
        late = other.process.late_until > at - 2 * self.lease - 1
        late |= self.turns_excuse and other.process.busy_until > at
        if other.process.is_alive and not late and not other.is_told(at):
            self._world.violate(
                "told", f"at {at:.6f} {hold}, and it was not told of the end of: {other}"
            )

    def _judge_token(self, hold: Hold) -> None:
        if not self.fenced:
            return
        highest = self._highest_exclusive if hold.shared else self._highest
        if hold.token <= highest.get(hold.lock, 0):
            above = highest[hold.lock]
            self._world.violate("tokens", f"{hold}, after a grant with token {above}")
        self._highest[hold.lock] = max(hold.token, self._highest.get(hold.lock, 0))
        if not hold.shared:
            self._highest_exclusive[hold.lock] = hold.token

    def released(self, process: Process, held: Holding) -> None:
        """Take note that a program is about to give a hold back, or has found it lost."""
        if not process.is_alive:
            return
        for lock in held.tokens:
            self._judge_again([hold for hold in self.holds[lock] if hold.held is held])
            self.holds[lock] = [hold for hold in self.holds[lock] if hold.held is not held]
        self._world.recorder.called(process.true_now(), process.number, "release")
        self._world.recorder.log(process.true_now(), process.name, f"releases {held.name}")

    def _judge_again(self, ending: list[Hold]) -> None:
        """Find holds that have come into force beside one that ends only now, without a grant."""
        for hold in ending:
            at = hold.process.true_now()
            for other in self.holds[hold.lock]:
                excluded = other.held is not hold.held and not (hold.shared and other.shared)
                if excluded and other.is_valid(at) and hold.is_valid(at):
                    self._world.violate("exclusion", f"at {at:.6f} {hold} while {other}")

    def forget_dead(self) -> None:
        """Drop the holds of processes that have ended."""
        for lock, holds in self.holds.items():
            self.holds[lock] = [hold for hold in holds if hold.process.is_alive]


class OrderMonitor:
    """First come, first served: requests of programs far enough apart are served in order."""

    def __init__(self, world: World, apart: float) -> None:
        """Requests less than so many seconds apart may be served in any order."""
        self._world = world
        self._apart = apart
        self._waiting: dict[str, tuple[float, bool]] = {}

    def asked(self, who: str, at: float, *, shared: bool = False) -> None:
        """Take note of a request."""
        self._waiting[who] = at, shared

    def served(self, who: str) -> None:
        """Judge a grant: no request may wait that came well before, unless both share."""
        asked, shared = self._waiting.pop(who)
        for other, (at, other_shares) in self._waiting.items():
            if at < asked - self._apart and not (shared and other_shares):
                text = (
                    f"{who}, which asked at {asked:.3f} s, is served before {other}, at {at:.3f} s"
                )
                self._world.violate("order", text)


class QuestionMonitor:
    """While a change runs, each voter that can answer is asked at least twice a second, whatever the lease is."""

    def __init__(self, world: World, delay: float) -> None:
        """Begin with nothing asked; what is sent takes so many seconds at most."""
        self._world = world
        self._limit = QUESTION_SECONDS + delay
        self._answered: dict[Process, tuple[int, float]] = {}  # how often, and since when

    def look(self, process: Process, answers: int, since: float) -> None:
        """Judge a voter that has answered so many questions, where all has been well since then and a change runs."""
        now = self._world.now
        before, at = self._answered.get(process, (-1, now))
        if answers != before:
            self._answered[process] = answers, now
        elif now - max(at, since) > self._limit:
            text = (
                f"{process.name} was asked nothing since {max(at, since):.3f} s, and a change runs"
            )
            self._world.violate("asked", text)


@dataclass
class ValueHistory:
    """What programs have done to the value of one lock; writes have ranks, the later the higher."""

    ranks: dict[bytes, tuple[int, int]]
    deletions: list[tuple[int, int]]
    floor: tuple[int, int] = (0, 0)  # of what was acknowledged or read
    decided: tuple[int, int] = (0, 0)  # the last read of a holder
    until: int = 0  # its token: writes of earlier holds above `decided` never happen


class ValueMonitor:
    """What is promised of values: nothing acknowledged is lost, no read goes back, what was decided stays so.

    Each write has data of its own. Its rank is the token of its hold and its place in the hold, and stays with the data
    when a later holder writes it again to settle it.
    """

    def __init__(self, world: World) -> None:
        """Begin with nothing written."""
        self._world = world
        self._histories: dict[str, ValueHistory] = {}
        self.reads = self.writes = 0

    def history(self, lock: str) -> ValueHistory:
        """Return what is known of a lock."""
        return self._histories.setdefault(lock, ValueHistory({}, [(0, 0)]))

    def begin_write(
        self, lock: str, token: int, number: int, data: bytes | None
    ) -> tuple[int, int]:
        """Take note of a write that may happen from now on; return its rank."""
        history, rank = self.history(lock), (token, number)
        if data is None:
            history.deletions.append(rank)
        else:
            history.ranks[data] = rank
        return rank

    def end_write(self, lock: str, rank: tuple[int, int]) -> None:
        """Judge that a write was acknowledged."""
        history = self.history(lock)
        if history.decided < rank and rank[0] < history.until:
            text = f"{lock}: write {rank} is acknowledged, and {history.until} had read without it"
            self._world.violate("values decided", text)
        history.floor = max(history.floor, rank)
        self.writes += 1

    def begin_read(self, lock: str) -> ValueHistory:
        """Return what is known when a read begins."""
        now = self.history(lock)
        return ValueHistory(now.ranks, now.deletions, now.floor, now.decided, now.until)

    def end_read(
        self, lock: str, before: ValueHistory, data: bytes | None, token: int | None
    ) -> None:
        """Judge what was read, by the holder with that token or by who has no lock."""
        history = self.history(lock)
        possible = history.deletions if data is None else [history.ranks[data]]
        late = [rank for rank in possible if rank >= before.floor]
        if not late:
            text = f"{lock}: {data!r} of {max(possible)} is read after {before.floor}"
            self._world.violate("values go back", text)
            return
        fine = [rank for rank in late if not (before.decided < rank and rank[0] < before.until)]
        if not fine:
            text = (
                f"{lock}: {data!r} of {late} is read, and {before.until} had read {before.decided}"
            )
            self._world.violate("values decided", text)
            return
        rank = min(fine)
        history.floor = max(history.floor, rank)
        if token is not None and token > history.until:
            history.until, history.decided = token, rank
        self.reads += 1

    def restart(self, lock: str, data: bytes | None) -> None:
        """Take note of a value that says of itself that later ones may be lost: nothing counts but what follows."""
        history = self.history(lock)
        possible = history.deletions if data is None else [history.ranks[data]]
        history.floor = min(history.floor, max(possible))
        history.decided, history.until = (0, 0), 0


class ConfigurationMonitor:
    """One decision for each number, and disks that never go back to an earlier one."""

    def __init__(self, world: World) -> None:
        """Begin with nothing decided."""
        self.newest = 0
        self._world = world
        self._decided: dict[tuple[str, int], Configuration] = {}  # by installation
        self._installations: dict[str, str] = {}  # by the identities of disks
        self._adopted: dict[str, int] = {}  # by the identities of disks
        self._accepting: dict[tuple[int, Attempt], set[str]] = {}  # the disks, by number

    def saw(self, who: str, configuration: Configuration) -> None:
        """Judge a configuration that a process takes for decided."""
        number = configuration.number
        if number == 0:
            return
        self.newest = max(self.newest, number)
        known = self._decided.setdefault((configuration.cluster_identity, number), configuration)
        if not known.is_same(configuration):
            text = f"{who} knows configuration {number} as {configuration}, and others as {known}"
            self._world.violate("one decision", text)

    def accepted(self, voter: Voter) -> None:
        """Take note of what a voter has accepted; by a quorum it is decided, if one knows it or not."""
        if voter.configuration is None:
            return
        identity = voter.configuration.cluster_identity
        proposal = voter.succession.accepted
        present = self._decided.get((identity, voter.number))
        if proposal is None or present is None:
            return
        disks = self._accepting.setdefault((present.number, proposal.attempt), set())
        if voter.identity in disks:
            return
        disks.add(voter.identity)
        seats = [member.seat for member in present.members if member.identity in disks]
        if present.deciders.contains_quorum(seats):
            self.saw(f"a quorum with {proposal.attempt}", proposal.configuration)

    def served(self, voters: Sequence[Voter]) -> None:
        """Judge the sessions of all voters that run: none may be counted by a number that is over.

        When one is noted as finished, a voter in each of its quorums has no session of it, and opens
        none later. So no program has sessions of that number with a whole quorum, whatever clocks do.
        """
        installations: dict[str, list[Voter]] = {}
        for voter in voters:
            if voter.configuration is not None:
                installations.setdefault(voter.configuration.cluster_identity, []).append(voter)
        for identity, together in installations.items():
            self._judge_served(identity, together)

    def _judge_served(self, identity: str, voters: Sequence[Voter]) -> None:
        numbers = [voter.number for voter in voters]
        newest = max(numbers, default=0)
        noted = [voter.configuration for voter in voters if voter.number == newest]
        unfinished = [
            {newest, *(rule.number for rule in each.open)} for each in noted if each is not None
        ]
        for number in range(max(1, newest - NUMBERS_WATCHED), newest):
            decided = self._decided.get((identity, number))
            if decided is not None and not all(number in each for each in unfinished):
                self._judge_finished(decided, voters)

    def _judge_finished(self, configuration: Configuration, voters: Sequence[Voter]) -> None:
        seats = {member.identity: member.seat for member in configuration.members}
        backed: dict[str, list[int]] = {}
        for voter in voters:
            for participant, link in voter.sessions.items():
                if link.number == configuration.number and voter.identity in seats:
                    backed.setdefault(participant, []).append(seats[voter.identity])
        for participant, by in backed.items():
            if configuration.quorums.contains_quorum(by):
                text = f"{participant} is served by {by}, and configuration {configuration} is over"
                self._world.violate("finished", text)

    def adopted(self, disk: str, number: int) -> None:
        """Take note of what is on a disk."""
        self._adopted[disk] = max(number, self._adopted.get(disk, 0))

    def belongs(self, voter: Voter) -> None:
        """Judge of which installation a disk is: of the first one for good."""
        identity = voter.configuration.cluster_identity if voter.configuration else ""
        known = self._installations.setdefault(voter.identity, identity) if identity else identity
        if known != identity:
            text = f"the disk {voter.identity} is of installation {known}, and goes by {identity}"
            self._world.violate("installation", text)

    def started(self, name: str, disk: str, number: int) -> None:
        """Judge what a node goes on by after a start."""
        before = self._adopted.get(disk, 0)
        if max(number, 0) < before:
            text = f"{name} goes on by configuration {number}, and had adopted {before}"
            self._world.violate("adopted", text)

    def kept(self, name: str, before: Voter, after: Voter, *, resumed: bool) -> None:
        """Judge what a voter knows after a start that it had to keep from its end on.

        It has answered by all that it knew, so a changer may rest on a promise or an acceptance, and
        a participant on a lease of so long. A voter that has resumed goes on with its sessions and may
        have closed the longer lease by now, as a voter may that was never stopped.
        """
        lost = []
        if after.number == before.number and before.number >= 0:
            promised, accepted = before.succession.promised, before.succession.accepted
            if promised is not None and promised != after.succession.promised:
                lost.append(f"the promise of {promised}")
            if accepted is not None and accepted != after.succession.accepted:
                lost.append(f"that it has accepted {accepted.configuration}")
            if after.abstention < before.abstention and not resumed:
                lost.append(f"that it has to abstain for {before.abstention} s")
        if lost:
            text = f"{name} has forgotten {' and '.join(lost)} (configuration {after.number})"
            self._world.violate("kept", text)


class AccusationMonitor(logging.Handler):
    """No process finds fault with what a peer sends, for all run the same code and TCP loses nothing.

    Sessions and links repair what a fault in a frame breaks: the connection ends, and what was lost is
    sent again. So nothing else would show that frames are cut, mixed up or left out.
    """

    def __init__(self, world: World, first_fault: float, excuses: tuple[str, ...] = ()) -> None:
        """Listen to what nodes and programs log from `with` on; nothing is stuck before the first fault.

        `excuses` are reasons for which these nodes may refuse a connection, beside those for all.
        """
        super().__init__(logging.WARNING)
        self._world = world
        self._first_fault = first_fault
        self._excuses = (*NO_ACCUSATIONS, *excuses)
        self._logger = logging.getLogger("coterie.cluster")
        self._before = self._logger.level, self._logger.propagate

    def __enter__(self) -> None:
        """Listen."""
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self._logger.removeHandler(self)
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        """Judge a line: a connection may be refused because of an end, and of nothing else."""
        text = record.getMessage()
        if ACCUSATION not in text or any(reason in text for reason in self._excuses):
            return
        is_stuck = any(reason in text for reason in STUCK)
        if not is_stuck or self._world.now < self._first_fault:
            self._world.violate("accused", text)


class HistoryMonitor:
    """What transactions did, as their programs saw it: serializable, and the sum of money is kept."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.history = History()
        self.transactions = 0

    def add(
        self, process: Process, name: str, op: str, key: str | None = None, value: Any = None
    ) -> None:
        """Take note of what a transaction does, unless its process is dead."""
        if not process.is_alive:
            return
        if op == "commit":
            self.transactions += 1
        if key is None:
            self.history.add(HistoryEvent(name, op))
        else:
            self.history.add(HistoryEvent(name, op, key, value))

    def judge(self) -> bool | None:
        """Raise if there is no serial order; return None if that could not be decided."""
        report = check(self.history)
        if report.serializable is False:
            text = "; ".join(str(anomaly) for anomaly in report.anomalies[:2])
            raise ViolationError("serializable", text)
        return report.serializable
