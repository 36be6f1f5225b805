"""Lines by which values of a cluster are read without the lock and over a force, broken one at a time: seeds have to notice each."""

from __future__ import annotations

from coterie.algorithms.mutex.quorum.leased.claimed import ClaimedValue
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.client.free_reader import FreeReader
from tests.lab.stack.seeded_bugs import Bug

VALUES: dict[str, Bug] = {
    "a holder settles nothing for voters of a later number": Bug(
        ClaimedValue,
        "if not quorums.contains_quorum(self.spread):",
        "if False:",
        "changed-values",
        first=40455,
    ),
    "each round of a reader is a question for itself": Bug(
        FreeReader, "if number != self._number:", "if True:", "values", first=50199
    ),
    "values that are left after a force are not doubtful": Bug(
        Voter, "            self.register.doubt()\n", "", "forced-values", first=48
    ),
}
