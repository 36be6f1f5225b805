"""The election ring, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.algorithms.election.ring import ELECTIONS_MAX, AsTold, Coordinator, Election, Ring
from coterie.catalogue import find
from coterie.clocks import Stamp
from coterie.lab.explore import check
from coterie.lab.scenario import perform
from coterie.lab.simulate import Crash, Exponential, Network, Restart, Simulation, Uniform
from coterie.lab.simulate.compare import compare_election
from coterie.process import Channel, Elected
from coterie.trace import Delivered, Sent
from tests.harness import build
from tests.suites import Explored, broken_lines, every_interleaving
from tests.watching import HIGHEST_LEADS, CrashMutant, WatchingHand, returns_are_tolerated

SCENARIOS = Path(__file__).parents[2] / "scenarios"
NAME = Stamp(1, 2)


def hand(me: int = 4, size: int = 5) -> WatchingHand:
    return WatchingHand(Ring(me, size))


def test_all_begin_by_following_the_highest_and_watching_it() -> None:
    follower, leader = hand(), hand(5)
    assert follower.begun_with == leader.begun_with == [Elected(5)]
    assert (follower.watched, leader.watched) == ({5}, set())


def test_whoever_notices_that_the_leader_is_down_sends_its_id_to_the_next() -> None:
    assert hand(2).down(5) == [(3, Election(Stamp(1, 2), (2,)))]


def test_its_user_may_notice_first() -> None:
    assert hand(2).call("elect") == [(3, Election(Stamp(1, 2), (2,)))]


def test_whoever_gets_a_list_adds_itself_and_passes_it_on() -> None:
    assert hand(3).receive(2, Election(NAME, (2,))) == [(4, Election(NAME, (2, 3)))]


def test_the_first_comes_after_the_last() -> None:
    assert hand(5).receive(4, Election(NAME, (2, 4))) == [(1, Election(NAME, (2, 4, 5)))]


def test_a_successor_that_is_down_is_skipped() -> None:
    last = hand(4)
    assert last.receive(2, Election(NAME, (2,))) == [(5, Election(NAME, (2, 4)))]
    assert last.down(5) == [(1, Election(NAME, (2, 4)))]
    assert last.down(1) == [(2, Election(NAME, (2, 4)))]


def test_whoever_is_alone_comes_back_to_itself() -> None:
    alone = hand(1, 3)
    alone.down(3)
    assert alone.down(2) == [(3, Election(Stamp(1, 1), (1,)))]
    assert alone.down(3) == [Elected(1)]
    assert alone.watched == set()


def test_who_finds_itself_in_the_list_sends_the_new_ring_round_beginning_with_itself() -> None:
    first = hand(2)
    first.down(5)
    assert first.receive(1, Election(Stamp(1, 2), (2, 3, 4, 1))) == [
        (3, Coordinator(Stamp(1, 2), (2, 3, 4, 1))),
        Elected(4),
    ]
    assert first.watched == {3, 4}


def test_so_does_the_second_if_the_first_is_down() -> None:
    second = hand(3)
    second.receive(2, Election(NAME, (2, 3)))
    sent, *_ = second.receive(1, Election(NAME, (2, 3, 4, 1)))
    assert sent == (4, Coordinator(NAME, (3, 4, 1, 2)))


def test_everybody_in_the_ring_follows_its_highest_and_tells_the_next() -> None:
    member = hand(3)
    ring = Coordinator(NAME, (2, 3, 4, 1))
    assert member.receive(2, ring) == [(4, ring), Elected(4)]


def test_the_last_in_the_ring_tells_nobody() -> None:
    assert hand(1).receive(4, Coordinator(NAME, (2, 3, 4, 1))) == [Elected(4)]


def test_as_told_the_last_tells_the_first_who_keeps_it() -> None:
    ring = Coordinator(NAME, (2, 3, 4, 1))
    last, first = WatchingHand(AsTold(1, 5)), WatchingHand(AsTold(2, 5))
    assert last.receive(4, ring) == [(2, ring), Elected(4)]
    assert first.receive(1, ring) == []


def test_members_that_are_down_by_now_are_skipped() -> None:
    member = hand(3)
    ring = Coordinator(NAME, (2, 3, 4, 1))
    member.receive(2, ring)
    assert member.down(4) == [(1, ring), (4, Election(Stamp(1, 3), (3,)))]  # 4 was to lead, too


def test_a_list_that_was_passed_on_is_sent_again_until_its_result_is_known() -> None:
    member = hand(1)
    member.receive(5, Election(NAME, (2, 3, 4)))
    assert 2 in member.watched
    member.receive(4, Coordinator(Stamp(1, 3), (3, 4, 1)))
    assert 2 in member.watched  # that was another election
    member.receive(2, Coordinator(NAME, (2, 3, 4, 1)))
    assert member.watched == {4}


def test_who_has_passed_a_list_on_does_not_begin_another() -> None:
    member = hand(1)
    member.receive(5, Election(NAME, (2, 3, 4)))
    assert member.down(5) == []
    assert member.call("elect") == []


def test_all_watch_the_new_leader() -> None:
    member = hand(1)
    member.receive(4, Coordinator(NAME, (2, 3, 4, 1)))
    assert member.down(4) == [(2, Election(Stamp(1, 1), (1,)))]


def test_whoever_comes_back_begins_an_election() -> None:
    name = Stamp(ELECTIONS_MAX + 1, 3)  # above those of its former life
    assert WatchingHand(Ring(3, 3), incarnation=1).begun_with == [(1, Election(name, (3,), (3,)))]


def test_a_ring_without_a_leader_that_has_returned_is_checked() -> None:
    """It may be older than the return, and is not if the leader is down again; who asks knows."""
    member = hand(1)
    member.receive(5, Coordinator(NAME, (2, 3, 5, 1), (5,)))
    old = Coordinator(Stamp(1, 3), (3, 4, 1, 2))
    assert member.receive(4, old) == [(2, old), (2, Election(Stamp(1, 1), (1,)))]
    assert member.watched >= {5}


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 0, Channel.UNORDERED, 5, 4, crashes=1),
    Explored(2, 1, Channel.UNORDERED, 214, 408, crashes=1),
    Explored(3, 0, Channel.UNORDERED, 50, 73, crashes=1),
    Explored(3, 0, Channel.UNORDERED, 233, 475, crashes=2),
    Explored(3, 1, Channel.UNORDERED, 4168, 10233),
    Explored(3, 1, Channel.FIFO, 64359, 162014, crashes=1),
    Explored(4, 0, Channel.UNORDERED, 4361, 10844, crashes=1),
    Explored(4, 0, Channel.FIFO, 85678, 222995, crashes=2),
]

test_whatever_happens_all_who_live_follow_the_highest_of_them_in_the_end = every_interleaving(
    "ring", EXPLORED, [HIGHEST_LEADS]
)


@pytest.mark.slow
def test_two_begin_without_need_while_one_crashes() -> None:
    processes = build("ring", 3)
    verdict = check(processes, requesters=[1, 2], crashes=1, properties=[HIGHEST_LEADS])
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (101759, 349160)


def test_as_told_a_result_goes_round_for_ever_after_a_second_crash() -> None:
    flaw = find("ring").variant("as-told").flaw
    assert flaw is not None
    for crashes in range(flaw.crashes + 1):
        verdict = check(build("ring", flaw.size, "as-told"), entries=0, crashes=crashes)
        assert verdict.verdict == ("vacuous", "verified", "violated")[crashes]
    assert (verdict.reason, verdict.depth) == ("from here on it never comes to rest", flaw.steps)


@pytest.mark.parametrize(("suspicions", "verdict"), [(1, "verified"), (2, "violated")])
def test_a_detector_that_is_wrong_twice_makes_a_wrong_leader(suspicions: int, verdict: str) -> None:
    """Once about the leader, once about a process that had its place in the list."""
    assert check(build("ring", 3), entries=0, suspicions=suspicions).verdict == verdict


def test_a_lost_message_breaks_it() -> None:
    verdict = check(build("ring", 3), entries=0, crashes=1, losses=1)
    assert verdict.verdict == "violated"


@pytest.mark.parametrize(("name", "messages"), [("ring-lecture-as-told", 28), ("ring-lecture", 26)])
def test_the_example_of_the_lectures_takes_so_many_messages_and_two_to_the_dead(
    name: str, messages: int
) -> None:
    records = perform((SCENARIOS / f"{name}.txt").read_text(encoding="utf-8")).trace.records
    assert sum(isinstance(record, Delivered) for record in records) == messages
    assert sum(isinstance(record, Sent) for record in records) == messages + 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("variant", ["members", "as-told"])
def test_it_costs_two_rounds_whoever_notices(size: int, variant: str) -> None:
    comparison = compare_election(find("ring"), find("ring").setup(size, variant))
    assert comparison.agrees
    assert comparison.best.measured == comparison.worst.measured


@pytest.mark.parametrize("seed", range(10))
def test_one_crash_after_another_leaves_the_highest_of_the_rest(seed: int) -> None:
    faults = [Crash(7, 10), Crash(2, 13.5), Crash(6, 14)]
    simulation = Simulation(
        build("ring", 7), faults=faults, network=Network(Exponential(1.0)), seed=seed
    )
    assert not simulation.run().violations
    live = [simulation.process(me) for me in (1, 3, 4, 5)]
    assert [process.leader for process in live if isinstance(process, Ring)] == [5, 5, 5, 5]


@pytest.mark.parametrize("seed", range(10))
def test_a_higher_process_that_comes_back_takes_over(seed: int) -> None:
    simulation = Simulation(
        build("ring", 5),
        faults=[Crash(5, 10), Crash(2, 12), Restart(5, 40), Restart(2, 60)],
        network=Network(Uniform(0.5, 1.5)),
        seed=seed,
    )
    assert not simulation.run().violations
    processes = [simulation.process(me) for me in range(1, 6)]
    assert [process.leader for process in processes if isinstance(process, Ring)] == [5] * 5


test_at_rest_the_highest_leads_whoever_returned_meanwhile = returns_are_tolerated("ring")


MUTANTS = {
    "leader not watched": CrashMutant(" | {self.leader or self.me}", ""),
    "successor not watched": CrashMutant("self.passed.append((to, message))", "pass"),
    "dead not skipped": CrashMutant("self._pass_on(self._successor(peer), message, out)", "pass"),
    "dead member not skipped": CrashMutant(
        "self._tell_who_comes_after(peer, message, out)", "pass", crashes=2, size=4
    ),
    "not in the list": CrashMutant("(*members, self.me)", "members"),
    "nobody else told": CrashMutant("self._tell_who_comes_after(self.me, message, out)", "pass"),
    "first of the list leads": CrashMutant("max(message.ring)", "message.ring[0]", size=4),
    "leader not missed": CrashMutant(
        "self.leader = None\n            self.elect(out)", "self.leader = None"
    ),
    "every result ends all elections": CrashMutant(
        "if message.name.process != name.process or message.name > name",
        "if False",
        entries=1,
        requesters=(1, 2),
    ),
    "names used again": CrashMutant("self.begun += 1", "pass", entries=1, requesters=(1, 2)),
    "the second last is forgotten": CrashMutant("process) + 1 :]", "process) + 2 :]"),
}


def seats(kind: type[Ring], size: int) -> list[Ring]:
    return [kind(me, size) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Ring, MUTANTS, seats, properties=[HIGHEST_LEADS])
