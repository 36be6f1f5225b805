"""A token that is made anew: rule by rule; then every interleaving with crashes; then mutants."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.token.token_ring import PAUSE, Epoch, Regenerating
from coterie.algorithms.mutex.token.token_ring.regenerating import Census, Report, Token
from coterie.catalogue import find
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.lab.simulate import Closed, Crash, Exponential, Network, Simulation
from coterie.lab.simulate.compare import compare
from coterie.process import Channel, Entered, Outbox
from tests.harness import build
from tests.suites import Explored, broken_lines, every_interleaving
from tests.watching import CrashMutant, WatchingHand

FIRST = Epoch(1, 0)


def hand(me: int, *, token: bool = False) -> WatchingHand:
    return WatchingHand(Regenerating(me, (1, 2, 3, 4), 0.5, FIRST, token=token))


def timers(process: Regenerating, step: str, *arguments: Any) -> list[tuple[str, float | None]]:
    out: Outbox[Any] = Outbox(process.me)
    getattr(process, step)(*arguments, out)
    return out.timers


def test_the_lowest_watches_everybody_and_the_others_all_lower_ones() -> None:
    assert [hand(me).watched for me in (1, 2, 3, 4)] == [{2, 3, 4}, {1}, {1, 2}, {1, 2, 3}]


def test_without_crashes_the_token_goes_round_as_ever() -> None:
    holder, other = hand(1, token=True), hand(2)
    assert other.call("acquire") == []
    assert holder.call("acquire") == [Entered()]
    assert holder.call("release") == [(2, Token(FIRST, ()))]
    assert other.receive(1, Token(FIRST, ())) == [Entered()]


def test_who_wants_nothing_keeps_the_token_for_a_pause() -> None:
    holder, other = hand(1, token=True).process, hand(2).process
    assert timers(holder, "start") == [(PAUSE, 0.5)]
    assert timers(holder, "acquire") == [(PAUSE, None)]
    assert timers(other, "receive", 1, Token(FIRST, ())) == [(PAUSE, 0.5)]


def test_when_the_pause_is_over_the_token_goes_on() -> None:
    assert hand(4, token=True).ring(PAUSE) == [(1, Token(FIRST, ()))]


def test_after_a_crash_the_lowest_takes_a_census() -> None:
    lowest = hand(1)
    census = Census(Epoch(1, 1), (3,))
    assert lowest.down(3) == [(2, census), (4, census)]


def test_who_is_lowest_by_now_begins_to_watch_everybody() -> None:
    second = hand(2)
    census = Census(Epoch(2, 1), (1,))
    assert second.down(1) == [(3, census), (4, census)]
    assert second.watched == {3, 4}


def test_others_only_take_note_of_a_crash() -> None:
    third = hand(3, token=True)
    assert third.down(1) == []
    assert third.down(2)[0][0] == 4


def test_everybody_reports_whether_it_has_the_token() -> None:
    census = Census(Epoch(1, 1), (4,))
    assert hand(2).receive(1, census) == [(1, Report(Epoch(1, 1), has_token=False))]
    assert hand(2, token=True).receive(1, census) == [(1, Report(Epoch(1, 1), has_token=True))]


def test_if_nobody_has_the_token_the_lowest_makes_one() -> None:
    lowest = hand(1)
    lowest.call("acquire")
    lowest.down(3)
    assert lowest.receive(2, Report(Epoch(1, 1), has_token=False)) == []
    assert lowest.receive(4, Report(Epoch(1, 1), has_token=False)) == [Entered()]
    assert lowest.call("release") == [(2, Token(Epoch(1, 1), (3,)))]


def test_if_somebody_has_it_none_is_made() -> None:
    lowest = hand(1)
    lowest.call("acquire")
    lowest.down(3)
    lowest.receive(2, Report(Epoch(1, 1), has_token=True))
    assert lowest.receive(4, Report(Epoch(1, 1), has_token=False)) == []


def test_nor_if_it_has_the_token_itself() -> None:
    lowest = hand(1, token=True)
    lowest.down(3)
    lowest.receive(2, Report(Epoch(1, 1), has_token=False))
    assert lowest.receive(4, Report(Epoch(1, 1), has_token=False)) == []
    assert lowest.ring(PAUSE) == [(2, Token(Epoch(1, 1), (3,)))]


def test_another_crash_means_another_census() -> None:
    lowest = hand(1)
    lowest.down(3)
    assert lowest.down(2) == [(4, Census(Epoch(1, 2), (2, 3)))]
    assert lowest.receive(4, Report(Epoch(1, 1), has_token=True)) == []  # of the former
    lowest.call("acquire")
    assert lowest.receive(4, Report(Epoch(1, 2), has_token=False)) == [Entered()]


def test_a_token_that_is_found_takes_on_the_epoch_and_skips_the_dead() -> None:
    holder = hand(2, token=True)
    holder.receive(1, Census(Epoch(1, 1), (3,)))
    assert holder.ring(PAUSE) == [(4, Token(Epoch(1, 1), (3,)))]


def test_a_token_of_an_older_epoch_is_void() -> None:
    other = hand(2)
    other.call("acquire")
    other.receive(1, Census(Epoch(1, 1), (3,)))
    assert other.receive(1, Token(FIRST, ())) == []
    assert other.receive(1, Token(Epoch(1, 1), (3,))) == [Entered()]


def test_a_token_may_come_before_the_census_and_tells_as_much() -> None:
    other = hand(2)
    other.receive(1, Token(Epoch(1, 1), (3,)))
    assert other.ring(PAUSE) == [(4, Token(Epoch(1, 1), (3,)))]
    assert other.receive(1, Census(Epoch(1, 1), (3,))) == [
        (1, Report(Epoch(1, 1), has_token=False))
    ]


def test_a_census_of_one_who_is_down_by_now_is_not_answered() -> None:
    other = hand(3)
    other.receive(2, Census(Epoch(2, 1), (1,)))
    assert other.receive(1, Census(Epoch(1, 5), (4,))) == []


def test_alone_it_keeps_the_token_for_pause_after_pause() -> None:
    alone = hand(4, token=True)
    for peer in (1, 2, 3):
        assert alone.down(peer) == []
    assert alone.ring(PAUSE) == []
    assert alone.call("acquire") == [Entered()]


def test_a_second_token_fails_loudly() -> None:
    with pytest.raises(ProtocolError, match="process 2 got a second token"):
        hand(2, token=True).receive(1, Token(FIRST, ()))


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 36, 60, variant="regenerating"),
    Explored(2, 1, Channel.UNORDERED, 72, 198, variant="regenerating", crashes=1),
    Explored(3, 1, Channel.FIFO, 1719, 4818, variant="regenerating", crashes=1),
    Explored(3, 1, Channel.UNORDERED, 2538, 7479, variant="regenerating", crashes=1),
    Explored(3, 1, Channel.UNORDERED, 3498, 14888, variant="regenerating", crashes=2),
    Explored(3, 2, Channel.UNORDERED, 7350, 23305, variant="regenerating", crashes=1),
    Explored(4, 1, Channel.UNORDERED, 82863, 349893, variant="regenerating", crashes=1),
    Explored(4, 1, Channel.UNORDERED, 625203, 3222678, variant="regenerating", crashes=2),
]

test_every_interleaving_with_crashes_is_safe_and_live = every_interleaving("token-ring", EXPLORED)


def test_any_order_of_the_ring_will_do() -> None:
    verdict = check(build("token-ring", 3, "regenerating", ring="2,1,3"), crashes=2)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (3498, 14888)


def test_a_detector_that_is_wrong_lets_two_in_with_tokens_of_different_epochs() -> None:
    verdict = check(build("token-ring", 2, "regenerating"), suspicions=1)
    assert (verdict.verdict, verdict.property) == ("violated", "mutual exclusion")


def test_a_lost_message_is_not_noticed() -> None:
    assert check(build("token-ring", 2, "regenerating"), losses=1).verdict == "violated"


@pytest.mark.parametrize("seed", range(10))
def test_all_who_live_are_served_though_holders_crash(seed: int) -> None:
    result = Simulation(
        build("token-ring", 6, "regenerating", ring="4,2,6,1,3,5"),
        workload=Closed(20, hold=1.0),
        network=Network(Exponential(1.0)),
        faults=[Crash(seed % 6 + 1, 20), Crash((seed + 2) % 6 + 1, 21), Crash(4, 60)],
        seed=seed,
    ).run()
    assert not result.violations
    assert result.unserved == 0


def test_without_crashes_it_costs_as_much_as_a_ring_that_cannot_bear_them() -> None:
    entry = find("token-ring")
    assert entry.variant("regenerating").tolerates == ("crash",)
    plain, other = (compare(entry, entry.setup(5, v)) for v in ("rotating", "regenerating"))
    assert (plain.idle, plain.saturated) == (other.idle, other.saturated)


MUTANTS = {
    "nobody watches": CrashMutant(
        "        self._watch(out)\n        if self.token", "        if self.token"
    ),
    "the next lowest watches nobody": CrashMutant(
        "            self._watch(out)\n            self._take_census",
        "            self._take_census",
        crashes=2,
    ),
    "everybody takes a census": CrashMutant(
        "self.gone.add(peer)\n        if self._is_lowest():",
        "self.gone.add(peer)\n        if True:",
    ),
    "no census": CrashMutant("            self._take_census(out)\n", "            pass\n"),
    "census without a new epoch": CrashMutant("self.epoch = Epoch(self.me, number)", "pass"),
    "own token overlooked": CrashMutant("self.found = self.token", "self.found = False"),
    "a token found is overlooked": CrashMutant("self.found |= has_token", "pass"),
    "one report is enough": CrashMutant(
        "if not self.unheard and not self.found", "if not self.found"
    ),
    "none is made": CrashMutant(
        "not self.found:\n            self._take(out)", "not self.found:\n            pass"
    ),
    "old tokens are good": CrashMutant(
        "case Token(epoch, gone) if epoch >= self.epoch:", "case Token(epoch, gone) if True:"
    ),
    "old reports count": CrashMutant("if epoch == self.epoch:", "if True:", size=4, crashes=2),
    "the dead are not skipped": CrashMutant("if peer not in self.gone)", "if True)"),
    "the token does not say whom to skip": CrashMutant(
        "Token(self.epoch, tuple(sorted(self.gone)))", "Token(self.epoch, ())"
    ),
    "the dead are asked": CrashMutant(
        "set(self.order) - self.gone - {self.me}", "set(self.order) - {self.me}"
    ),
    "a token found stays in its epoch": CrashMutant(
        "self._enter_epoch(epoch, gone)\n                out.send",
        "self.gone.update(gone)\n                out.send",
    ),
}


def seats(kind: type[Regenerating], size: int) -> list[Regenerating]:
    ring = tuple(range(1, size + 1))
    return [kind(me, ring, 1.0, FIRST, token=me == 1) for me in ring]


test_a_broken_line_is_noticed = broken_lines(Regenerating, MUTANTS, seats, entries=1)
