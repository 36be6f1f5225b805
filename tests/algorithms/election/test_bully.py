"""The bully, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.algorithms.election.bully import AsTold, Bully, Coordinator, Election, Ok
from coterie.catalogue import find
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.lab.scenario import perform
from coterie.lab.simulate import Crash, Exponential, Network, Restart, Simulation, Uniform
from coterie.lab.simulate.compare import compare_election, election_messages
from coterie.process import Channel, Elected
from coterie.trace import Sent
from tests.harness import build
from tests.suites import Explored, broken_lines, every_interleaving
from tests.watching import HIGHEST_LEADS, CrashMutant, WatchingHand, returns_are_tolerated

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def hand(me: int = 4, size: int = 7) -> WatchingHand:
    return WatchingHand(Bully(me, size))


def test_all_begin_by_following_the_highest_and_watching_it() -> None:
    follower, leader = hand(), hand(7)
    assert follower.begun_with == leader.begun_with == [Elected(7)]
    assert (follower.watched, leader.watched) == ({7}, set())


def test_whoever_notices_that_the_leader_is_down_asks_everybody_higher() -> None:
    noticer = hand()
    assert noticer.down(7) == [(5, Election()), (6, Election()), (7, Election())]
    assert noticer.watched == {5, 6, 7}


def test_its_user_may_notice_first() -> None:
    assert hand(5).call("elect") == [(6, Election()), (7, Election())]


def test_whoever_gets_no_answer_wins_and_tells_all_others() -> None:
    winner = hand(6)
    winner.down(7)
    told = [(peer, Coordinator()) for peer in (1, 2, 3, 4, 5, 7)]
    assert winner.down(7) == [*told, Elected(6)]
    assert winner.watched == set()


def test_the_highest_of_all_asks_nobody() -> None:
    assert hand(3, 3).call("elect") == [(1, Coordinator()), (2, Coordinator()), Elected(3)]


def test_whoever_is_answered_has_lost_and_waits() -> None:
    loser = hand()
    loser.down(7)
    assert loser.receive(5, Ok()) == []
    assert loser.receive(6, Ok()) == []
    assert loser.watched == {5, 6}
    assert loser.down(5) == []


def test_if_all_who_answered_are_down_it_begins_again() -> None:
    loser = hand()
    loser.down(7)
    loser.receive(6, Ok())
    assert loser.down(6) == [(5, Election()), (6, Election()), (7, Election())]


def test_as_told_a_loser_has_nothing_more_to_do() -> None:
    loser = WatchingHand(AsTold(4, 7))
    loser.down(7)
    loser.receive(6, Ok())
    assert loser.watched == set()


def test_an_answer_after_the_election_says_nothing() -> None:
    follower = hand()
    follower.down(7)
    follower.receive(6, Coordinator())
    assert follower.receive(5, Ok()) == []
    assert follower.watched == {6}


def test_whoever_is_asked_answers_and_begins_an_election_of_its_own() -> None:
    assert hand(5).receive(4, Election()) == [(4, Ok()), (6, Election()), (7, Election())]


def test_it_does_not_begin_another_while_one_goes_on() -> None:
    asked = hand(5)
    asked.receive(4, Election())
    assert asked.receive(3, Election()) == [(3, Ok())]
    asked.receive(6, Ok())
    assert asked.receive(2, Election()) == [(2, Ok())]
    assert asked.call("elect") == []


def test_nobody_is_asked_by_a_higher_one() -> None:
    with pytest.raises(ProtocolError, match="process 5 asked process 4, which is lower"):
        hand().receive(5, Election())


def test_all_follow_the_winner_and_watch_it() -> None:
    follower = hand(2)
    assert follower.receive(6, Coordinator()) == [Elected(6)]
    assert follower.watched == {6}
    assert follower.receive(6, Coordinator()) == []
    assert follower.down(6)[0] == (3, Election())


def test_a_lower_leader_is_challenged() -> None:
    assert hand(6).receive(5, Coordinator()) == [(7, Election())]


def test_whoever_comes_back_begins_an_election() -> None:
    highest = WatchingHand(Bully(3, 3), incarnation=1)
    back = Coordinator(returned=True)
    assert highest.begun_with == [(1, back), (2, back), Elected(3)]
    other = WatchingHand(Bully(2, 3), incarnation=1)
    assert other.begun_with == [(3, Election())]


def test_news_of_a_lower_leader_are_checked_if_the_leader_has_returned() -> None:
    """They may be older than its return, and are not if it is down again; who asks knows."""
    follower = hand(2)
    follower.receive(7, Coordinator(returned=True))
    assert follower.receive(6, Coordinator())[0] == (3, Election())
    assert follower.receive(7, Coordinator(returned=True)) == [Elected(7)]
    follower.receive(7, Coordinator())  # from before it was down
    assert follower.receive(6, Coordinator())[0] == (3, Election())


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 0, None, 5, 4, crashes=1),
    Explored(2, 1, None, 50, 120, crashes=1),
    Explored(3, 0, None, 31, 59, crashes=1),
    Explored(3, 0, None, 86, 226, crashes=2),
    Explored(3, 1, None, 2717, 10669),
    Explored(3, 1, None, 231480, 1729744, crashes=2),
    Explored(4, 0, None, 3198, 13843, crashes=1),
    Explored(4, 0, None, 407571, 3273893, crashes=3),
]

test_whatever_happens_all_who_live_follow_the_highest_of_them_in_the_end = every_interleaving(
    "bully", EXPLORED, [HIGHEST_LEADS]
)


@pytest.mark.slow
def test_on_links_that_keep_the_order_too() -> None:
    verdict = check(build("bully", 4), entries=0, crashes=2, channel=Channel.FIFO)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (827291, 3628447)


def test_as_told_a_loser_waits_for_ever_after_a_second_crash() -> None:
    entry = find("bully")
    flaw = entry.variant("as-told").flaw
    assert flaw is not None
    for crashes in range(flaw.crashes + 1):
        verdict = check(build("bully", flaw.size, "as-told"), entries=0, crashes=crashes)
        assert verdict.verdict == ("vacuous", "verified", "violated")[crashes]
    assert (verdict.property, verdict.depth) == ("agreement", flaw.steps)


@pytest.mark.parametrize(("suspicions", "verdict"), [(1, "verified"), (2, "violated")])
def test_a_detector_that_is_wrong_twice_makes_two_leaders(suspicions: int, verdict: str) -> None:
    """Once about the leader, once about it as somebody who was asked; the second is the harm."""
    assert check(build("bully", 3), entries=0, suspicions=suspicions).verdict == verdict


def test_a_lost_message_breaks_it() -> None:
    verdict = check(build("bully", 3), entries=0, crashes=1, losses=1)
    assert verdict.verdict == "violated"


def messages(name: str) -> int:
    records = perform((SCENARIOS / f"{name}.txt").read_text(encoding="utf-8")).trace.records
    return sum(isinstance(record, Sent) for record in records)


def test_the_example_of_the_lectures_takes_15_messages() -> None:
    assert messages("bully-lecture") == 15


@pytest.mark.parametrize("size", [2, 3, 7, 13])
def test_whoever_notices_those_above_it_run_an_election_each(size: int) -> None:
    entry = find("bully")
    for noticer in range(1, size):
        messages = election_messages(entry, entry.setup(size), [noticer])
        assert messages == (size - noticer) ** 2 + size - 1


@pytest.mark.parametrize("size", [2, 3, 7, 13])
def test_the_higher_the_one_who_notices_the_cheaper(size: int) -> None:
    comparison = compare_election(find("bully"), find("bully").setup(size))
    assert comparison.agrees
    assert comparison.best.measured == size
    assert comparison.worst.measured == comparison.together.measured == size * (size - 1)


@pytest.mark.parametrize("seed", range(10))
def test_one_crash_after_another_leaves_the_highest_of_the_rest(seed: int) -> None:
    faults = [Crash(7, 10), Crash(2, 13.5), Crash(6, 14)]
    simulation = Simulation(
        build("bully", 7), faults=faults, network=Network(Exponential(1.0)), seed=seed
    )
    assert not simulation.run().violations
    live = [simulation.process(me) for me in (1, 3, 4, 5)]
    assert [process.leader for process in live if isinstance(process, Bully)] == [5, 5, 5, 5]


@pytest.mark.parametrize("seed", range(10))
def test_a_higher_process_that_comes_back_takes_over(seed: int) -> None:
    simulation = Simulation(
        build("bully", 5),
        faults=[Crash(5, 10), Crash(2, 12), Restart(5, 40), Restart(2, 60)],
        network=Network(Uniform(0.5, 1.5)),
        seed=seed,
    )
    assert not simulation.run().violations
    processes = [simulation.process(me) for me in range(1, 6)]
    assert [process.leader for process in processes if isinstance(process, Bully)] == [5] * 5


test_at_rest_the_highest_leads_whoever_returned_meanwhile = returns_are_tolerated("bully")


MUTANTS = {
    "leader not watched": CrashMutant("self._watch({leader} - {self.me}, out)", "pass"),
    "nobody told": CrashMutant("(others, Coordinator(self.returned))", "(others, Ok())"),
    "wins although answered": CrashMutant(
        "if self.leader is None and not self.answered:",
        "if self.leader is None:",
        size=4,
        entries=1,
        requesters=(2,),
    ),
    "never wins": CrashMutant(
        "            self._win(out)\n        else:", "            pass\n        else:"
    ),
    "asks lower ones": CrashMutant("range(self.me + 1, self.size + 1)", "range(1, self.me)"),
    "asks only the next": CrashMutant(
        "higher = range(self.me + 1, self.size + 1)",
        "higher = range(self.me + 1, min(self.me + 2, self.size + 1))",
        size=4,
        entries=1,
    ),
    "does not go on itself": CrashMutant(
        "out.send(sender, Ok())\n        self.elect(out)", "out.send(sender, Ok())", entries=1
    ),
    "loser watches nobody": CrashMutant(
        "self._watch(responders, out)", "self._watch((), out)", crashes=2
    ),
    "asked are not watched": CrashMutant("self._watch(higher, out)", "pass"),
    "loser gives up": CrashMutant(
        "            self._win(out)\n        else:\n            self._begin(out)",
        "            self._win(out)",
        crashes=2,
    ),
    "follows nobody new": CrashMutant("self._follow(sender, out)", "pass"),
}


def seats(kind: type[Bully], size: int) -> list[Bully]:
    return [kind(me, size) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Bully, MUTANTS, seats, properties=[HIGHEST_LEADS])
