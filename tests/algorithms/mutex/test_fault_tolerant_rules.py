"""The coterie algorithm of 1996, rule by rule: the paper's, those of the repair, those of the return."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.quorum.fault_tolerant.messages import (
    Allright,
    Down,
    Hold,
    IsAllright,
    Unhold,
    Up,
    Welcome,
)
from coterie.algorithms.mutex.quorum.maekawa.messages import (
    Inquire,
    Locked,
    Release,
    Relinquish,
    Request,
)
from coterie.catalogue import find
from coterie.clocks import Stamp
from coterie.errors import ConfigError, CoterieError, ProtocolError, UsageError
from coterie.process import Entered, Outbox, encode
from tests.harness import Hand, build

T_D, T_MAX, QUARANTINE = 5.0, 20.0, 7.0  # with sigma = 2 and lambda = 1, the defaults
MINE = Stamp(1, 4)
OTHERS = (1, 2, 3, 5, 6, 7)


class Player(Hand):
    """A process of figure 5, whose timers are seen as well."""

    def __init__(self, me: int = 4, variant: str | None = None, **parameters: str) -> None:
        super().__init__(build("fault-tolerant", 7, variant, **parameters)[me - 1])
        self._last = super()._out()

    def start(self, incarnation: int) -> list[Any]:
        out = self._out()
        out.incarnation = incarnation
        self.seat.start(out)
        return list(out.sends)

    def _out(self) -> Outbox[Any]:
        self._last = super()._out()
        return self._last

    @property
    def armed(self) -> dict[str, float | None]:
        """What the last step did to the timers; None for a timer that it stopped."""
        return dict(self._last.timers)

    def enter(self) -> None:
        """Process 4 enters by its quorum {1,4,5}."""
        self.call("acquire")
        self.receive(1, Locked(MINE, MINE.time))
        assert self.receive(5, Locked(MINE, MINE.time)) == [Entered()]


def to(receivers: tuple[int, ...], message: Any) -> list[Any]:
    return [(receiver, message) for receiver in receivers]


# What the paper says


def test_whoever_asks_a_quorum_waits_t_max_for_each_of_its_members() -> None:
    player = Player()
    assert player.call("acquire") == to((1, 5), Request(MINE))
    assert player.armed == {"T_max-1": T_MAX, "T_max-5": T_MAX}


def test_whoever_has_waited_t_max_asks_and_waits_t_d() -> None:
    player = Player()
    player.call("acquire")
    assert player.ring("T_max-1") == [(1, IsAllright())]
    assert player.armed == {"T_d-1": T_D}


def test_a_process_that_is_asked_answers_at_once() -> None:
    assert Player().receive(6, IsAllright()) == [(6, Allright())]


def test_after_an_answer_one_waits_again_and_longer_up_to_a_limit() -> None:
    player = Player()
    player.call("acquire")
    waits = []
    for _ in range(5):
        player.ring("T_max-1")
        assert player.receive(1, Allright()) == []
        assert player.armed["T_d-1"] is None
        waits.append(player.armed["T_max-1"])
    assert waits == [40.0, 80.0, 160.0, 160.0, 160.0]


def test_an_answer_that_nobody_waits_for_any_more_changes_nothing() -> None:
    player = Player()
    player.call("acquire")
    player.ring("T_max-1")
    player.receive(1, Locked(MINE, MINE.time))
    assert player.receive(1, Allright()) == []
    assert player.armed == {}


def test_without_an_answer_it_is_down_and_everybody_else_is_told() -> None:
    player = Player()
    player.call("acquire")
    player.ring("T_max-1")
    sends = player.ring("T_d-1")
    assert sends[:5] == to((2, 3, 5, 6, 7), Down(1, 0))


def test_an_arbiter_waits_the_same_way_for_its_release() -> None:
    player = Player()
    player.receive(2, Request(Stamp(1, 2)))
    assert player.armed == {"T_max-2": T_MAX}
    player.receive(2, Release(Stamp(1, 2)))
    assert player.armed == {"T_max-2": None}


def test_whoever_gave_a_lock_back_waits_the_same_way_for_it() -> None:
    player = Player()
    player.call("acquire")
    player.receive(1, Locked(MINE, MINE.time))
    assert player.receive(1, Inquire(MINE)) == [(1, Relinquish(MINE))]
    assert player.armed == {"T_max-1": T_MAX}


def test_the_requests_of_the_dead_are_deleted_and_its_lock_is_free() -> None:
    player = Player()
    player.receive(1, Request(Stamp(1, 1)))
    player.receive(5, Request(Stamp(1, 5)))
    player.receive(2, Request(Stamp(2, 2)))
    assert (2, Locked(Stamp(2, 2), 2)) not in player.receive(7, Down(5, 0))
    assert (2, Locked(Stamp(2, 2), 2)) in player.receive(7, Down(1, 0))


def test_after_two_crashes_the_coterie_is_figure_5c_and_the_order_does_not_matter() -> None:
    figure = [[2, 3], [2, 4, 6], [2, 6, 7], [3, 4, 7], [3, 6]]
    for first, second in ((1, 5), (5, 1)):
        player = Player()
        player.receive(7, Down(first, 0))
        player.receive(7, Down(second, 0))
        assert player.process.facts() == {"coterie": figure, "down": [1, 5]}


def test_a_pending_request_goes_to_those_who_are_new_in_the_quorum_only() -> None:
    player = Player()
    player.call("acquire")
    assert player.receive(7, Down(1, 0))[-1:] == [(2, Request(MINE))]
    assert player.process.quorum == (2, 4, 5)


def test_a_request_that_does_not_need_the_dead_goes_on_unchanged() -> None:
    player = Player()
    player.call("acquire")
    assert Request not in {type(message) for _, message in player.receive(7, Down(3, 0))}
    assert player.process.quorum == (1, 4, 5)


def test_nobody_enters_during_the_quarantine_and_who_can_enters_after_it() -> None:
    player = Player()
    player.call("acquire")
    player.receive(7, Down(6, 0))
    assert player.armed["QUARANTINE"] == QUARANTINE
    player.receive(1, Locked(MINE, MINE.time))
    assert player.receive(5, Locked(MINE, MINE.time)) == []
    assert player.ring("QUARANTINE") == [Entered()]


def test_1996_the_quarantine_is_sigma_and_nobody_relays_or_holds() -> None:
    player = Player(variant="published")
    player.enter()
    assert player.receive(7, Down(1, 0)) == []
    assert player.armed["QUARANTINE"] == 2.0


# What the repair adds


def test_news_is_relayed_to_all_who_live_before_anything_else_and_only_once() -> None:
    player = Player()
    player.receive(1, Request(Stamp(1, 1)))
    player.receive(2, Request(Stamp(2, 2)))
    sends = player.receive(7, Down(1, 0))
    assert sends[:5] == to((2, 3, 5, 6, 7), Down(1, 0))
    assert sends[5:] == [(2, Locked(Stamp(2, 2), 2))]
    assert player.receive(6, Down(1, 0)) == []


def test_the_same_news_again_does_not_prolong_the_quarantine() -> None:
    player = Player()
    player.receive(7, Down(1, 0))
    player.receive(6, Down(1, 0))
    assert "QUARANTINE" not in player.armed


def test_the_quarantine_is_longer_than_twice_sigma_and_lambda() -> None:
    for sigma, lambda_ in ((2.0, 1.0), (1.0, 0.1)):
        chosen = {"sigma": str(sigma), "lambda": str(lambda_)}
        settings = Player(4, None, **chosen).process.settings
        assert settings.quarantine > 2 * (sigma + lambda_)
        assert settings.t_d == 2 * sigma + lambda_


def test_whoever_is_inside_by_a_quorum_of_the_dead_says_so_and_says_when_it_leaves() -> None:
    player = Player()
    player.enter()
    assert player.receive(7, Down(1, 0))[5:] == to((2, 3, 5, 6, 7), Hold())
    assert player.call("release") == [(5, Release(MINE)), *to((2, 3, 5, 6, 7), Unhold())]


def test_it_says_so_once() -> None:
    player = Player()
    player.enter()
    player.receive(7, Down(1, 0))
    assert Hold() not in [message for _, message in player.receive(7, Down(5, 0))]


def test_whoever_is_inside_by_a_quorum_without_the_dead_says_nothing() -> None:
    player = Player()
    player.enter()
    assert Hold() not in [message for _, message in player.receive(7, Down(2, 0))]


def test_nobody_enters_before_those_who_hold_have_left() -> None:
    player = Player()
    player.call("acquire")
    player.receive(6, Hold())
    player.receive(1, Locked(MINE, MINE.time))
    assert player.receive(5, Locked(MINE, MINE.time)) == []
    assert player.receive(6, Unhold()) == [Entered()]


def test_who_waits_for_somebody_to_leave_watches_it_and_does_not_wait_for_the_dead() -> None:
    player = Player()
    player.call("acquire")
    player.receive(6, Hold())
    assert player.armed == {"T_max-6": T_MAX}
    player.receive(1, Locked(MINE, MINE.time))
    player.receive(5, Locked(MINE, MINE.time))
    player.receive(7, Down(6, 0))
    assert player.ring("QUARANTINE") == [Entered()]


def test_a_lock_that_is_needed_no_more_is_given_back_with_the_others() -> None:
    player = Player(keep="smaller")
    player.call("acquire")
    player.receive(7, Down(5, 0))
    assert player.process.asked == {1, 4, 6}
    player.receive(1, Locked(MINE, MINE.time))
    player.receive(6, Locked(MINE, MINE.time))
    player.ring("QUARANTINE")
    assert player.call("release") == to((1, 6), Release(MINE))


def test_a_request_that_entered_without_an_arbiter_leaves_its_queue() -> None:
    player = Player()
    player.receive(2, Request(Stamp(1, 2)))
    player.receive(3, Request(Stamp(1, 3)))
    assert player.receive(3, Release(Stamp(1, 3))) == []
    assert player.receive(2, Release(Stamp(1, 2))) == []


def test_a_lock_that_comes_after_the_release_is_not_counted() -> None:
    player = Player()
    player.enter()
    player.call("release")
    assert player.receive(5, Locked(MINE, MINE.time)) == []


def test_two_locks_of_one_arbiter_or_a_release_by_nobody_are_mistakes() -> None:
    player = Player()
    player.call("acquire")
    player.receive(1, Locked(MINE, MINE.time))
    with pytest.raises(ProtocolError, match="twice"):
        player.receive(1, Locked(MINE, MINE.time))
    with pytest.raises(ProtocolError, match="gave back"):
        player.receive(6, Release(Stamp(9, 6)))


def test_whoever_hears_that_it_is_dead_itself_knows_that_a_message_was_late() -> None:
    with pytest.raises(ProtocolError, match="too late"):
        Player().receive(6, Down(4, 0))


# What the return adds


def test_whoever_comes_back_tells_everybody_and_gives_them_t_d_to_answer() -> None:
    player = Player()
    assert player.start(1) == to(OTHERS, Up(4, 1))
    assert player.armed == {"JOINING": T_D}


def test_the_first_start_is_silent() -> None:
    assert Player().start(0) == []


def test_a_request_made_meanwhile_is_sent_when_it_knows_who_is_there() -> None:
    player = Player()
    player.start(1)
    assert player.call("acquire") == []
    player.receive(5, Welcome(1, 8, (1, 0, 0, 2, 0, 0, 0)))
    assert player.ring("JOINING") == to((2, 5), Request(Stamp(9, 4)))
    assert player.armed["QUARANTINE"] == QUARANTINE


def test_it_is_welcomed_with_all_that_is_known_after_the_news_was_relayed() -> None:
    player = Player()
    player.receive(7, Down(3, 0))
    sends = player.receive(1, Up(1, 1))
    assert sends == [*to((2, 5, 6, 7), Up(1, 1)), (1, Welcome(1, 0, (2, 0, 1, 0, 0, 0, 0)))]
    assert player.armed == {"QUARANTINE": QUARANTINE}


def test_to_come_back_is_also_to_have_been_down() -> None:
    player = Player()
    player.receive(1, Request(Stamp(1, 1)))
    player.receive(2, Request(Stamp(2, 2)))
    assert (2, Locked(Stamp(2, 2), 2)) in player.receive(1, Up(1, 1))
    assert player.process.facts()["down"] == []


def test_whoever_comes_back_welcomes_others_who_have_come_back() -> None:
    """They may be joining as well, and would take it for a stranger for ever."""
    player = Player()
    player.start(1)
    sends = player.receive(5, Welcome(1, 3, (0, 2, 0, 2, 0, 0, 0)))
    assert sends == [(2, Welcome(1, 3, (0, 2, 0, 2, 0, 0, 0)))]


def test_news_in_a_welcome_that_comes_later_is_news_like_any_other() -> None:
    player = Player()
    player.start(1)
    player.ring("JOINING")
    sends = player.receive(5, Welcome(1, 3, (0, 0, 1, 2, 0, 0, 0)))
    assert sends == to((1, 2, 5, 6, 7), Down(3, 0))
    assert player.armed == {"QUARANTINE": QUARANTINE}


def test_older_news_is_no_news() -> None:
    player = Player()
    player.receive(1, Up(1, 2))
    for old in (Down(1, 0), Up(1, 1), Down(1, 1)):
        assert player.receive(6, old) == []


def test_a_waiter_asks_who_is_back_and_keeps_what_it_has_until_it_leaves() -> None:
    player = Player()
    player.receive(7, Down(1, 0))
    player.call("acquire")
    assert player.process.quorum == (2, 4, 5)
    assert (1, Request(MINE)) in player.receive(1, Up(1, 1))
    assert player.process.quorum == (1, 4, 5)
    player.ring("QUARANTINE")
    player.receive(5, Locked(MINE, MINE.time))
    assert player.receive(1, Locked(MINE, MINE.time)) == [Entered()]
    assert player.call("release") == to((1, 2, 5), Release(MINE))


def test_whoever_is_inside_holds_for_everybody_when_somebody_comes_back() -> None:
    player = Player()
    player.enter()
    player.receive(7, Down(3, 0))
    sends = player.receive(3, Up(3, 1))
    assert sends[-6:] == to(OTHERS, Hold())
    assert (1, Hold()) not in player.receive(7, Down(2, 0))
    assert player.receive(2, Up(2, 1))[-1] == (2, Hold())


def test_what_was_sent_by_or_to_an_earlier_incarnation_is_dropped() -> None:
    player = Player()
    player.receive(7, Down(1, 0))
    assert player.receive(1, Request(Stamp(1, 1))) == []
    player.receive(6, Up(1, 1))
    assert player.receive(1, Request(Stamp(1, 1))) == []
    player.receive(1, Up(1, 1))
    assert player.receive(1, Request(Stamp(1, 1))) == [(1, Locked(Stamp(1, 1), 1))]

    returned = Player()
    returned.start(2)
    assert returned.receive(5, IsAllright()) == []
    returned.receive(5, Welcome(1, 3, (0,) * 7))  # of the incarnation before
    assert returned.receive(5, IsAllright()) == []
    returned.receive(5, Welcome(2, 3, (0, 0, 0, 4, 0, 0, 0)))
    assert returned.receive(5, IsAllright()) == [(5, Allright())]


def test_a_welcome_by_who_has_crashed_since_makes_nobody_known() -> None:
    """Its Hold, sent before the crash, would otherwise be minded for ever."""
    player = Player()
    player.start(1)
    player.receive(6, Up(2, 1))
    player.receive(2, Welcome(1, 3, (0, 0, 0, 2, 0, 0, 0)))
    player.receive(2, Hold())
    assert player.process.holders == set()
    player.receive(2, Up(2, 1))
    player.receive(2, Hold())
    assert player.process.holders == {2}


# Bad choices, and what every algorithm owes


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"t-max": "5"}, ConfigError, r"T_max must be longer than T_d = .* = 5, got 5"),
        ({"t-max": "9", "t-limit": "8"}, ConfigError, "at least T_max = 9, got 8"),
        ({"table": "1>2,2>1,3>4,4>5,5>6,6>7,7>3"}, ConfigError, r"6 failures: .*\{1,2\}"),
        ({"table": "1,2,3"}, ConfigError, "each of the processes 1 to 7 once"),
        ({"table": "1>2,3"}, UsageError, "a cycle of all processes"),
        ({"coterie": "1,2 2,9"}, ConfigError, "names 9, which is not a member"),
        ({"coterie": "1,2 3,4"}, ConfigError, "no member in common"),
        ({"keep": "both"}, UsageError, "choose from: larger, smaller"),
        ({"sigma": "0"}, UsageError, "sigma must be a time greater than 0"),
        ({"lambda": "soon"}, UsageError, "lambda must be a time greater than 0"),
        ({"failures": "7"}, UsageError, "0 to 6 may fail"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    parameters: dict[str, str], error: type[CoterieError], text: str
) -> None:
    with pytest.raises(error, match=text):
        build("fault-tolerant", 7, **parameters)


def test_a_table_that_bears_fewer_failures_is_taken_for_fewer() -> None:
    parameters = {"table": "1>2,2>1,3>4,4>5,5>6,6>7,7>3", "failures": "1"}
    assert len(build("fault-tolerant", 7, **parameters)) == 7


def test_a_cycle_may_be_chosen_in_which_no_two_neighbours_empty_the_quorums() -> None:
    players = [Player(), Player(table="1,2,5,3,7,6,4")]
    sizes = []
    for player in players:
        player.receive(7, Down(1, 0))
        player.receive(7, Down(2, 0))
        common = set.intersection(*map(set, player.process.facts()["coterie"]))
        sizes.append(len(common))
    assert sizes == [1, 0]  # after the paper's cycle every quorum contains 3


def test_a_process_is_a_value() -> None:
    player = Player()
    player.enter()
    player.receive(7, Down(1, 0))
    saved = encode(player.process)
    assert encode(type(player.process)(**_fields(player.process))) == saved


def _fields(process: Any) -> dict[str, Any]:
    return {name: getattr(process, name) for name in process.__struct_fields__}


def test_the_variants_are_named() -> None:
    names = {variant.name: variant.sound for variant in find("fault-tolerant").variants}
    assert names == {"repaired": True, "published": False}
