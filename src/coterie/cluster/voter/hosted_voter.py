"""The voter as its host drives it: how it begins, and what follows from its timer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import Frame, Upward
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.cluster.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Outbox, ProcessId


class HostedVoter:
    """A voter, with what its host needs to know of its start."""

    messages: ClassVar[Any] = Upward

    def __init__(
        self,
        voter: Voter,
        after_ring: Callable[[], None],
        *,
        has_disk: bool,
        new_cluster: bool,
    ) -> None:
        """Prepare; `after_ring` follows each time the timer has rung."""
        self.voter = voter
        self.resumed = False  # it is as an orderly end has left it
        self.recovers = False  # the disk is empty, and nothing says that it always was
        self.expired = 0  # sessions
        self._after_ring = after_ring
        self._has_disk = has_disk
        self._new_cluster = new_cluster

    def resume(self, voter: Voter) -> None:
        """Go on where an orderly end has stopped: for all others this was a pause."""
        self.voter = voter
        self.resumed = True

    def vouch(self) -> None:
        """Take it that no vote was given before, unless the disk says that one was."""
        self._new_cluster = True

    def start(self, out: Outbox[Frame]) -> None:
        """Begin under a name that no other start has had.

        The voter abstains for a lease, since votes that it gave before this start may still count,
        and it does not know them. It does not abstain if it remembers everything since an orderly
        end, or if the operator vouches that no program has been granted anything before.
        """
        if self.resumed:
            self.voter.recall(out)
            self.voter.armed = math.inf
            self.voter.ring(VOTER, out)
            return
        if self.voter.configuration is None:  # a spare, unless its disk knows better
            self.voter.start(system.secret(16).hex(), out)
            self.voter.advance(clock.number())  # about where those of the voters are
            return
        self.recovers = self._has_disk and not out.saved and not self._new_cluster
        by_time = self._number_by_time()
        if not out.saved and not self._new_cluster:
            out.saved = str(by_time).encode()
        self.voter.start(system.secret(16).hex(), out)
        if not out.saved:
            self.voter.floor = self.voter.clock = by_time
        if self.recovers:
            self.voter.abstains_until = math.inf

    def _number_by_time(self) -> int:
        """Return a number above all that were used, as far as all times of day are right.

        Programs refuse nodes further away than the error, so nodes are two of them apart at most.
        """
        settings = self.voter.settings
        error = clock.error_borne(settings.lease)
        return clock.number() + int(2 * error * clock.NUMBERS_PER_SECOND) + settings.interval

    def receive(self, sender: ProcessId, message: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame of a participant."""
        self.voter.receive(sender, message, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer, and count the sessions that it ends."""
        sessions = len(self.voter.sessions)
        self.voter.ring(timer, out)
        self.expired += sessions - len(self.voter.sessions)
        self._after_ring()

    def down(self, peer: ProcessId, out: Outbox[Frame]) -> None:
        """Voters watch no process: sessions expire."""
        raise AssertionError(f"a voter watches no process, and heard that {peer} is down")
