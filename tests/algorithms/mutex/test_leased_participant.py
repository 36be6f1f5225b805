"""A participant of the leased lock (sections 5, 8 and 10 of the protocol), rule by rule."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Data,
    DownBody,
    Grant,
    Inquire,
    Nack,
    Probe,
    Raise,
    Raised,
    Release,
    Reply,
    Request,
    Revoke,
    SessionName,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.participant import (
    PARTICIPANT,
    Acquired,
    Lost,
    participant,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.votes import Interval, fit, last_instant, voters_to_ask
from coterie.errors import MisuseError
from coterie.process import Outbox

THREE = Settings(3, lease=10.0, heartbeat=2.0, hedge=2.0, unwind=5.0, interval=9)
QUORUM = msgspec.structs.replace(THREE, policy="quorum")


class Client:
    """A participant whose frames are answered by hand."""

    def __init__(self, settings: Settings = THREE) -> None:
        self.part = participant(founding(settings), 1)
        self.now = 0.0
        self.nonces = dict.fromkeys((1, 2, 3), 1)
        self.seqs = dict.fromkeys((1, 2, 3), 0)
        self.step(self.part.start, "p")

    def step(self, handler: Any, *arguments: Any) -> list[Any]:
        """Return lock messages as (voter, message), other frames as they are, and events."""
        out: Outbox[Any] = Outbox(9, self.now)
        handler(*arguments, out)
        seen: list[Any] = []
        for voter, frame in out.sends:
            if isinstance(frame, Data):
                seen += [(voter, body) for body in frame.bodies]
            elif not isinstance(frame, Beat):
                seen.append((voter, frame))
        return seen + out.events

    def call(self, name: str, lock: str = "a") -> list[Any]:
        return self.step(getattr(self.part, name), lock)

    def session(self, voter: int) -> SessionName:
        number = self.part.sessions.uplink(voter).number
        return SessionName("p", number, f"{voter}/{self.nonces[voter]}/{number}")

    def hear(self, voter: int, *bodies: DownBody, echo: float | None = None) -> list[Any]:
        """Let a voter answer everything sent so far."""
        uplink = self.part.sessions.uplink(voter)
        time = self.now if echo is None else echo
        if not bodies:
            ack = Ack(self.session(voter), uplink.posted, 0, time, False)
            return self.step(self.part.receive, voter, ack)
        seq = uplink.delivered + 1
        reply = Reply(self.session(voter), seq, uplink.posted, 0, time, False, bodies)
        return self.step(self.part.receive, voter, reply)

    def lose(self, voter: int) -> list[Any]:
        """Let a voter tell that it does not know the session."""
        return self.step(self.part.receive, voter, Nack(self.session(voter)))

    def ring(self, now: float) -> list[Any]:
        self.now = now
        return self.step(self.part.ring, PARTICIPANT)


def grant(low: int = 1, high: int = 9, *, number: int = 1, more: bool = False) -> Grant:
    return Grant("a", number, low, high, more)


def waiting(settings: Settings = THREE) -> Client:
    client = Client(settings)
    client.call("acquire")
    return client


def holding(settings: Settings = THREE) -> Client:
    client = waiting(settings)
    client.hear(1, grant())
    assert client.hear(2, grant()) == [Acquired("a", 1)]
    return client


def cached() -> Client:
    client = holding()
    assert client.call("release") == []
    return client


ALL_ASKED = [(voter, Request("a", 1, 1, 1)) for voter in (1, 2, 3)]
ALL_BACK = [(voter, Release("a", 1, 1)) for voter in (1, 2, 3)]


# Acquiring (5.1 to 5.5)


def test_5_1_a_new_request_goes_to_all_voters() -> None:
    assert Client().call("acquire") == ALL_ASKED


def test_5_1_a_new_request_is_younger_than_all_heard_of() -> None:
    client = Client()
    client.part.sessions.merge(41)
    [(_, request), *_] = client.call("acquire")
    assert (request.age, request.stamp) == (42, 42)


def test_5_4_it_enters_with_the_votes_of_a_quorum() -> None:
    client = waiting()
    assert client.hear(1, grant()) == []
    assert client.hear(3, grant()) == [Acquired("a", 1)]


def test_5_4_a_vote_whose_lease_is_over_does_not_count() -> None:
    client = waiting()
    client.hear(1, grant())
    client.now = 10
    assert client.hear(2, grant(), echo=0) == []
    assert not client.part.valid("a", 10)


def test_5_9_votes_count_again_when_the_lease_runs_again() -> None:
    client = waiting()
    client.hear(1, grant())
    client.now = 9
    assert client.hear(2, grant(), echo=-2) == []
    assert Acquired("a", 1) in client.hear(2)


def test_5_4_the_token_is_the_smallest_that_a_quorum_supports() -> None:
    client = waiting()
    client.hear(1, grant(1, 9))
    assert client.hear(2, grant(5, 14)) == [Acquired("a", 5)]


def test_5_4_intervals_without_a_common_token_are_moved_up_and_the_votes_stay() -> None:
    client = waiting()
    client.hear(1, grant(1, 9))
    assert client.hear(2, grant(50, 59)) == [(1, Raise("a", 1, 50))]
    assert client.hear(1, Raised("a", 1, 50, 59)) == [Acquired("a", 50)]


def test_5_4_a_raise_is_asked_for_once() -> None:
    client = waiting()
    client.hear(1, grant(1, 9))
    client.hear(2, grant(50, 59))
    assert client.hear(1) == []


def test_5_5_a_hold_begun_while_an_interval_moves_up_keeps_its_token() -> None:
    client = waiting()
    client.hear(1, grant(1, 9))
    client.hear(2, grant(50, 59))
    assert client.hear(3, grant(1, 9)) == [Acquired("a", 1)]
    client.hear(1, Raised("a", 1, 50, 59))
    assert client.part.valid("a", 0)


def test_answers_to_a_withdrawn_request_are_ignored() -> None:
    client = waiting()
    assert client.call("withdraw") == [(v, Release("a", 1, 0)) for v in (1, 2, 3)]
    client.call("acquire")
    client.hear(1, grant())
    assert client.hear(2, grant()) == []
    assert client.part.bids["a"].votes == {}


# Being asked (5.6)


def test_5_6_who_waits_yields_to_an_older_request_at_once() -> None:
    client = waiting()
    client.hear(1, grant())
    assert client.hear(1, Inquire("a", 1, 2)) == [(1, Yield("a", 1, 0))]
    assert client.hear(2, grant()) == []
    assert client.hear(1, grant()) == [Acquired("a", 1)]


def test_5_6_who_waits_keeps_its_votes_from_a_younger_request() -> None:
    client = waiting()
    client.hear(1, grant())
    assert client.hear(1, Inquire("a", 1, 1)) == []
    assert client.hear(2, grant()) == [Acquired("a", 1)]


@pytest.mark.parametrize("level", [1, 2])
def test_5_6_who_holds_the_lock_keeps_it_and_gives_it_back_on_exit(level: int) -> None:
    client = holding()
    assert client.hear(1, Inquire("a", 1, level)) == []
    assert client.part.valid("a", 0)
    assert client.call("release") == ALL_BACK


def test_5_6_a_kept_lock_goes_back_as_a_whole_at_the_first_sign_of_a_waiter() -> None:
    client = cached()
    assert client.hear(2, Inquire("a", 1, 1)) == ALL_BACK
    assert client.hear(1, Inquire("a", 1, 1)) == []


def test_5_6_an_inquiry_of_a_voter_that_has_not_voted_means_nothing() -> None:
    client = cached()
    assert client.hear(3, Inquire("a", 1, 1)) == []


def test_5_4_a_late_vote_that_tells_of_waiters_gives_a_kept_lock_back() -> None:
    assert cached().hear(3, grant(more=True)) == ALL_BACK


# Leaving and coming again (5.2, 5.7)


def test_5_2_a_kept_lock_is_taken_again_with_a_new_token_and_no_message() -> None:
    client = cached()
    assert client.call("acquire") == [Acquired("a", 2)]


def test_5_2_a_used_up_interval_is_moved_up_first() -> None:
    client = waiting()
    client.hear(1, grant(1, 1))
    client.hear(2, grant(1, 1))
    client.call("release")
    assert client.call("acquire") == [(1, Raise("a", 1, 2)), (2, Raise("a", 1, 2))]
    client.hear(1, Raised("a", 1, 2, 2))
    assert client.hear(2, Raised("a", 1, 2, 2)) == [Acquired("a", 2)]


def test_5_2_a_kept_lock_whose_leases_are_over_is_asked_for_anew() -> None:
    client = cached()
    client.now = 9.5
    client.hear(3)
    client.hear(1, echo=0.5)
    client.now = 10.2
    assert client.call("acquire")[:2] == [
        (1, Release("a", 1, 1)),
        (1, Request("a", 2, 2, 2)),
    ]


def test_5_7_a_lock_that_somebody_waits_for_is_not_kept() -> None:
    client = waiting()
    client.hear(1, grant(more=True))
    client.hear(2, grant())
    assert client.call("release") == ALL_BACK


def test_5_7_without_lazy_release_nothing_is_kept() -> None:
    client = holding(msgspec.structs.replace(THREE, lazy=False))
    assert client.call("release") == ALL_BACK


def test_5_7_too_many_kept_locks_are_given_back_the_longest_unused_first() -> None:
    client = Client(msgspec.structs.replace(THREE, cached_max=2))
    for number, lock in enumerate(("a", "b", "c"), start=1):
        client.now = float(number)
        client.call("acquire", lock)
        for voter in (1, 2):
            client.hear(voter, Grant(lock, number, number, 99, False))
        given_back = client.call("release", lock)
    assert given_back == [(voter, Release("a", 1, 1)) for voter in (1, 2, 3)]
    assert client.part.cached == {"b", "c"}


def test_an_idle_lock_leaves_nothing_behind() -> None:
    client = cached()
    client.hear(1, Inquire("a", 1, 1))
    assert client.part.bids == {}
    assert not any(uplink.locks for uplink in client.part.sessions.uplinks)


def test_calls_that_make_no_sense_are_refused() -> None:
    client = waiting()
    for name in ("acquire", "release"):
        with pytest.raises(MisuseError, match="lock 'a' is"):
            client.call(name)
    with pytest.raises(MisuseError, match="not waited for"):
        client.call("withdraw", "b")
    with pytest.raises(MisuseError, match="release all locks"):
        client.step(client.part.close)


# Validity and loss: rules 8.1 and 8.2


def test_8_a_hold_lasts_as_long_as_the_leases_of_a_quorum() -> None:
    client = holding()
    client.now = 4
    client.hear(1)
    assert client.part.remaining("a", 4) == 6
    client.hear(2)
    assert client.part.remaining("a", 4) == 10


def test_8_1_the_clock_comes_first_and_no_frame_revives_a_hold() -> None:
    client = holding()
    client.now = 10
    assert client.hear(1) == [Lost("a", 1)]
    client.hear(2)
    client.hear(3, grant())
    assert not client.part.valid("a", 10)


@pytest.mark.parametrize("name", ["release", "acquire"])
def test_8_1_the_clock_comes_first_on_calls_too(name: str) -> None:
    client = holding()
    client.now = 10
    lock = "a" if name == "release" else "b"
    assert Lost("a", 1) in client.call(name, lock)


def test_8_2_a_lost_hold_is_not_kept_on_exit() -> None:
    client = holding()
    client.ring(10)
    for voter in (1, 2, 3):
        client.step(client.part.receive, voter, Answer(client.session(voter), True))
    assert client.call("release") == ALL_BACK


def test_8_2_votes_of_a_lost_hold_go_back_when_the_user_takes_too_long() -> None:
    client = holding()
    client.ring(10)
    for voter in (1, 2, 3):
        client.step(client.part.connected, voter)
        client.hear(voter)
    assert client.ring(14.9) == []
    assert client.ring(15) == ALL_BACK
    assert client.call("release") == []


# Repair (8.3 to 8.5)


def test_8_3_the_vote_of_a_lost_session_counts_up_to_its_lease() -> None:
    client = holding()
    client.now = 4
    client.hear(1)
    client.lose(2)
    assert client.part.remaining("a", 4) == 6


def test_8_3_a_frozen_vote_does_not_count_for_a_new_entry() -> None:
    client = waiting()
    client.hear(1, grant())
    client.lose(2)
    assert client.part.bids["a"].frozen() == {}
    assert client.hear(3, grant()) == [Acquired("a", 1)]


def test_8_4_without_a_live_quorum_all_others_are_asked_for_the_same_token() -> None:
    assert holding().lose(2) == [
        (2, Request("a", 1, 1, 1, 1)),
        (3, Request("a", 1, 1, 1, 1)),
    ]


def test_8_4_with_a_live_quorum_the_voter_that_forgot_is_asked_with_proof() -> None:
    client = holding()
    client.hear(3, grant())
    assert client.lose(3) == [(3, Request("a", 1, 1, 1, 2))]
    client.hear(3, grant(1, 1))
    client.now = 5
    client.hear(1)
    client.hear(3)
    assert client.part.remaining("a", 5) == 10


def test_8_4_a_vote_that_does_not_support_the_token_repairs_nothing() -> None:
    client = holding()
    client.lose(2)
    client.now = 5
    client.hear(1)
    client.hear(3, grant(2, 10))
    assert client.part.remaining("a", 5) == 5


def test_8_4_a_suspected_voter_is_replaced_before_its_lease_is_over() -> None:
    client = holding(QUORUM)
    client.ring(2)
    client.hear(1)
    assert client.ring(4) == [(3, Request("a", 1, 1, 1, 1))]


def test_8_5_a_repaired_lock_is_not_kept() -> None:
    client = holding()
    client.hear(3, grant())
    client.lose(3)
    assert client.call("release") == [
        (1, Release("a", 1, 1)),
        (2, Release("a", 1, 1)),
        (3, Release("a", 1, 1)),
    ]


def test_5_8_who_waits_asks_a_forgetful_voter_again() -> None:
    client = waiting()
    client.hear(2)
    assert client.lose(2) == [(2, Request("a", 1, 1, 1))]


def test_5_8_a_kept_lock_without_a_quorum_goes_back() -> None:
    client = cached()
    assert client.lose(2) == [(1, Release("a", 1, 1)), (3, Release("a", 1, 1))]


def test_5_8_a_kept_lock_that_rests_on_a_voter_in_doubt_goes_back() -> None:
    """Else the next hold would begin without repair, and be lost when that voter's lease ends."""
    client = holding(QUORUM)
    client.call("release")
    client.ring(2)
    client.hear(1)
    assert client.ring(4) == [(1, Release("a", 1, 1)), (2, Release("a", 1, 1))]


