"""Rules of the leased lock whose absence random worlds notice too seldom: each by a run of its own.

Each run is made with the package as it is, where the rule holds, and with the rule broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.algorithms.mutex.quorum.leased.ballot import Ballot
from coterie.algorithms.mutex.quorum.leased.bid import Bid
from coterie.algorithms.mutex.quorum.leased.participant import Participant
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.coteries import parse_coterie
from coterie.process import Outbox
from tests.algorithms.mutex.leased_kit import Kit, broken

if TYPE_CHECKING:
    from collections.abc import Callable

DRIFTING: dict[str, Any] = {"lease": 10.0, "rate_error": 0.1, "margin": 1.0}


def at(now: float, handler: Any, *arguments: Any, saved: bytes = b"") -> Outbox[Any]:
    out: Outbox[Any] = Outbox(9, now)
    out.saved = saved
    handler(*arguments, out)
    return out


def voter_of(kit: Kit, saved: bytes = b"", **settings: Any) -> Any:
    voter = kit.voter.Voter(kit.configuration.founding(kit.settings.Settings(1, **settings)))
    at(0.0, voter.start, "v", saved=saved)
    return voter


def ask(kit: Kit, voter: Any, name: str, session: int = 1) -> None:
    frames = kit.frames
    named = frames.SessionName(name, session)
    at(0.0, voter.receive, 7, frames.Data(named, 1, 0, 1, 0.0, (frames.Request("a", 1, 1, 1),)))


def abstains_for_an_expiry(kit: Kit) -> bool:
    """9: a vote given before the crash counts for a lease of a slower clock, and the margin."""
    voter = voter_of(kit, b"5", **DRIFTING)
    patience = voter.settings.expiry
    at(patience - 0.01, voter.ring, "voter")
    return bool(voter.abstains())


def obeys_no_bye_of_another_session(kit: Kit) -> bool:
    """4.2, 4.8: one that was sent in a session before must not end the present one."""
    voter = voter_of(kit)
    ask(kit, voter, "p", session=2)
    for number, nonce in ((1, "v/1"), (2, "w/1"), (1, None)):
        at(1.0, voter.receive, 7, kit.frames.Bye(kit.frames.SessionName("p", number, nonce)))
    return "p" in voter.sessions and bool(voter.ballots["a"].owners)


def kept(kit: Kit) -> Any:
    """Make a participant of three voters that keeps a lock with votes leased until 10."""
    frames = kit.frames
    configuration = kit.configuration.founding(kit.settings.Settings(3, lease=10.0))
    part = kit.participant.participant(configuration, 1)
    at(0.0, part.start, "p")
    at(0.0, part.acquire, "a")
    for voter in (1, 2, 3):
        session = frames.SessionName("p", 1, f"v{voter}/1")
        grant = frames.Grant("a", 1, 1, 1 << 20, False)
        at(0.0, part.receive, voter, frames.Reply(session, 1, 1, 1, 0.0, False, (grant,)))
    at(0.0, part.release, "a")
    return part


def reuses_only_votes_that_last_until_the_next_look(kit: Kit) -> bool:
    """5.11: the short form sets no timer, so the hold must last until something is looked at.

    With votes whose leases end before that, `Lost` would be told too late.
    """
    part = kept(kit)
    for voter in (2, 3):
        part.sessions.uplink(voter).lease = 5.0
    assert part.sound_until == 10.0
    return bool(part.try_reacquire("a", 1.0) == 0)


def freezes_votes_for_the_present_hold_only(kit: Kit) -> bool:
    """5.3, 8.3: the vote of a lost session supports the hold under way, and none after it."""
    part = kept(kit)
    assert part.try_reacquire("a", 1.0) == 2
    bid = part.bids["a"]
    for voter in (1, 2):
        bid.drop(voter)
        bid.share(voter).frozen = 10.0
    assert part.remaining("a", 1.0) == 9.0, "for the hold under way they count"
    bid.enter(3)
    until: float = bid.valid_until(part.sessions.lease, parse_coterie("majority", 3))
    return until < 1.0


def believes_no_use_of_tokens_it_has_not_given(kit: Kit) -> bool:
    """6.3: the floor rises to the end of the interval at the most."""
    voter = voter_of(kit, interval=10)
    ask(kit, voter, "p")
    frames = kit.frames
    release = frames.Release("a", 1, 1 << 62)
    at(1.0, voter.receive, 7, frames.Data(frames.SessionName("p", 1), 2, 0, 1, 1.0, (release,)))
    return bool(voter.floor <= 10)


def counts_no_vote_of_a_lost_session(kit: Kit) -> bool:
    """5.8: the voter has forgotten it, and the next session with that voter does not bring it back."""
    frames = kit.frames
    configuration = kit.configuration.founding(kit.settings.Settings(3, lease=10.0))
    part = kit.participant.participant(configuration, 1)
    at(0.0, part.start, "p")
    at(0.0, part.acquire, "a")
    session = frames.SessionName("p", 1, "v1/1")
    grant = frames.Grant("a", 1, 1, 1 << 20, False)
    at(0.0, part.receive, 1, frames.Reply(session, 1, 1, 1, 0.0, False, (grant,)))
    at(1.0, part.receive, 1, frames.Nack(session))
    following = frames.SessionName("p", 2, "v1/2")
    at(1.0, part.receive, 1, frames.Ack(following, 1, 1, 1.0, False))
    session = frames.SessionName("p", 1, "v2/1")
    out = at(1.0, part.receive, 2, frames.Reply(session, 1, 1, 1, 0.0, False, (grant,)))
    return out.events == []


def enters_by_no_number_that_was_given_up(kit: Kit) -> bool:
    """19.7: while a hold keeps it in that number, it enters nothing by tokens above the floor of the next."""
    frames, module = kit.frames, kit.configuration
    settings = kit.settings.Settings(3, lease=10.0)
    part = kit.participant.participant(module.founding(settings), 1)
    at(0.0, part.start, "p")
    for lock in "ab":
        at(0.0, part.acquire, lock)
    sessions = [frames.SessionName("p", 1, f"v{voter}/1") for voter in (1, 2)]
    for voter, session in enumerate(sessions, 1):
        held = frames.Grant("a", 1, 1, 1 << 20, False)
        at(0.0, part.receive, voter, frames.Reply(session, 1, 2, 1, 0.0, False, (held,)))
    forced = module.Rule(1 << 16, (module.Part((4, 5, 6), settings),))
    following = module.Configuration(forced, floor=100)
    at(1.0, part.receive, 3, frames.NewConfiguration(following))
    assert part.configuration.number == 0, "the hold is valid by the votes of 1 and 2 alone"
    told = []
    for voter, session in enumerate(sessions, 1):
        wanted = frames.Grant("b", 2, 101, 1 << 20, False)
        reply = frames.Reply(session, 2, 2, 1, 0.0, False, (wanted,))
        told += at(1.0, part.receive, voter, reply).events
    return not any(type(event).__name__ == "Acquired" for event in told)


class Rule(NamedTuple):
    """A run that shows whether the rule holds, and how to break it."""

    holds: Callable[[Kit], bool]
    kind: Callable[..., object]
    old: str
    new: str


RULES = {
    "votes of a lost session are kept": Rule(
        counts_no_vote_of_a_lost_session,
        Participant,
        "bid.drop(voter)\n            if bid.state is State.WAIT:",
        "if bid.state is State.WAIT:",
    ),
    "entries by a number that was given up use tokens above the floor": Rule(
        enters_by_no_number_that_was_given_up,
        Participant,
        "if self.next is not None and self.next.rule_of(",
        "if False and (",
    ),
    "abstention of a lease": Rule(
        abstains_for_an_expiry,
        Voter,
        "self.abstains_until = out.now + self.abstention",
        "self.abstains_until = out.now + self.settings.lease + self.settings.lock_delay",
    ),
    "a goodbye of another session is obeyed": Rule(
        obeys_no_bye_of_another_session,
        Voter,
        "if self._knows(session):\n                    self.end_session",
        "if True:\n                    self.end_session",
    ),
    "votes are used again that end before the next look": Rule(
        reuses_only_votes_that_last_until_the_next_look,
        Participant,
        "uplink.lease >= sound_until",
        "uplink.lease > now",
    ),
    "frozen votes are kept for the next hold": Rule(
        freezes_votes_for_the_present_hold_only,
        Bid,
        "        for share in self.shares:\n            share.frozen = NEVER\n",
        "",
    ),
    "all tokens that a participant names count as used": Rule(
        believes_no_use_of_tokens_it_has_not_given,
        Ballot,
        "min(used, tenure.high)",
        "used",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_the_rule_holds_and_is_missed_when_it_is_broken(name: str) -> None:
    holds, kind, old, new = RULES[name]
    assert holds(Kit())
    assert not holds(broken(kind, old, new))
