"""Sessions whose counters move for those alone who count, as on etcd: explored like others, and rules broken.

A look puts a challenge before each session in the way, unless one is there; a renewal deletes it.
"""

from __future__ import annotations

from typing import Any

import pytest

from coterie.engines.queue import observation
from tests.engines import lease_world
from tests.engines.lease_world import RATE_ERROR, LeaseWorld, Records, explore
from tests.engines.test_lease_world import FAST_FIRST, SLOW_FIRST, WORLDS, noticed
from tests.harness import broken_class

CHALLENGED = (
    100  # added to the renewals of a session: so each challenge differs from the one before
)


class ChallengedRecords(Records):
    """What etcd keeps."""

    def renew(self, session: int, _: int) -> tuple[Records, object]:
        """Delete the challenge, if there is one, and challenge the neighbours."""
        if not self._serves(session):
            return self, None
        count = self.counter(session) % CHALLENGED + 1
        made = self.put(session, count)
        others = [other for other, _ in made.sessions if other != session]
        following = sorted(others, key=lambda other: (other < session, other))
        made = challenged(made, following)
        return made, (count, made.shown(following))

    def join(self, session: int, attempt: int) -> tuple[Records, object]:
        """Enter the queue, or look again, and challenge those before."""
        made, answer = super().join(session, attempt)
        if not isinstance(answer, tuple):
            return made, answer
        before = [other for other, _ in answer]
        made = challenged(made, before)
        return made, made.shown(before)

    def condemn(self) -> Records:
        """Refuse the requests of the session that is inside; a challenge that is there stays."""
        if not self.queue or self.queue[0][0] in self.condemned:
            return self
        return self._replace(condemned=(*self.condemned, self.queue[0][0]))


def challenged(records: Records, sessions: list[int]) -> Records:
    """Put a challenge before each session that has none."""
    for session in sessions:
        if (count := records.counter(session)) < CHALLENGED:
            records = records.put(session, count + CHALLENGED)
    return records


@pytest.fixture(autouse=True)
def coarse_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "CLOCK_RATE_ERROR", RATE_ERROR)


@pytest.mark.parametrize(
    ("name", "rates", "states", "grants"),
    [
        ("renewals", SLOW_FIRST, 30_087, 1_881),
        ("late", FAST_FIRST, 50_336, 2_936),
        ("another session", SLOW_FIRST, 27_705, 1_075),
        ("neighbours", FAST_FIRST, 22_045, 1_326),
        ("condemned", SLOW_FIRST, 58_666, 3_762),
    ],
)
def test_all_rules_kept(
    name: str,
    rates: tuple[int, int],
    states: int,
    grants: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_world, "Records", ChallengedRecords)
    found = explore(LeaseWorld(WORLDS[name], rates))
    assert not found.violation, found.way
    assert (found.states, found.grants) == (states, grants)


def test_a_renewal_that_leaves_the_challenge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = broken_class(ChallengedRecords, "made = self.put(session, count)", "made = self")
    monkeypatch.setattr(lease_world, "Records", made)
    assert noticed(LeaseWorld, "renewals") == "two valid holders"
