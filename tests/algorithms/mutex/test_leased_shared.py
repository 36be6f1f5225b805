"""The leased lock in shared mode (section 17 of the protocol): who joins, who waits, which tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.leased.frames import (
    Beat,
    Grant,
    Inquire,
    Release,
    Request,
    SessionName,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.participant import Acquired, Unwanted
from coterie.errors import MisuseError
from coterie.lab.explore import check
from tests.algorithms.mutex.leased_abstraction import ENTRY, SHARING, cluster
from tests.algorithms.mutex.test_leased import voters
from tests.algorithms.mutex.test_leased_participant import Client, cached, holding
from tests.algorithms.mutex.test_leased_participant import grant as vote
from tests.algorithms.mutex.test_leased_voter import DELAYING, Box, grant

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.settings import Settings


def ask(number: int = 1, age: int = 5, hold: int = 0, *, stamp: int | None = None) -> Request:
    return Request("a", number, age, age if stamp is None else stamp, hold)


def share(number: int = 1, age: int = 5, hold: int = 0, *, stamp: int | None = None) -> Request:
    return Request("a", number, age, age if stamp is None else stamp, hold, shared=True)


def sharing(*ages: int) -> Box:
    """A voter whose vote p, q and so on share, with requests of these ages."""
    box = Box()
    for name, age in zip("pqr", ages, strict=False):
        assert box.take(name, share(age=age)) == [(name, grant(age, age + 9))]
    return box


# The voter


def test_a_request_to_share_joins_those_who_share_whatever_its_age() -> None:
    box = sharing(5, 7, 3)
    assert [owner.claim.participant for owner in box.voter.ballots["a"].owners] == ["p", "q", "r"]


def test_a_request_to_share_waits_for_one_who_is_alone_who_hears_of_it() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("q", share(age=6)) == [("p", Inquire("a", 1, 1))]
    assert box.take("r", share(age=4)) == [("p", Inquire("a", 1, 2))]


def test_no_request_to_share_passes_an_older_one_for_the_lock_alone() -> None:
    box = sharing(5)
    box.take("q", ask(age=6))
    assert box.take("r", share(age=7)) == []
    assert box.take("p", Release("a", 1, 5)) == [("q", grant(6, 15, more=True))]
    assert box.take("q", Release("a", 1, 6)) == [("r", grant(7, 16))]


def test_an_older_request_to_share_passes_a_younger_one_for_the_lock_alone() -> None:
    box = sharing(5)
    box.take("q", ask(age=8))
    [(who, joined), *_] = box.take("r", share(age=7))
    assert (who, joined) == ("r", grant(7, 16, more=True))


def test_all_who_share_hear_of_one_who_wants_the_lock_alone_by_its_age() -> None:
    box = sharing(3, 7)
    assert box.take("x", ask(age=5)) == [("p", Inquire("a", 1, 1)), ("q", Inquire("a", 1, 2))]
    assert box.take("y", ask(age=2)) == [("p", Inquire("a", 1, 2))], "each level is told once"


def test_the_lock_is_given_to_one_alone_when_the_last_who_shares_has_left() -> None:
    box = sharing(5, 6)
    box.take("x", ask(age=9))
    assert box.take("p", Release("a", 1, 5)) == []
    assert box.take("q", Release("a", 1, 7)) == [("x", grant(9, 18))]


def test_who_yields_a_share_waits_behind_the_older_one_and_comes_back_after_it() -> None:
    box = sharing(5)
    box.take("x", ask(age=4))
    assert box.take("p", Yield("a", 1, 0)) == [("x", grant(4, 13, more=True))]
    assert box.take("x", Release("a", 1, 4)) == [("p", grant(5, 14))]


def test_all_at_the_head_of_the_queue_who_share_are_let_in_together() -> None:
    box = Box()
    box.take("x", ask(age=1))
    box.take("p", share(age=2))
    box.take("q", share(age=3))
    box.take("y", ask(age=4))
    box.take("r", share(age=5))
    assert box.take("x", Release("a", 1, 1)) == [
        ("p", grant(2, 11, more=True)),
        ("q", grant(3, 12, more=True)),
    ]


def test_tokens_of_those_who_share_lie_between_those_alone_before_and_after() -> None:
    """Two who share may have the same ones, for neither comes first."""
    box = Box()
    box.take("x", ask(age=20))
    box.take("x", Release("a", 1, 25))
    assert box.take("p", share(age=5)) == [("p", grant(26, 35))]
    assert box.take("q", share(age=6)) == [("q", grant(26, 35))]
    box.take("p", Release("a", 1, 30))
    box.take("q", Release("a", 1, 28))
    assert box.take("y", ask(age=7)) == [("y", grant(31, 40))]


def test_a_dropped_sharer_uses_up_its_tokens_and_the_others_keep_their_votes() -> None:
    box = sharing(5, 6)
    box.take("x", ask(age=7))
    for name in "qx":
        box.now = 5
        box.step(box.voter.receive, 7, Beat(SessionName(name, 1), 99, 0, 5))
    assert box.ring(10) == [], "p has expired, q shares still"
    assert box.voter.ballots["a"].owned_by("q", 1)
    assert box.take("q", Release("a", 1, 6)) == [("x", grant(15, 24))]


def test_who_shares_hears_that_nobody_waits_any_more_and_one_alone_does_not() -> None:
    box = sharing(5)
    box.take("x", ask(age=9))
    assert box.take("x", Release("a", 1, 0)) == [("p", Inquire("a", 1, 0))]
    assert box.take("y", ask(age=9)) == [("p", Inquire("a", 1, 1))], "and again of the next"
    box.take("p", Release("a", 1, 5))
    box.take("q", share(age=10))
    assert box.take("q", Release("a", 1, 0)) == []


def test_repair_of_a_shared_hold_joins_those_who_share_although_others_wait() -> None:
    box = sharing(5)
    box.take("x", ask(age=6))
    [(who, repaired)] = box.take("q", share(age=9, stamp=20, hold=1))
    assert (who, repaired) == ("q", grant(20, 29, more=True))


def test_repair_of_a_shared_hold_below_the_floor_is_in_vain() -> None:
    box = sharing(5, 6)
    box.take("p", Release("a", 1, 12))
    assert box.take("r", share(age=9, stamp=8, hold=1)) == []
    assert box.voter.sessions["r"].locks == set()


def test_13_the_vote_of_a_sharer_that_came_back_by_expiry_rests_too() -> None:
    box = Box(DELAYING)
    box.take("p", share(age=5))
    box.take("q", ask(age=6))
    box.now = 9
    box.step(box.voter.receive, 7, Beat(SessionName("q", 1), 99, 0, 9))
    assert box.ring(10) == []
    assert box.ring(17) == [("q", grant(15, 24))]


# A task of an owner that waits to have the lock alone


def announced(writer: int = 7) -> Box:
    """A voter whose vote p has, of which a task waits to be alone."""
    box = sharing(5)
    before = Request("a", 1, 5, 5, 0, True, writer)
    assert box.take("p", before) == []
    return box


def test_a_younger_request_to_share_waits_for_an_announced_writer_and_an_older_one_does_not() -> (
    None
):
    box = announced(writer=7)
    assert box.take("q", share(age=8)) == [("p", Inquire("a", 1, 1))]
    assert box.take("r", share(age=6)) == [("r", grant(6, 15, more=True))]


def test_an_announced_writer_asks_in_the_place_that_it_has() -> None:
    box = announced(writer=7)
    box.take("q", share(age=8))
    box.take("r", ask(age=9))
    leaves = (Release("a", 1, 5), ask(number=2, age=7, stamp=10))
    assert box.take("p", *leaves) == [("p", grant(10, 19, number=2, more=True))]


def test_those_that_share_with_the_owner_hear_of_its_writer_and_that_it_waits_no_more() -> None:
    box = sharing(5, 6)
    assert box.take("p", Request("a", 1, 5, 5, 0, True, 7)) == [("q", Inquire("a", 1, 1))]
    assert box.take("p", share(age=5)) == [("q", Inquire("a", 1, 0))]


def test_requests_that_wait_are_let_in_when_the_announced_writer_gives_up_or_is_gone() -> None:
    box = announced()
    box.take("q", share(age=8))
    assert box.take("p", share(age=5)) == [("q", grant(8, 17)), ("p", Inquire("a", 1, 0))]
    box = announced()
    box.take("q", share(age=8))
    assert box.step(box.voter.end_session, "p") == [("q", grant(15, 24))]


def test_of_two_announced_writers_the_older_one_is_first_when_both_have_asked() -> None:
    box = sharing(5, 6)
    box.take("p", Request("a", 1, 5, 5, 0, True, 8))
    box.take("q", Request("a", 1, 6, 6, 0, True, 7))
    assert box.take("p", Release("a", 1, 5), ask(number=2, age=8)) == []
    answers = box.take("q", Release("a", 1, 6), ask(number=2, age=7))
    assert [who for who, body in answers if isinstance(body, Grant)] == ["q"]


def test_a_repair_waits_for_no_announced_writer() -> None:
    box = announced()
    [(who, repaired)] = box.take("q", share(age=9, stamp=20, hold=1))
    assert (who, repaired) == ("q", grant(20, 29, more=True))


def test_a_request_that_yields_keeps_its_writer() -> None:
    box = announced(writer=7)
    box.take("x", ask(age=4))
    box.take("p", Yield("a", 1, 0))
    box.take("q", share(age=8))
    assert box.take("x", Release("a", 1, 4)) == [("p", grant(5, 14, more=True))]


# The participant


def call(client: Client, name: str, *, shared: bool) -> list[Any]:
    def handler(out: Any) -> None:
        getattr(client.part, name)("a", out, shared=shared)

    return client.step(handler)


def sharer() -> Client:
    """A participant that holds the lock in shared mode."""
    client = Client()
    call(client, "acquire", shared=True)
    client.hear(1, vote())
    assert client.hear(2, vote()) == [Acquired("a", 1)]
    return client


def kept() -> Client:
    client = sharer()
    assert client.call("release") == []
    return client


def change(shared: bool, used: int = 1) -> list[Any]:
    """The one frame to each voter by which a participant changes the mode."""
    asked = Request("a", 2, used + 1, used + 1, 0, shared)
    return [(voter, body) for voter in (1, 2, 3) for body in (Release("a", 1, used), asked)]


def test_a_request_says_that_it_is_to_share() -> None:
    asked = call(Client(), "acquire", shared=True)
    assert asked == [(voter, Request("a", 1, 1, 1, 0, True)) for voter in (1, 2, 3)]
    assert str(asked[0][1]) == "Request(a, 1, 1, 1, 0, shared)"


def test_votes_kept_to_share_are_used_again_to_share() -> None:
    client = kept()
    assert client.part.try_reacquire("a", 1.0, shared=True) == 2


def test_votes_kept_to_share_go_back_in_the_frame_that_asks_for_the_lock_alone() -> None:
    client = kept()
    assert client.part.try_reacquire("a", 1.0) == 0
    assert client.call("acquire") == change(shared=False)


def test_votes_kept_alone_go_back_in_the_frame_that_asks_to_share() -> None:
    """They would do for this process, but would keep out the others who share."""
    client = cached()
    assert client.part.try_reacquire("a", 1.0, shared=True) == 0
    assert call(client, "acquire", shared=True) == change(shared=True)


@pytest.mark.parametrize("shared", [False, True])
def test_a_hold_is_passed_on_in_its_own_mode_only(shared: bool) -> None:
    client = sharer() if shared else holding()
    assert client.part.try_pass_on("a", 1.0, shared=not shared) == 0
    assert client.part.try_pass_on("a", 1.0, shared=shared) == 2
    assert call(client, "reenter", shared=not shared) == change(shared=not shared, used=2)


def test_who_shares_and_waits_yields_to_an_older_one_and_who_holds_does_not() -> None:
    client = Client()
    call(client, "acquire", shared=True)
    client.hear(1, vote())
    assert client.hear(1, Inquire("a", 1, 2)) == [(1, Yield("a", 1, 0))]
    assert sharer().hear(1, Inquire("a", 1, 2)) == []


def test_others_here_may_join_again_when_nobody_waits_at_any_voter_any_more() -> None:
    client = sharer()
    for voter in (1, 2):
        client.hear(voter, Inquire("a", 1, 1))
    assert client.part.is_wanted("a")
    assert client.hear(1, Inquire("a", 1, 0)) == []
    assert client.part.is_wanted("a")
    assert client.hear(2, Inquire("a", 1, 0)) == [Unwanted("a")]
    assert not client.part.is_wanted("a")


def test_what_a_voter_said_of_waiters_is_void_with_its_vote() -> None:
    client = sharer()
    client.hear(3, vote(more=True))
    client.lose(3)
    client.hear(1, Inquire("a", 1, 1))
    assert client.hear(1, Inquire("a", 1, 0)) == [Unwanted("a")]


def test_a_lost_session_is_repaired_in_the_same_mode() -> None:
    client = sharer()
    client.hear(3, vote())
    assert client.lose(1) == [(1, Request("a", 1, 1, 1, 2, True))]


def test_who_waits_to_share_asks_a_forgetful_voter_again_to_share() -> None:
    client = Client()
    call(client, "acquire", shared=True)
    for voter in (1, 2, 3):
        client.hear(voter)
    assert client.lose(1) == [(1, Request("a", 1, 1, 1, 0, True))]


def test_who_parks_resumes_in_the_same_mode() -> None:
    client = Client()
    call(client, "acquire", shared=True)
    client.ring(10.0)
    assert client.part.bids["a"].parked
    for voter in (1, 2):
        client.hear(voter)
    assert client.part.bids["a"].shared
    assert not client.part.bids["a"].parked


def test_a_writer_is_announced_to_all_voters_that_have_the_request_and_given_back_for() -> None:
    client = sharer()
    assert client.step(client.part.announce, "a", 9) == [
        (voter, Request("a", 1, 1, 1, 0, True, 9)) for voter in (1, 2, 3)
    ]
    assert client.step(client.part.announce, "a", 0) == [
        (voter, Request("a", 1, 1, 1, 0, True)) for voter in (1, 2, 3)
    ]
    client.step(client.part.announce, "a", 1)
    assert client.part.bids["a"].writer == 2, "younger than the request that it is behind"
    assert (1, Release("a", 1, 1)) in client.call("release"), "the votes are not kept"


def test_a_writer_that_is_announced_is_known_after_a_repair_and_after_parking() -> None:
    client = sharer()
    client.hear(3, vote())
    client.step(client.part.announce, "a", 9)
    assert client.lose(1) == [(1, Request("a", 1, 1, 1, 2, True, 9))]
    client = Client()
    call(client, "acquire", shared=True)
    client.step(client.part.announce, "a", 9)
    client.ring(10.0)
    for voter in (1, 2):
        client.hear(voter)
    assert client.part.bids["a"].writer == 9


def test_nothing_is_announced_behind_what_is_not_shared() -> None:
    for client in (holding(), kept(), Client()):
        with pytest.raises(MisuseError, match="neither waited for nor held in shared mode"):
            client.step(client.part.announce, "a", 9)


# Every interleaving


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "entries", "states", "transitions"),
    [
        (voters(1), 2, 20516, 127329),
        (voters(3), 1, 24731, 226901),
    ],
)
def test_every_interleaving_of_two_who_share_and_one_who_does_not_is_safe_and_live(
    settings: Settings, entries: int, states: int, transitions: int
) -> None:
    first = settings.voters + 1
    processes = cluster(settings, clients=3, sharers=(first, first + 1))
    verdict = check(
        processes,
        requesters=range(first, first + 3),
        entries=entries,
        properties=(*SHARING, ENTRY),
    )
    assert verdict.verdict == "verified", verdict.reason
    assert all(verdict.sometimes.values())
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "entries", "announcers", "states", "transitions"),
    [
        (voters(1), 1, 1, 5585, 35916),
        (voters(1), 1, 2, 28981, 190802),
    ],
)
def test_every_interleaving_of_those_who_share_with_a_writer_behind_them_is_safe_and_live(
    settings: Settings, entries: int, announcers: int, states: int, transitions: int
) -> None:
    """The writers give up when their readers leave."""
    first = settings.voters + 1
    processes = cluster(
        settings,
        clients=3,
        sharers=(first, first + 1),
        announcers=range(first, first + announcers),
    )
    verdict = check(
        processes,
        requesters=range(first, first + 3),
        entries=entries,
        properties=(*SHARING, ENTRY),
    )
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
def test_every_interleaving_of_a_lapse_of_one_who_shares_is_safe() -> None:
    """One voter: the clock of a client that shares runs past its lease at any moment."""
    processes = cluster(voters(1), clients=3, sharers=(2, 3), lapses={2: 1})
    verdict = check(processes, requesters=(2, 3, 4), properties=SHARING)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (52695, 340238)
