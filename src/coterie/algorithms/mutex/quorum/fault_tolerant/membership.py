"""Who is down, who is back, and which quorums follow: the same at every process, soon after.

News of a process is a version: twice its incarnation, plus one while it is down. The higher version
is the newer, so news may come late, twice or from any process. The coterie depends only on which
processes are down, not on the order in which one hears of it (lemma 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.fault_tolerant.messages import Down, Up
from coterie.algorithms.mutex.quorum.fault_tolerant.settings import Settings

if TYPE_CHECKING:
    from coterie.coteries import Coterie
    from coterie.process import ProcessId


class MemberVersions(msgspec.Struct, frozen=True):
    """What one process knows of all processes."""

    settings: Settings
    versions: list[int]  # of 1 to N

    def down(self) -> set[ProcessId]:
        """Return the processes that are down."""
        return {peer for peer, version in enumerate(self.versions, 1) if version % 2}

    def alive(self) -> set[ProcessId]:
        """Return the processes that are up, this one among them."""
        return set(self.settings.members) - self.down()

    def coterie(self) -> Coterie:
        """Return the coterie in which others stand in for those that are down."""
        return self.settings.coterie(frozenset(self.down()))

    def is_news(self, process: ProcessId, version: int) -> bool:
        """Return whether that version of the process is later than the one known."""
        return version > self.versions[process - 1]


def news(process: ProcessId, version: int) -> Down | Up:
    """Return the message that spreads this version of a process."""
    kind = Down if version % 2 else Up
    return kind(process, version // 2)
