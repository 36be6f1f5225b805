"""Changes of the leased lock's voters in a hostile world: random seeds, and rules switched off."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from coterie.algorithms.mutex.quorum.leased.changer import Changer
from coterie.algorithms.mutex.quorum.leased.configuration import Rule
from coterie.algorithms.mutex.quorum.leased.participant import Participant
from coterie.algorithms.mutex.quorum.leased.sessions import Downlink
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.succession import Succession
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from tests.algorithms.mutex.leased_changes import CHANGING_PROFILES, world_of
from tests.algorithms.mutex.leased_kit import broken_twice
from tests.algorithms.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = 9  # of each profile
COUNTED = (
    *("entries", "steps", "joint_steps", "moves", "carried", "settled", "conflicted", "killed"),
    *("broken", "forced"),
)


@pytest.mark.parametrize("seed", [10223, 10495, 30653, 60545])
def test_no_hold_is_lost_where_nothing_goes_wrong(seed: int) -> None:
    """What went wrong once in these worlds.

    News that came before an answer, a changer whose patience went by the new lease alone, an entry with
    what was left of a lease that no frame had renewed for long, and new voters that had closed the number
    by which a program entered just then, so that they gave it no votes to move with.
    """
    assert world_of(seed, "calm").run().losses == 0


@pytest.mark.parametrize(("profile", "seed"), [("pause", 30267), ("oneway", 30352)])
def test_votes_from_before_a_force_are_not_counted_by_it(profile: str, seed: int) -> None:
    """One program held a lock with votes of lost voters, another came to hold it with the one left."""
    assert world_of(seed, profile).run().forced


@pytest.mark.slow
@pytest.mark.parametrize("profile", CHANGING_PROFILES)
def test_random_changes_hold_every_promise(profile: str) -> None:
    """R1 to R5: exclusion, tokens, one decision for each number, no hold lost in a calm world."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = world_of(seed, profile).run()
        total.update({name: getattr(run, name) for name in COUNTED})
    assert total["entries"] > 10 * SEEDS
    assert total["steps"] > 2 * SEEDS
    assert total["moves"] > 4 * SEEDS
    if profile != "lease":
        assert total["joint_steps"] > 0
    assert total["carried"] > 0
    assert total["settled"] >= SEEDS
    assert total["killed"] > 0
    assert total["broken"] > 0
    if profile == "force":
        assert total["forced"] > SEEDS // 2


def test_the_same_seed_is_the_same_run_of_changes() -> None:
    one, other = (world_of(7, "storm").run() for _ in range(2))
    assert (one.events, one.now, one.steps) == (other.events, other.now, other.steps)


class Switch(NamedTuple):
    """A rule switched off by edits of classes or functions, and the profile that must find it out."""

    edits: tuple[tuple[Callable[..., object], str, str], ...]
    profile: str
    first: int = 0  # the seed that is known to notice


def off(kind: Callable[..., object], old: str, new: str, profile: str, first: int = 0) -> Switch:
    return Switch(((kind, old, new),), profile, first)


