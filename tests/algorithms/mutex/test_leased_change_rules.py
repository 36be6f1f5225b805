"""Rules of changes that random worlds need very long to miss: each scripted, and switched off.

A scenario is played twice: by the rules, where nothing may go wrong, and with one rule switched off,
where the scenario has to notice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.algorithms.mutex.quorum.leased.changer import Changer
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Rule
from coterie.algorithms.mutex.quorum.leased.participant import Participant, participant
from coterie.algorithms.mutex.quorum.leased.sessions import Sessions, Uplink
from coterie.algorithms.mutex.quorum.leased.succession import Succession
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.process import Outbox
from tests.algorithms.mutex.leased_bench import Bench
from tests.algorithms.mutex.leased_kit import Kit, broken
from tests.algorithms.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ME = 99  # a changer by hand


def ask(bench: Bench, seat: int, frame: Any) -> list[Any]:
    """Send a frame to a voter, and return what it answers."""
    out: Outbox[Any] = Outbox(seat, bench.now)
    bench.parts[seat].receive(ME, frame, out)
    if out.to_save is not None:
        bench.disks[seat] = out.to_save
    return [frame for to, frame in out.sends if to == ME]


def check(holds: object, what: str) -> None:
    if not holds:
        raise Breach(what)


def successor(bench: Bench, seats: Sequence[int], by: str = "", **settings: Any) -> Any:
    """Return a number 2 with these voters, after which number 1 is open."""
    part, value, first = bench.part(seats, **settings), bench.kit.configuration, bench.founding
    open_ = (first.rule,)
    return value.Configuration(value.Rule(2, (part,)), bench.members(seats), open=open_, by=by)


def adopt(bench: Bench, configuration: Any, *seats: int) -> None:
    for seat in seats:
        ask(bench, seat, bench.kit.frames.NewConfiguration(configuration))


def holding(kit: Kit, seats: Sequence[int] = (1, 2, 3), **settings: Any) -> Bench:
    """Return a bench on which program 11 holds the lock."""
    bench = Bench(seats, kit, **settings)
    bench.program(11)
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11
    return bench


def attempt(bench: Bench, number: int, by: str) -> Any:
    return bench.kit.frames.Attempt(number, by)


# What a voter says and keeps


def abstaining_voter_finishes_nothing(kit: Kit) -> None:
    bench = holding(kit)
    adopt(bench, successor(bench, [1, 2, 3], lease=5.0), 1)
    bench.restart(1)
    [closed] = ask(bench, 1, kit.frames.Close(1))
    check(not closed.finished, "finished, and the program still counts a vote of before the crash")
    bench.run(60)
    [closed] = ask(bench, 1, kit.frames.Close(1))
    check(closed.finished, "never finished")


def delayed_lock_finishes_nothing(kit: Kit) -> None:
    bench = holding(kit, lock_delay=15.0)
    adopt(bench, successor(bench, [1, 2, 3], lock_delay=15.0), 1)
    bench.stop(11)
    bench.run(15)
    assert bench.parts[1].delayed
    [closed] = ask(bench, 1, kit.frames.Close(1))
    check(not closed.finished, "finished while the lock of a dead holder rests")


def closed_number_stays_closed(kit: Kit) -> None:
    bench = holding(kit)
    adopt(bench, successor(bench, [1, 2, 3]), 1)
    bench.restart(1)
    beat = kit.frames.Beat(kit.frames.SessionName("x", 1), 0, 0, 0.0, 1, 1)
    answer = ask(bench, 1, beat)[0]
    check(type(answer).__name__ == "Stale", "a number that may be finished is served again")


def promise_lasts(kit: Kit) -> None:
    bench = Bench([1, 2, 3], kit)
    ask(bench, 1, kit.frames.Prepare(1, attempt(bench, 5, "x")))
    bench.restart(1)
    early = kit.frames.Accept(attempt(bench, 3, "y"), successor(bench, [1, 2, 3]))
    [answer] = ask(bench, 1, early)
    check(type(answer).__name__ == "Refused", "an earlier attempt is accepted after a promise")


def later_promise_binds(kit: Kit) -> None:
    bench = Bench([1, 2, 3], kit)
    ask(bench, 1, kit.frames.Prepare(1, attempt(bench, 5, "x")))
    [answer] = ask(bench, 1, kit.frames.Prepare(1, attempt(bench, 3, "y")))
    check(type(answer).__name__ == "Refused", "a promise to an earlier attempt")


def acceptance_lasts(kit: Kit) -> None:
    bench = Bench([1, 2, 3], kit)
    ask(bench, 1, kit.frames.Accept(attempt(bench, 3, "y"), successor(bench, [1, 2, 3])))
    bench.restart(1)
    [promise] = ask(bench, 1, kit.frames.Prepare(1, attempt(bench, 9, "z")))
    check(promise.accepted is not None, "what was accepted is forgotten")


def long_abstention_lasts(kit: Kit) -> None:
    """A program counts by 60 s; the number with 5 s is adopted and the other one closed."""
    bench = holding(kit, [1], lease=60.0)
    adopt(bench, successor(bench, [1], lease=5.0), 1)
    ask(bench, 1, kit.frames.Close(1))
    ask(bench, 1, kit.frames.Prepare(2, attempt(bench, 1, "x")))  # which saves
    bench.stop(1)
    bench.cut.add((11, 1))
    bench.restart(1)
    bench.program(12, bench.newest())
    bench.acquire(12)
    bench.run(100)
    check(bench.holder() == 12, "no progress")


# What a changer decides


def accepted_value_is_decided(kit: Kit) -> None:
    """Voters 1 and 2 have accepted a value; voter 3 has it, and is out of reach."""
    bench = Bench([1, 2, 3], kit)
    chosen = successor(bench, [1, 2, 3], "first", lease=20.0)
    for seat in (1, 2):
        ask(bench, seat, kit.frames.Accept(attempt(bench, 1, "a"), chosen))
    adopt(bench, chosen, 3)
    bench.stop(3)
    bench.begin(bench.goal(1, bench.part([1, 2, 3], lease=30.0)), seen=bench.founding)
    bench.run_until("Stepped")
    found = bench.events("Stepped")[0].configuration
    check(found.is_same(chosen), "two decisions for number 2")


def latest_accepted_value_is_decided(kit: Kit) -> None:
    """Voter 1 has accepted an early attempt; the later one is chosen by 2 and 3, and 3 is gone."""
    bench = Bench([1, 2, 3], kit)
    early, chosen = (successor(bench, [1, 2, 3], lease=lease) for lease in (20.0, 40.0))
    ask(bench, 1, kit.frames.Accept(attempt(bench, 1, "a"), early))
    for seat in (2, 3):
        ask(bench, seat, kit.frames.Accept(attempt(bench, 2, "b"), chosen))
    adopt(bench, chosen, 3)
    bench.stop(3)
    bench.begin(bench.goal(1, bench.part([1, 2, 3], lease=30.0)), seen=bench.founding)
    bench.run_until("Stepped")
    found = bench.events("Stepped")[0].configuration
    check(found.is_same(chosen), "two decisions for number 2")


def one_acceptance_decides_nothing(kit: Kit) -> None:
    bench = Bench([1, 2, 3], kit)
    bench.begin(bench.goal(1, bench.part([1, 2, 3], lease=30.0)))
    bench.run(0.009)  # promises are there, and proposals on their way
    bench.stop(2, 3)
    bench.run(30)
    check(not bench.events("Stepped"), "decided without a quorum")


def old_voters_take_a_step_back(kit: Kit) -> None:
    """The new voters die after the joint step; the program keeps its hold."""
    bench = holding(kit)
    for seat in (4, 5, 6):
        bench.spare(seat)
    bench.begin(bench.goal(1, bench.part([4, 5, 6])))
    joint = bench.run_until("Stepped").configuration
    bench.stop(4, 5, 6)
    bench.run(30)
    assert joint.is_joint
    assert bench.newest().number == 2
    back = bench.goal(2, bench.founding.rule.parts[0], takes_back=True)
    bench.begin(back, 1002, joint)
    settled = bench.run_until("Settled")
    check(settled.configuration.seats == (1, 2, 3), "not taken back")
    check(bench.holder() == 11 and not bench.events("Lost"), "a hold was lost")


def hold_outlasts_no_finish(kit: Kit) -> None:
    """A program has the votes of 2 and 3 only and cannot reach new voters; 1 has no session."""
    bench = Bench([1, 2, 3], kit)
    for seat in (4, 5, 6):
        bench.spare(seat)
    bench.program(11)
    bench.cut |= {(11, seat) for seat in (1, 4, 5, 6)}
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11
    bench.begin(bench.goal(1, bench.part([4, 5, 6])))
    while not bench.events("Settled"):
        bench.run(0.1)
        assert bench.now < 100
        newest = bench.newest()
        is_finished = newest.number > 1 and newest.rule_of(1) is None
        check(not (is_finished and bench.holder()), "a hold by a number that is finished")


# Tokens


def floor_lies_above_earlier_tokens(kit: Kit) -> None:
    """Voter 1 is replaced by 2, then by 3, and new programs come."""
    bench = Bench([1], kit)
    bench.program(11)
    bench.acquire(11)
    bench.run(1)
    used = bench.events("Acquired")[-1].token
    bench.release(11)
    bench.stop(11)
    for number, seat in ((1, 2), (3, 3)):
        bench.spare(seat)
        bench.begin(bench.goal(number, bench.part([seat])), 1000 + seat)
        bench.run_until("Settled")
    check(bench.newest().floor >= used, "a token of before lies above the floor")
    bench.program(12, bench.newest())
    bench.acquire(12)
    bench.run(5)
    check(bench.events("Acquired")[-1].token > used, "a token is used twice")


def kept_lock_is_taken_above_the_floor(kit: Kit) -> None:
    """Votes that were given by number 1 are still in hand in number 3, beside those of a hold."""
    bench = holding(kit)
    bench.acquire(11, "b")
    bench.run(1)
    bench.release(11)
    for number, lease in ((1, 20.0), (2, 10.0)):
        bench.begin(bench.goal(number, bench.part([1, 2, 3], lease=lease)), 1001 + number)
        bench.run_until("Settled")
        bench.run(20)
    part = bench.parts[11]
    assert part.cached == {"a"}
    assert part.configuration.number == 3
    bench.acquire(11)
    bench.run(1)
    token = bench.events("Acquired")[-1].token
    check(token > part.configuration.floor > 0, "a token of the finished number is used")


# Holds


def hold_moves_along(kit: Kit) -> None:
    bench = holding(kit)
    for seat in (4, 5, 6):
        bench.spare(seat)
    bench.begin(bench.goal(1, bench.part([4, 5, 6])))
    bench.run_until("Settled")
    bench.stop(1, 2, 3)
    bench.run(30)
    check(bench.holder() == 11, "a hold was lost, and nothing went wrong")


# Leases


def longer_lease_begins_when_the_voter_knows(kit: Kit) -> None:
    """A program has moved from 5 s to 60 s; its frames are lost, and it reads an answer of before."""
    bench = holding(kit, [1], lease=5.0, heartbeat=1.0, hedge=1.0)
    longer = successor(bench, [1], lease=60.0, heartbeat=1.0, hedge=1.0)
    adopt(bench, longer, 1)
    link = bench.parts[1].sessions["11.1"]
    late = kit.frames.Ack(link.session, link.delivered, 1, link.echo, False, 1)
    bench.cut.add((11, 1))
    news = kit.frames.NewConfiguration(longer)
    for frame in (news, late):
        bench.step(11, partial(bench.parts[11].receive, 1, frame))
    bench.program(12, longer)
    bench.acquire(12)
    bench.run(20)
    check(bench.holder() == 12, "no progress")


def shorter_lease_cuts_what_is_left(kit: Kit) -> None:
    """From 60 s to 5 s; the program is cut off, and its voter starts again."""
    bench = holding(kit, [1], lease=60.0, heartbeat=15.0)
    bench.begin(bench.goal(1, bench.part([1], lease=5.0, heartbeat=1.0)))
    bench.run_until("Settled")
    ask(bench, 1, kit.frames.Prepare(2, attempt(bench, 1, "x")))  # which saves
    bench.cut.add((11, 1))
    bench.stop(1)
    bench.restart(1)
    bench.program(12, bench.newest())
    bench.acquire(12)
    bench.run(30)
    check(bench.holder() == 12, "no progress")


def own_lease_never_grows(kit: Kit, first: float = 5.0) -> None:
    """Voters know 5 s of the program, the lease of all when its session began; later it is 60 s."""
    bench = Bench([1], kit, lease=first, heartbeat=1.0, hedge=1.0)
    bench.program(11, lease=8.0)
    bench.program(12)
    if first != 5.0:
        bench.begin(bench.goal(1, bench.part([1], lease=5.0, heartbeat=1.0, hedge=1.0)))
        bench.run_until("Settled")
    bench.acquire(11)
    bench.run(1)
    longer = bench.part([1], lease=60.0, heartbeat=1.0)
    bench.begin(bench.goal(bench.newest().number, longer), 1002)
    bench.run_until("Settled")
    bench.acquire(12)
    bench.run(1)
    bench.cut.add((11, 1))
    bench.run(30)
    check(bench.holder() == 12, "no progress")


def own_lease_never_grows_again(kit: Kit) -> None:
    """The same for a program that began when all had 10 s."""
    own_lease_never_grows(kit, 10.0)


class Case(NamedTuple):
    """A scenario, and a line without which it must not end well."""

    scenario: Callable[[Kit], None]
    kind: Callable[..., object]
    old: str
    new: str


CASES = {
    "finished in abstention": Case(
        abstaining_voter_finishes_nothing,
        Voter,
        "self.closed >= number and not self.abstains()",
        "self.closed >= number",
    ),
    "finished during a lock delay": Case(
        delayed_lock_finishes_nothing, Voter, "return not rests and all(", "return all("
    ),
    "closed numbers open again after a restart": Case(
        closed_number_stays_closed, Voter, "self.closed = self.number - 1", "self.closed = -1"
    ),
    "promise not on disk": Case(
        promise_lasts, Voter, "numbered, promised, accepted,", "numbered, None, accepted,"
    ),
    "promise ignored by an acceptance": Case(
        promise_lasts,
        Succession,
        "if self.promised is not None and attempt < self.promised:",
        "if False:",
    ),
    "promise ignored by a promise": Case(
        later_promise_binds,
        Succession,
        "if self.promised is not None and request.attempt < self.promised:",
        "if False:",
    ),
    "acceptance not on disk": Case(
        acceptance_lasts, Voter, "numbered, promised, accepted,", "numbered, promised, None,"
    ),
    "abstention not on disk": Case(
        long_abstention_lasts, Voter, "accepted, self.abstention)", "accepted, 0.0)"
    ),
    "short abstention at once": Case(
        long_abstention_lasts,
        Voter,
        "if is_clear and all(link.number in numbers for link in self.sessions.values()):",
        "if True:",
    ),
    "accepted values ignored": Case(
        accepted_value_is_decided,
        Changer,
        "self.proposal = latest.configuration",
        "self.proposal = step",
    ),
    "earliest of the accepted values": Case(
        latest_accepted_value_is_decided, Changer, "latest = max(", "latest = min("
    ),
    "one acceptance suffices": Case(
        one_acceptance_decides_nothing,
        Changer,
        "if self.configuration.deciders.contains_quorum(self.accepted):",
        "if self.accepted:",
    ),
    "new voters decide for a joint number": Case(
        old_voters_take_a_step_back,
        Configuration,
        "first = self.rule.parts[0]",
        "first = self.rule.parts[-1]",
    ),
    "closing without the new voters": Case(
        old_voters_take_a_step_back,
        Changer,
        "if not self.configuration.quorums.contains_quorum(voting):",
        "if False:",
    ),
    "one voter taken for all": Case(
        hold_outlasts_no_finish,
        Rule,
        "return is_blocking(self.quorums, voters)",
        "return bool(voters)",
    ),
    "bound not reported": Case(
        floor_lies_above_earlier_tokens,
        Voter,
        "self._has_finished(number), self.bound)",
        "self._has_finished(number), 0)",
    ),
    "floor not carried": Case(
        floor_lies_above_earlier_tokens,
        Changer,
        "rule, members, mine.floor, still_open",
        "rule, members, 0, still_open",
    ),
    "floor ignored": Case(
        floor_lies_above_earlier_tokens,
        Participant,
        "used = max(self.bids[lock].token, self.configuration.floor)\n        return",
        "used = self.bids[lock].token\n        return",
    ),
    "kept lock taken below the floor": Case(
        kept_lock_is_taken_above_the_floor,
        Participant,
        " or token <= self.configuration.floor or",
        " or",
    ),
    "new voters not asked for a hold": Case(
        hold_moves_along, Participant, "self._request_support(lock, bid, voter)", "pass"
    ),
    "new lease too early": Case(
        longer_lease_begins_when_the_voter_knows, Uplink, "if frame.number == number:", "if True:"
    ),
    "old lease not cut": Case(
        shorter_lease_cuts_what_is_left,
        Sessions,
        "uplink.lease = min(uplink.lease, now + settings.lease)",
        "pass",
    ),
    "own lease is longer than what was told": Case(
        own_lease_never_grows, participant, "None if lease is None else own.lease", "lease"
    ),
    "own lease grows again": Case(
        own_lease_never_grows_again, Participant, "self.lease = self.settings.lease", "pass"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rules_hold(name: str) -> None:
    CASES[name].scenario(Kit())


@pytest.mark.parametrize("name", CASES)
def test_a_rule_switched_off_is_noticed(name: str) -> None:
    scenario, kind, old, new = CASES[name]
    kit = broken(kind, old, new)
    with pytest.raises((Breach, AssertionError)):
        scenario(kit)
