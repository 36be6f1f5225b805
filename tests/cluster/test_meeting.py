"""How nodes meet, explored: three nodes that crash, return, come late, and whose handshakes are cut."""

from __future__ import annotations

import pytest

from coterie.cluster.classic.frames import Able
from coterie.cluster.classic.meeting import Begin, Leave, Lost, Meeting, Regained, Tell
from tests.cluster.meeting_world import Kind, explore
from tests.harness import broken_class

PLAIN = Kind(goes_on=False, takes_back=False)
CRASHING = Kind(goes_on=True, takes_back=False)
RETURNING = Kind(goes_on=True, takes_back=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "crashes", "cuts", "states", "ends"),
    [
        (PLAIN, 1, True, 3470, 81),
        (CRASHING, 1, True, 16326, 170),
        (CRASHING, 2, False, 56333, 3618),
        (RETURNING, 1, True, 29936, 20),
    ],
)
def test_nobody_begins_too_early_waits_for_ever_or_is_missed_for_ever(
    kind: Kind, crashes: int, cuts: bool, states: int, ends: int
) -> None:
    found = explore(kind, crashes, cuts=cuts)
    assert not found.violation, found
    assert (found.states, found.ends) == (states, ends)


MUTANTS: dict[str, tuple[Kind, str, str]] = {
    "a node begins before the others let it in": (
        PLAIN,
        "(self.strangers and not self.returns)",
        "False",
    ),
    "a node begins before the others can": (CRASHING, "if not self.unable - missed:", "if True:"),
    "a node that returns does not wait": (
        RETURNING,
        "if not self.unable - missed:",
        "if not self.unable - missed or self.returns:",
    ),
    "a node does not say that it can begin": (
        CRASHING,
        "if self.goes_on and not self.is_announced:",
        "if False:",
    ),
    "a node that was met stays a stranger": (
        PLAIN,
        "self.strangers.discard(peer)\n        return [*",
        "return [*",
    ),
    "a late node is away for ever": (
        RETURNING,
        "if peer not in self.lost or self.stays_without:",
        "if peer not in self.lost or self.goes_on:",
    ),
    "a node that returned is not told that others can begin": (
        RETURNING,
        "[Tell(frozenset({peer}), Able())] if self.is_announced else []",
        "[]",
    ),
    "a lost node is waited for": (
        CRASHING,
        "            self.strangers.discard(peer)\n",
        "",
    ),
    "a lost node has to be able": (CRASHING, "            self.unable.discard(peer)\n", ""),
    "others are not told who is lost": (
        CRASHING,
        "wishes.append(Tell(self.others - {peer}, Absent(peer)))",
        "pass",
    ),
    "a refused node stays": (CRASHING, "return [Leave()]", "return []"),
    "a node that has begun says nothing about others": (CRASHING, "self.unable.clear()", "pass"),
    "what others say is newer than what is known": (CRASHING, " or is_known:", ":"),
    "a node that is not known is not ruled out": (
        CRASHING,
        "[RuleOut(note.process), *self.lose(note.process)]",
        "self.lose(note.process)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_broken_rule_is_noticed(name: str) -> None:
    kind, old, new = MUTANTS[name]
    broken = broken_class(Meeting, old, new)

    def make(me: int) -> Meeting:
        meeting = kind.meeting(me)
        return broken(meeting.others, meeting.goes_on, meeting.stays_without)

    found = explore(kind, 1, make, cuts=False)
    assert found.violation


def test_if_all_first_starts_crash_while_they_meet_nothing_remembers() -> None:
    """The limit: a second start takes itself for a return, and begins without a node that comes later."""
    found = explore(RETURNING, crashes=1, forgetful=True)
    assert found.violation


def test_a_refused_node_neither_begins_nor_takes_others_for_gone() -> None:
    meeting = Meeting(frozenset({2, 3}), goes_on=True, stays_without=True)
    assert meeting.start(returns=False) == []
    assert meeting.meet(2) == []
    assert meeting.refuse() == [Leave()]
    assert meeting.refuse() == []
    assert meeting.meet(3) == []
    assert meeting.hear_letter() == []
    assert meeting.lose(2) == []


def test_a_node_that_returns_begins_without_those_that_it_misses_and_not_without_those_it_missed() -> (
    None
):
    meeting = Meeting(frozenset({2, 3}), goes_on=True, stays_without=False)
    assert meeting.start(returns=True) == [Tell(frozenset({2, 3}), Able())]
    assert meeting.miss(frozenset({3})) == [Lost(3)]
    assert meeting.hear(2, Able(), is_known=True) == [], "node 3 may have been started since"
    assert meeting.miss(frozenset({3})) == [Begin()]


def test_a_mutex_that_has_told_its_processes_stays_without_a_node_that_was_cut_off() -> None:
    for stays_without in (True, False):
        meeting = Meeting(frozenset({2}), goes_on=True, stays_without=stays_without)
        assert meeting.start(returns=False) == []
        assert meeting.meet(2) == [Tell(frozenset({2}), Able())]
        assert meeting.hear(2, Able(), is_known=True) == [Begin()]
        meeting.lose(2)
        assert meeting.find(2) == ([] if stays_without else [Regained(2)])
