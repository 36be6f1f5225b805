"""What all detectors share: the wait of a process, and the trial before it is hurt.

A process that suspects a deadlock accuses the victim and names the members of the core, each with the
number of its wait. The victim then asks every other member whether it is still in that wait. All
answers are given after the suspicion was complete, and a wait never recurs: so if all say yes, all
of these waits existed at one moment, and the deadlock is real however stale the suspicion was.

Two trials may share members. A process that has said yes pledges to stand no trial of its own until it is
released, so at the moment when a victim is aborted its deadlock still stands: no second victim for
a cycle that is already broken. A process on trial lets others wait for its answer. Neither can
go round in a circle: the victim is the most junior member of its core, so it waits for the answers
of its seniors only, and one that has pledged but is not on trial answers at once.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any

from coterie.algorithms.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Deadlocked,
    Denied,
    Release,
    Settled,
    Trial,
    TrialMessage,
)
from coterie.algorithms.deadlock.detectors.waits import (
    Wait,
    WaitId,
    choose_victim,
    graph_of,
    members_of,
)
from coterie.process import MessageT, Outbox, Process, ProcessId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.algorithms.deadlock.condition import Condition


class Detector(Process[MessageT]):
    """The detector of one process, or of one of its parts: it is told when waits begin and end.

    It tells `Deadlocked` when the wait has been chosen to be broken off. Reliable links, in any
    order; no crashes. A host that forgets must begin again with a higher `begun` than before.
    """

    begun: int = 0  # waits so far
    wait: Wait | None = None  # what this process waits for now
    trial: Trial | None = None
    accusations: list[tuple[ProcessId, Accuse]] = []  # still to be tried, with the accuser
    pledges: list[ProcessId] = []  # victims we have confirmed to, each as often as we have
    deferred: list[tuple[ProcessId, int]] = []  # victims that wait for our answer on this wait

    # The host's verbs

    def begin(
        self,
        condition: Condition[ProcessId],
        out: Outbox[Any],
        *,
        granted: tuple[WaitId, ...] = (),
        born: int | None = None,
        picked: int = 0,
    ) -> Wait:
        """Take note of a wait that begins, or that takes the place of the last one."""
        self._leave(out)
        self.begun += 1
        self.wait = Wait(self.begun, condition, granted, born, picked)
        self._changed(out)
        return self.wait

    def end(self, out: Outbox[Any]) -> None:
        """Take note that the wait is over."""
        self._leave(out)
        self._changed(out)

    def search(self, out: Outbox[Any]) -> None:
        """Look for a deadlock, if this detector does not do so by itself."""

    def _changed(self, out: Outbox[Any]) -> None:
        """Do what the detector has to do when a wait has begun or ended."""

    def _leave(self, out: Outbox[Any]) -> None:
        self.wait = None
        for victim, _ in self.deferred:
            out.send(victim, Denied())
        self.deferred.clear()

    def _suspect(self, waits: Mapping[ProcessId, Wait], out: Outbox[Any]) -> None:
        """Accuse the victim of a core that keeps this process waiting, if these waits show one."""
        graph = graph_of(waits)
        if self.wait is None or self.me not in graph.deadlocked():
            return
        core = graph.cores()[0]
        victim = choose_victim(waits, core)
        if victim is not None:
            out.send(victim, Accuse(self.wait.number, members_of(waits, core)))

    # The trial

    def judge(self, sender: ProcessId, message: TrialMessage, out: Outbox[Any]) -> None:
        """Handle a message of a trial."""
        match message:
            case Accuse():
                self.accusations.append((sender, message))
                self._stand_trial(out)
            case Confirm(number):
                self._answer(sender, number, out)
            case Confirmed():
                self._hear(sender, out, confirmed=True)
            case Denied():
                self._hear(sender, out, confirmed=False)
            case Release():
                self._release(sender, out)
            case Settled(case, _):
                self._settled(case, out)

    def _stand_trial(self, out: Outbox[Any]) -> None:
        """Begin the next trial, unless one is under way or a pledge forbids it."""
        while self.accusations and self.trial is None and not self.pledges:
            accuser, accusation = self.accusations.pop(0)
            numbers = {member: wait.number for member, wait in accusation.members}
            number = numbers.pop(self.me)
            if not self._waits_in(number):
                out.send(accuser, Settled(accusation.case, over=True))
                continue
            self.trial = Trial(number, accuser, accusation, set(numbers))
            for member in sorted(numbers):
                out.send(member, Confirm(numbers[member]))
            self._conclude_if_heard(out)

    def _answer(self, victim: ProcessId, number: int, out: Outbox[Any]) -> None:
        if not self._waits_in(number):
            out.send(victim, Denied())
        elif self.trial is not None and self._waits_in(self.trial.number):
            self.deferred.append((victim, number))
        else:
            insort(self.pledges, victim)
            out.send(victim, Confirmed())

    def _hear(self, member: ProcessId, out: Outbox[Any], *, confirmed: bool) -> None:
        assert self.trial is not None, f"process {member} answers a question that was not asked"
        self.trial.awaiting.remove(member)
        if confirmed:
            self.trial.confirmed.append(member)
        self._conclude_if_heard(out)

    def _conclude_if_heard(self, out: Outbox[Any]) -> None:
        """Abort if all others confirmed. Releases wait for the last answer, so none overtakes it."""
        trial = self.trial
        if trial is None or trial.awaiting:
            return
        self.trial = None
        if len(trial.confirmed) == len(trial.accusation.members) - 1 and self._waits_in(
            trial.number
        ):
            self.end(out)
            out.tell(Deadlocked(trial.accusation.members))
        out.broadcast(trial.confirmed, Release())
        over = not self._waits_in(trial.number)
        out.send(trial.accuser, Settled(trial.accusation.case, over))
        asked, self.deferred = self.deferred, []
        for victim, number in asked:
            self._answer(victim, number, out)
        self._stand_trial(out)

    def _release(self, victim: ProcessId, out: Outbox[Any]) -> None:
        """Drop one pledge to this victim; its next question may have overtaken the release."""
        self.pledges.remove(victim)
        self._stand_trial(out)

    def _settled(self, case: int, out: Outbox[Any]) -> None:
        """Look again after a trial: it may have failed, or there may be more than one deadlock."""
        if self._waits_in(case):
            self.search(out)

    def _waits_in(self, number: int) -> bool:
        return self.wait is not None and self.wait.number == number
