"""Every interleaving of the leased lock while its voters change, one step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.explore import check
from tests.algorithms.mutex.leased_steps import (
    FENCING,
    NEVER,
    after,
    beginning,
    change,
    is_fine,
    part,
    properties,
)

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part
    from coterie.lab.explore import Verdict

ONE = beginning(1, part(1))
TWO = beginning(1, part(1, 2))
THREE = beginning(1, part(1, 2, 3))
BEGUN = after(ONE, part(1), part(2))
JOINT = beginning(2, part(1), part(2))


def explored(
    present: Configuration, following: Configuration, *, crashes: int = 0, **options: Any
) -> Verdict:
    clients = options.get("clients", (None, None))
    processes = change(present, following, **options)
    requesters = range(len(processes) - len(clients) + 1, len(processes) + 1)
    return check(
        processes,
        requesters=tuple(requesters),
        properties=(*properties(following), FENCING),
        crashes=crashes,
        max_states=2_000_000,
    )


@pytest.mark.parametrize(
    ("present", "parts", "states", "transitions"),
    [
        (ONE, (part(1),), 568, 2204),
        pytest.param(TWO, (part(1),), 76774, 534641, marks=pytest.mark.slow),
        pytest.param(ONE, (part(1), part(2)), 68660, 458973, marks=pytest.mark.slow),
        pytest.param(JOINT, (part(2),), 76774, 534641, marks=pytest.mark.slow),
        pytest.param(BEGUN, (part(1),), 76774, 534641, marks=pytest.mark.slow),
        pytest.param(TWO, (part(1, 2, 3),), 132438, 960557, marks=pytest.mark.slow),
        pytest.param(
            THREE, (part(1, 2, 3), part(1, 2, 4)), 397314, 3146547, marks=pytest.mark.slow
        ),
    ],
)
def test_a_number_that_is_finished_is_used_no_more(
    present: Configuration, parts: tuple[Part, ...], states: int, transitions: int
) -> None:
    """One client: whenever it asks, enters, hears of the change and moves, and voters adopt and close."""
    verdict = explored(present, after(present, *parts), clients=(None,))
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
def test_a_step_is_taken_back_while_a_client_counts_by_the_number_before_it() -> None:
    """Three numbers in one search: 1, the joint 2, and 3, by which number 1 is the rule again.

    Voters have started with number 2, so they serve 1 no more.
    """
    verdict = explored(BEGUN, after(BEGUN, part(1)), clients=(ONE,))
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (151024, 1072909)


@pytest.mark.slow
def test_a_crash_of_a_client_or_of_a_voter_revives_no_finished_number() -> None:
    verdict = explored(ONE, BEGUN, clients=(None,), watchful=True, crashes=1)
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (311053, 1963965)


@pytest.mark.slow
def test_two_clients_exclude_each_other_across_a_change() -> None:
    verdict = explored(ONE, after(ONE, part(1)))
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (353990, 2253533)


@pytest.mark.parametrize(
    ("faults", "states", "transitions"),
    [
        ({"lapses": (0,)}, 7306, 31234),
        ({"reboots": (1,)}, 2194, 9086),
        pytest.param({"lapses": (0,), "reboots": (1,)}, 37699, 167904, marks=pytest.mark.slow),
    ],
)
def test_a_lapse_or_a_restart_revives_no_finished_number(
    faults: dict[str, Any], states: int, transitions: int
) -> None:
    verdict = explored(ONE, after(ONE, part(1)), clients=(None,), **faults)
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_without_the_joint_step_two_clients_hold_the_lock() -> None:
    """The same search finds it: quorums of 1 and of 2 do not meet."""
    verdict = explored(ONE, after(ONE, part(2)))
    assert verdict.verdict == "violated"
    assert "two hold the lock" in verdict.reason


def test_a_voter_that_reports_while_it_abstains_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Voter, "abstains", lambda _: False)
    verdict = explored(ONE, after(ONE, part(1)), clients=(None,), reboots=(1,))
    assert any(seen for name, seen in verdict.sometimes.items() if name.startswith(NEVER))