# Whom to ask (10)


def test_10_one_quorum_is_asked_if_that_is_the_policy() -> None:
    assert [voter for voter, _ in Client(QUORUM).call("acquire")] == [1, 2]


def test_10_a_voter_that_does_not_answer_is_replaced() -> None:
    client = waiting(QUORUM)
    client.hear(1, grant())
    client.ring(1)
    assert client.ring(2) == [(3, Request("a", 1, 1, 1))]


def test_10_a_voter_in_grace_is_replaced() -> None:
    client = waiting(QUORUM)
    ack = Ack(client.session(2), 1, 0, 0, True)
    assert client.step(client.part.receive, 2, ack) == [(3, Request("a", 1, 1, 1))]


def test_10_without_another_quorum_everybody_is_asked() -> None:
    assert voters_to_ask(founding(THREE).rule, 1, [], [1, 2]) == [1, 2, 3]
    assert voters_to_ask(founding(THREE).rule, 1, [], [3]) == [1, 2]


def test_10_a_change_of_quorum_uses_the_voters_asked_already() -> None:
    five = founding(Settings(5, policy="quorum")).rule
    assert voters_to_ask(five, 1, [1, 2, 3], [2]) == [4]
    assert voters_to_ask(five, 4, [1, 2, 3], [2]) == [4]
    assert voters_to_ask(five, 5, [1, 2, 3], [2]) == [5]
    plane = founding(Settings(7, "plane:2", "quorum")).rule
    asked = sorted(plane.quorums.quorum_for(1))
    more = voters_to_ask(plane, 1, asked, [asked[0]])
    assert plane.quorums.contains_quorum([*asked[1:], *more])
    assert asked[0] not in more


