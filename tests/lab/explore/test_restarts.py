"""A crashed process that begins again without memory is a fault like others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.election.bully import Bully
from coterie.catalogue import find
from coterie.errors import UsageError
from coterie.lab.explore import Always, Verdict, at_most, check
from coterie.lab.scenario import from_trace
from coterie.lab.scenario.replay import replay
from coterie.trace import Crashed, Header, Noticed, Started
from tests.harness import broken_class

if TYPE_CHECKING:
    from coterie.process import Process, Seat


def back(seat: Seat) -> bool:
    return isinstance(seat.process, Bully) and seat.process.returned


NEVER_BACK = Always("never back", (at_most(0, back),), "one is back")


def bullies(size: int = 2) -> list[Process[Any]]:
    return [Bully(me, size) for me in range(1, size + 1)]


def find_return(**faults: int) -> Verdict:
    header = Header(algorithm="bully", size=2)
    return check(bullies(), entries=0, properties=[NEVER_BACK], header=header, **faults)  # type: ignore[arg-type]  # keywords of one type


def test_a_process_is_back_only_if_it_is_allowed() -> None:
    assert find_return(crashes=1).verdict == "verified"
    assert find_return(crashes=1, restarts=1).property == "never back"
    assert find_return(restarts=1).verdict == "vacuous"
    with pytest.raises(UsageError, match="restarts must be 0 or 1, got 2"):
        find_return(crashes=1, restarts=2)


def test_its_crash_is_reported_before_and_the_run_replays() -> None:
    found = find_return(crashes=1, restarts=1).counterexample
    assert found is not None
    kinds = [type(record) for record in found.records]
    assert kinds.count(Started) == 3, "two begin, and one begins again"
    again = len(kinds) - 1 - kinds[::-1].index(Started)
    watched = found.records[kinds.index(Crashed)] == Crashed(0.0, 2)
    assert (Noticed in kinds[:again]) == watched
    replay(found)
    assert "\nrestart " in from_trace(found)


def test_an_election_that_takes_old_news_for_new_is_refuted() -> None:
    """Without the mark of one that was down before, a lower leader of before wins over it."""
    entry = find("bully")
    kind = broken_class(Bully, "self.returned = True", "self.returned = False")
    processes = [kind(me, 3) for me in (1, 2, 3)]
    sound = entry.build(entry.setup(3))
    assert check(sound, entries=0, crashes=1, restarts=1).verdict == "verified"
    verdict = check(processes, entries=0, crashes=1, restarts=1)
    assert verdict.verdict == "violated"
