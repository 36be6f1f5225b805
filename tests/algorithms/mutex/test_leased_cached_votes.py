"""Votes in hand (5.2, 5.7, 5.11 and 7): used again, passed on, and topped up."""

from __future__ import annotations

import msgspec

from coterie.algorithms.mutex.quorum.leased.bid import State
from coterie.algorithms.mutex.quorum.leased.frames import Inquire, Raise, Raised, Release
from coterie.algorithms.mutex.quorum.leased.participant import Acquired
from tests.algorithms.mutex.test_leased_participant import THREE, Client, cached, grant, holding


def used_up(client: Client, tokens: int) -> Client:
    """Pass the lock on until that many tokens are used."""
    while client.part.bids["a"].token < tokens:
        assert client.part.try_pass_on("a", client.now)
    return client


# 5.2 and 5.7


def test_5_2_a_kept_lock_is_taken_again_without_messages_each_time_with_the_next_token() -> None:
    part = cached().part
    assert part.try_reacquire("a", 1.0) == 2
    assert part.try_release("a", 1.0)
    assert part.try_reacquire("a", 1.0) == 3


def test_5_2_no_participant_reacquires_what_is_held_or_not_kept() -> None:
    assert Client().part.try_reacquire("a", 0.0) == 0
    assert holding().part.try_reacquire("a", 0.0) == 0


def test_5_7_no_participant_keeps_what_is_not_held() -> None:
    assert not Client().part.try_release("a", 0.0)
    assert not cached().part.try_release("a", 0.0)


def test_8_1_at_the_end_of_a_lease_nothing_is_reacquired_without_messages() -> None:
    part = cached().part
    assert part.sound_until == 10.0
    assert part.try_reacquire("a", 10.0) == 0
    assert part.try_reacquire("a", 9.9) == 2
    assert not part.try_release("a", 10.0)


def test_5_2_a_quorum_of_leases_will_do_and_less_will_not() -> None:
    client = cached()
    client.part.sessions.uplink(3).lease = 0.0
    assert client.part.try_reacquire("a", 1.0) == 2
    assert client.part.try_release("a", 1.0)
    client.part.sessions.uplink(2).lease = 0.0
    assert client.part.try_reacquire("a", 1.0) == 0
    assert client.part.bids["a"].state is State.CACHED


def test_7_past_the_intervals_of_a_quorum_nothing_is_passed_on_without_messages() -> None:
    assert used_up(holding(), 9).part.try_pass_on("a", 0.0) == 0


def test_5_7_a_lock_that_another_waits_for_is_not_kept_without_messages() -> None:
    client = holding()
    client.hear(1, Inquire("a", 1, 1))
    assert client.part.is_wanted("a")
    assert not client.part.try_release("a", 0.0)


def test_5_7_a_full_cache_is_for_the_general_rule() -> None:
    client = holding(msgspec.structs.replace(THREE, cached_max=0))
    assert not client.part.try_release("a", 0.0)
    assert client.call("release") == [(voter, Release("a", 1, 1)) for voter in (1, 2, 3)]


# 5.11


def test_5_11_a_hold_is_passed_on_with_the_next_token_although_others_wait() -> None:
    client = holding()
    client.hear(1, Inquire("a", 1, 2))
    assert client.part.try_pass_on("a", 1.0) == 2
    assert client.part.valid("a", 1.0)
    assert client.call("release") == [(voter, Release("a", 1, 2)) for voter in (1, 2, 3)]


def test_5_11_what_is_not_held_is_not_passed_on() -> None:
    assert Client().part.try_pass_on("a", 0.0) == 0
    assert cached().part.try_pass_on("a", 0.0) == 0


def test_8_2_a_lost_hold_is_not_passed_on_even_if_leases_run_again() -> None:
    client = holding()
    client.ring(10.0)
    for voter in (1, 2):
        client.hear(voter)
    assert client.part.bids["a"].lost
    assert client.part.try_pass_on("a", 10.0) == 0


def test_8_5_a_repaired_hold_is_not_passed_on() -> None:
    client = holding()
    client.lose(1)
    assert client.part.bids["a"].repaired
    assert client.part.try_pass_on("a", 0.0) == 0


# 7


def test_7_intervals_of_which_half_is_used_are_moved_up_and_the_lock_is_kept_meanwhile() -> None:
    client = used_up(holding(), 6)
    assert not client.part.try_release("a", 0.0)
    assert client.call("release") == [(voter, Raise("a", 1, 6)) for voter in (1, 2)]
    assert client.call("acquire") == [Acquired("a", 7)]
    assert client.call("release") == []  # it is asked for once
    for voter in (1, 2):
        assert client.hear(voter, Raised("a", 1, 6, 14)) == []
    assert client.part.try_reacquire("a", 0.0) == 8
    assert client.part.try_release("a", 0.0)


def test_7_intervals_with_half_left_stay_as_they_are() -> None:
    client = used_up(holding(), 5)
    assert client.part.try_release("a", 0.0)


def test_7_a_short_interval_of_one_voter_does_not_matter_to_a_quorum_of_others() -> None:
    client = used_up(holding(), 3)
    client.hear(3, grant(1, 4))
    assert client.part.try_release("a", 0.0)