MUTANTS: dict[str, Switch] = {
    "coteries that do not meet follow each other without a joint one": off(
        Rule,
        "return any(meet(one.quorums, two.quorums) for one in self.parts for two in other.parts)",
        "return True",
        "storm",
        first=2,
    ),
    "a joint quorum is a majority of old and new voters together": off(
        Rule,
        "return _joint(",
        "return _seated(self.parts[0].seats + tuple(sorted({*self.parts[1].seats}"
        ".difference(self.parts[0].seats))), 'majority') or _joint(",
        "mixed",
        first=1,
    ),
    "a step is taken while an earlier number is open": Switch(
        (
            (Changer, "if self.configuration.open and not self._takes_back():", "if False:"),
            (Changer, "still_open = (*mine.open, mine.rule)", "still_open = (mine.rule,)"),
        ),
        "storm",
    ),
    "a number is finished while sessions count by it": off(
        Voter,
        "and not self.abstains() and self._is_past(number)",
        "and not self.abstains()",
        "mixed",
        first=52,
    ),
    "one voter is taken for all": off(
        Rule, "return is_blocking(self.quorums, voters)", "return bool(voters)", "mixed", first=42
    ),
    "a closed number is served": off(
        Voter, "None if frame.number <= self.closed else mine", "mine", "storm"
    ),
    "the configuration is not on disk": off(
        Voter,
        "numbered = self.configuration if self.number > 0 else None",
        "numbered = None",
        "crash",
    ),
    "the bound of tokens is not on disk": off(
        Voter, "return Saved(self.bound,", "return Saved(0,", "mixed", first=3
    ),
    "a promise binds no acceptance": off(
        Succession,
        "if self.promised is not None and attempt < self.promised:",
        "if False:",
        "storm",
        first=2,
    ),
    "what was accepted outlives its number": off(
        Voter, "self.succession = Succession()\n", "pass\n", "storm"
    ),
    "what is known is taken for what is counted": off(
        Downlink,
        "if frame.number > self.number:\n            self.number = frame.number",
        "if frame.known > self.number:\n            self.number = frame.known",
        "crash",
        first=1,
    ),
    "a participant moves with a hold that the new rule does not support": off(
        Participant,
        "if bid.valid_until(self.sessions.lease, following.quorums) <= out.now:",
        "if False:",
        "calm",
        first=1,
    ),
    "a blank disk keeps its place": off(
        Voter, "if self.number > 0 or not self.identity:", "if True:", "crash", first=18
    ),
    "new voters do not serve the numbers that are open": off(
        Voter,
        "mine.rule_of(frame.number)",
        "(mine.rule if frame.number == mine.number else None)",
        "calm",
        first=2,
    ),
    "a participant goes back to a lower number": off(
        Participant, "if configuration.number <= newest.number:", "if False:", "storm", first=1
    ),
    "a voter goes back to a lower number": off(
        Voter, "if configuration.number < self.number:", "if False:", "storm", first=3
    ),
    "an order ends a later hold than the operator has seen": off(
        Participant,
        "bid.state is State.HELD and bid.token <= token",
        "bid.state is State.HELD",
        "mixed",
    ),
    "an order takes the vote from an owner that still counts it": off(
        Voter.revoke,
        "self._finish([], out)",
        "[self._take_back(self.ballots[lock], each, each.high) for each in tenures]\n"
        "        self._finish([lock], out)",
        "net",
        first=100,
    ),
    "a hold goes on that an operator has ended": off(
        Participant, "self._take_revocation(lock, token, out)", "pass", "calm", first=6
    ),
    "no voter abstains by a forced configuration": off(
        Voter,
        "max(self.abstains_until, out.now + self.abstention)",
        "self.abstains_until",
        "force",
        first=164,
    ),
    "votes from before a force are counted by it": off(
        Voter,
        "            self._forget_votes()\n            self._abstain(out)",
        "            self._abstain(out)",
        "pause",
        first=30267,
    ),
    "entries use tokens at or below the floor": Switch(
        (
            (
                Participant,
                "used = max(self.bids[lock].token, self.configuration.floor)",
                "used = self.bids[lock].token",
            ),
            (Participant, "used = max(bid.token, self.configuration.floor)", "used = bid.token"),
            (Participant, "token <= self.configuration.floor or ", ""),
            (Participant, "self.sessions.merge(configuration.floor)", "pass"),
            (Voter, "self._merge(self.configuration.floor)", "pass"),
            (Voter, "self._merge(configuration.floor)", "pass"),
        ),
        "oneway",
        first=3,
    ),
    "a voter waits for no clock that is slower than its own": off(
        Settings,
        "lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin",
        "lease",
        "pause",
        first=31,
    ),
}
SEEDS_MAX = 100


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_of_changes_switched_off_is_found_out(name: str) -> None:
    """The seed that is known to notice comes first; where it does not any more, others do."""
    edits, profile, first = MUTANTS[name]
    kit = broken_twice(*edits)
    for seed in (first, *range(SEEDS_MAX)):
        try:
            world_of(seed, profile, kit).run()
        except (Breach, AssertionError, KeyError):
            return
    pytest.fail(f"{SEEDS_MAX} seeds of {profile} did not notice")
