"""Changes of the leased lock's voters in a hostile world: random seeds, and rules switched off."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from coterie.mutex.quorum.leased import configuration
from coterie.mutex.quorum.leased.changer import Changer
from coterie.mutex.quorum.leased.configuration import Configuration
from coterie.mutex.quorum.leased.participant import Participant
from coterie.mutex.quorum.leased.sessions import Downlink, Sessions, Uplink
from coterie.mutex.quorum.leased.succession import Succession, follows
from coterie.mutex.quorum.leased.voter import Voter
from tests.mutex.leased_changes import CHANGING_PROFILES, ChangingWorld
from tests.mutex.leased_kit import broken_twice
from tests.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mutex.leased_kit import Kit

SEEDS = 9  # of each profile
LOCK_DELAY = 15.0
COUNTED = ("entries", "steps", "joint_steps", "moves", "carried", "settled", "conflicted", "killed")


def world(seed: int, profile: str, kit: Kit | None = None) -> ChangingWorld:
    """Make the world of a seed; some programs have leases of their own, some locks a delay."""
    delay = LOCK_DELAY if seed % 5 == 4 else 0.0
    return ChangingWorld(seed, profile, kit, mixed_leases=seed % 3 == 1, lock_delay=delay)


@pytest.mark.slow
@pytest.mark.parametrize("profile", CHANGING_PROFILES)
def test_random_changes_hold_every_promise(profile: str) -> None:
    """R1 to R5: exclusion, tokens, one decision for each number, no hold lost in a calm world."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = world(seed, profile).run()
        total.update({name: getattr(run, name) for name in COUNTED})
    assert total["entries"] > 10 * SEEDS
    assert total["steps"] > 2 * SEEDS
    assert total["moves"] > 4 * SEEDS
    if profile != "lease":
        assert total["joint_steps"] > 0
    assert total["carried"] > 0
    assert total["settled"] >= SEEDS
    assert total["killed"] > 0


def test_the_same_seed_is_the_same_run_of_changes() -> None:
    one, other = (world(7, "storm").run() for _ in range(2))
    assert (one.events, one.now, one.steps) == (other.events, other.now, other.steps)


class Switch(NamedTuple):
    """A rule switched off by edits of classes or functions, and the profile that must find it out."""

    edits: tuple[tuple[Callable[..., object], str, str], ...]
    profile: str
    first: int = 0  # the seed that is known to notice


def off(kind: Callable[..., object], old: str, new: str, profile: str, first: int = 0) -> Switch:
    return Switch(((kind, old, new),), profile, first)


Rule = configuration.Rule