def test_10_who_reaches_no_quorum_parks_and_resumes_with_its_age() -> None:
    client = waiting()
    client.hear(1, grant())
    client.now = 9
    client.hear(1)
    parked = client.ring(10.5)
    assert (1, Release("a", 1, 0)) in parked
    assert [x for x in parked if x[0] in (2, 3)] == [
        (2, Probe(SessionName("p", 1))),
        (3, Probe(SessionName("p", 1))),
    ]
    client.now = 12
    resumed = client.step(client.part.receive, 2, Answer(SessionName("p", 1), False))
    assert (1, Request("a", 2, 1, 2)) in resumed
    assert (2, Request("a", 2, 1, 2)) in resumed


# Arithmetic of section 7


def test_7_fit_tells_no_quorum_from_no_common_token() -> None:
    quorums = THREE.quorums
    assert fit({1: Interval(1, 9)}, 0, quorums) is None
    assert fit({1: Interval(1, 9), 2: Interval(10, 19)}, 0, quorums) == 0
    assert fit({1: Interval(1, 9), 2: Interval(4, 19)}, 0, quorums) == 4
    assert fit({1: Interval(1, 9), 2: Interval(4, 19)}, 7, quorums) == 8
    assert fit({1: Interval(1, 9), 2: Interval(4, 19)}, 9, quorums) == 0
    assert fit({1: Interval(1, 9), 2: Interval(40, 49), 3: Interval(8, 9)}, 0, quorums) == 8


