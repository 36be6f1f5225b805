"""Coming to rest, agreement at rest, and false suspicions."""

from __future__ import annotations

from coterie.lab.explore import check
from coterie.lab.explore.properties import AGREEMENT
from coterie.process import Elected, Election, Outbox, Payload


class Vote(Payload, frozen=True):
    leader: int


class Follower(Election[Vote]):
    """Follows process 1, and whoever is left when that one is down."""

    others: tuple[int, ...] = ()

    def start(self, out: Outbox[Vote]) -> None:
        out.tell(Elected(1))
        if self.me != 1:
            out.watch(1)

    def elect(self, out: Outbox[Vote]) -> None:
        out.broadcast(self.others, Vote(self.me))

    def down(self, peer: int, out: Outbox[Vote]) -> None:
        out.tell(Elected(2))

    def receive(self, sender: int, message: Vote, out: Outbox[Vote]) -> None:
        out.tell(Elected(message.leader))


class Restless(Follower):
    """Passes every vote on, for ever."""

    def receive(self, sender: int, message: Vote, out: Outbox[Vote]) -> None:
        out.send(sender, message)


def trio(kind: type[Follower]) -> list[Follower]:
    return [kind(me, tuple(i for i in (1, 2, 3) if i != me)) for me in (1, 2, 3)]


def test_after_a_crash_all_who_are_left_agree() -> None:
    verdict = check(trio(Follower), entries=0, crashes=1)
    # The crash of 2 after that of 1 would be a second one; that of 2 or 3 alone changes nothing.
    assert verdict.verdict == "verified", verdict.reason


def test_a_dead_leader_at_rest_is_no_agreement() -> None:
    verdict = check(trio(Follower), entries=0, crashes=2)
    assert (verdict.verdict, verdict.property) == ("violated", "agreement")
    assert "no message or timer is pending" in verdict.reason


def test_two_leaders_at_rest_are_no_agreement() -> None:
    verdict = check(trio(Follower), entries=1)
    assert (verdict.verdict, verdict.property) == ("violated", "agreement")


def test_a_message_that_circulates_for_ever_is_found() -> None:
    verdict = check(trio(Restless), entries=1, properties=[AGREEMENT])
    assert (verdict.verdict, verdict.property) == ("violated", "agreement")
    assert verdict.reason == "from here on it comes to rest only if a user asks"
    assert verdict.depth == 1


def test_a_false_suspicion_is_a_fault_that_must_be_allowed() -> None:
    assert check(trio(Follower), entries=0).verdict == "vacuous"
    verdict = check(trio(Follower), entries=0, suspicions=1)
    assert (verdict.verdict, verdict.property, verdict.depth) == ("violated", "agreement", 1)
    assert check(trio(Follower), entries=0, suspicions=2).verdict == "violated"


class Usurper(Follower):
    """Promises one leader; 3 takes itself for it when told to elect."""

    one_leads = True

    def elect(self, out: Outbox[Vote]) -> None:
        if self.me == 3:
            out.tell(Elected(3))
            out.broadcast(self.others, Vote(3))


class Modest(Usurper):
    """Promises the highest leader, and leaves it at the lowest."""

    one_leads = False
    highest_leads = True

    def elect(self, out: Outbox[Vote]) -> None:
        pass


def test_two_that_take_themselves_for_the_leader_are_found_where_one_is_promised() -> None:
    verdict = check(trio(Usurper), entries=1)
    assert (verdict.property, verdict.depth) == ("one leader", 1)
    assert verdict.reason == "more than one takes itself for the leader: processes 1 and 3"


def test_a_lower_leader_at_rest_is_found_where_the_highest_is_promised() -> None:
    verdict = check(trio(Modest), entries=1)
    assert verdict.property == "the highest leads"
    assert verdict.reason.endswith("and not all follow the highest live process")