MUTANTS: dict[str, Switch] = {
    "coteries that do not meet follow each other without a joint one": off(
        Rule,
        "return any(meet(one.quorums, two.quorums) for one in self.parts for two in other.parts)",
        "return True",
        "storm",
    ),
    "a joint quorum is a majority of old and new voters together": off(
        configuration._joint,  # noqa: SLF001
        "return Joint(_seated(old, by), _seated(new, then_by))",
        "return _seated(tuple(sorted({*old, *new})), 'majority')",
        "storm",
    ),
    "a step is taken while an earlier number is open": Switch(
        (
            (Changer, "if self.configuration.open and not self._takes_back():", "if False:"),
            (Changer, "(*mine.open, mine.rule), protocol", "(mine.rule,), protocol"),
        ),
        "storm",
    ),
    "a number is finished while sessions count by it": off(
        Voter,
        "and not self.abstains() and self._is_past(number)",
        "and not self.abstains()",
        "storm",
    ),
    "a number is finished in abstention": off(
        Voter, "self.closed >= number and not self.abstains()", "self.closed >= number", "crash"
    ),
    "a number is finished during a lock delay": off(
        Voter, "return not self.delayed and all(", "return all(", "storm"
    ),
    "one voter is taken for all": off(
        Rule, "return is_blocking(self.quorums, voters)", "return bool(voters)", "storm"
    ),
    "a closed number is served": off(
        Voter, "None if frame.number <= self.closed else mine", "mine", "storm"
    ),
    "numbers that were closed are open again after a restart": off(
        Voter, "self.closed = self.number - 1", "self.closed = -1", "crash"
    ),
    "the configuration is not on disk": off(
        Voter,
        "numbered = self.configuration if self.number > 0 else None",
        "numbered = None",
        "crash",
    ),
    "a promise is not on disk": off(
        Voter, "numbered, promised, accepted,", "numbered, None, accepted,", "crash"
    ),
    "what was accepted is not on disk": off(
        Voter, "numbered, promised, accepted,", "numbered, promised, None,", "crash"
    ),
    "the bound of tokens is not on disk": off(
        Voter, "saved = Saved(self.bound,", "saved = Saved(0,", "crash"
    ),
    "the abstention is not on disk": off(
        Voter, "accepted, self.abstention)", "accepted, 0.0)", "lease"
    ),
    "the abstention is short at once": off(
        Voter,
        "if is_clear and all(link.number in numbers for link in self.sessions.values()):",
        "if True:",
        "lease",
    ),
    "a promise binds no acceptance": off(
        Succession,
        "if self.promised is not None and attempt < self.promised:",
        "if False:",
        "storm",
    ),
    "a promise binds no promise": off(
        Succession,
        "if self.promised is not None and request.attempt < self.promised:",
        "if False:",
        "storm",
    ),
    "what was accepted outlives its number": off(
        Voter, "self.succession = Succession()\n", "pass\n", "storm"
    ),
    "a changer ignores what was accepted": off(
        Changer,
        "self.proposal = step if latest is None else latest.configuration",
        "self.proposal = step",
        "storm",
    ),
    "a changer prefers the earliest of what was accepted": off(
        Changer, "latest = max(", "latest = min(", "storm"
    ),
    "a changer needs one acceptance": off(
        Changer,
        "if self.configuration.deciders.contains_quorum(self.accepted):",
        "if self.accepted:",
        "storm",
    ),
    "the deciders of a joint number are those of the new part": off(
        Configuration, "first = self.rule.parts[0]", "first = self.rule.parts[-1]", "mixed"
    ),
    "the bound is not reported": off(
        Voter, "self._has_finished(number), self.bound)", "self._has_finished(number), 0)", "storm"
    ),
    "the floor is not carried over": off(
        Changer, "rule, members, mine.floor, (", "rule, members, 0, (", "storm"
    ),
    "the floor is ignored by an entry": off(
        Participant,
        "used = max(self.bids[lock].token, self.configuration.floor)\n        return",
        "used = self.bids[lock].token\n        return",
        "storm",
    ),
    "what is known is taken for what is counted": off(
        Downlink,
        "if frame.number > self.number:\n            # What was counted in a lower number does not count any more, even if it was longer.\n            self.number = frame.number",
        "if frame.known > self.number:\n            self.number = frame.known",
        "storm",
    ),
    "a participant moves with a hold that the new rule does not support": off(
        Participant,
        "if bid.valid_until(self.sessions.lease, following.quorums) <= out.now:",
        "if False:",
        "calm",
    ),
    "the lease of the next number is counted at once": off(
        Uplink,
        "if frame.number == number:\n            until = min(frame.until, min(frame.echo, now) + lease)",
        "if True:\n            until = min(frame.echo, now) + lease",
        "lease",
    ),
    "what is left of a longer lease is not cut": off(
        Sessions, "uplink.lease = min(uplink.lease, now + settings.lease)", "pass", "lease"
    ),
    "a blank disk keeps its place": off(
        Voter, "if self.number > 0 or not self.identity:", "if True:", "crash"
    ),
    "new voters do not serve the numbers that are open": off(
        Voter,
        "mine.rule_of(frame.number)",
        "(mine.rule if frame.number == mine.number else None)",
        "calm",
    ),
    "new voters are not asked to support a hold": off(
        Participant, "self._request_support(lock, bid, voter)", "pass", "calm"
    ),
    "a participant goes back to a lower number": off(
        Participant, "if configuration.number <= newest.number:", "if False:", "storm"
    ),
    "a voter goes back to a lower number": off(
        Voter, "if configuration.number < self.number or", "if", "storm"
    ),
    "a voter accepts a successor that skips a number": off(
        follows, "successor.number == present.number + 1", "True", "storm"
    ),
}
SEEDS_MAX = 400


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_of_changes_switched_off_is_found_out(name: str) -> None:
    """The seed that is known to notice comes first; where it does not any more, others do."""
    edits, profile, first = MUTANTS[name]
    kit = broken_twice(*edits)
    for seed in (first, *range(SEEDS_MAX)):
        try:
            world(seed, profile, kit).run()
        except (Breach, AssertionError, KeyError):
            return
    pytest.fail(f"{SEEDS_MAX} seeds of {profile} did not notice")