def test_8_a_quorum_lasts_until_its_last_possible_member_leaves() -> None:
    assert last_instant({1: 5.0, 2: 9.0, 3: 7.0}, THREE.quorums) == 7.0
    assert last_instant({1: 5.0}, THREE.quorums) == float("-inf")


# An operator ends a hold: section 8.2


@pytest.mark.parametrize(("beyond", "is_ended"), [(-1, False), (0, True), (1, True), (None, True)])
def test_8_2_a_revocation_ends_holds_up_to_its_token(beyond: int | None, is_ended: bool) -> None:
    """One without a token, of an older voter, ends any."""
    made = Client()
    made.call("acquire")
    for voter in (1, 2):
        made.hear(voter, Grant("a", 1, 5, 13, False))
    token = made.part.try_pass_on("a", made.now)
    assert token == 6
    order = Revoke("a", 1) if beyond is None else Revoke("a", 1, token + beyond)
    told = made.hear(1, order)
    assert (Lost("a", token, revoked=True) in told) is is_ended
    assert made.part.valid("a", made.now) is not is_ended


def test_8_2_a_frame_of_an_older_voter_has_no_token() -> None:
    old = msgspec.msgpack.encode(["Revoke", "a", 1])
    assert msgspec.msgpack.decode(old, type=Revoke) == Revoke("a", 1)
