"""Plans of a change: from a configuration and an operation to a goal, or to a refusal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.cluster.change import plan
from coterie.cluster.change.plan import Newcomer, failures_borne, make_plan
from coterie.cluster.membership.membership import check_decided
from coterie.coteries import parse_coterie
from coterie.errors import ChangeConflict, ConfigError, CoterieError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.algorithms.mutex.quorum.leased.changer import Goal

NAMES = "abcdefghijklm"


def configuration(size: int = 3, coterie: str = "majority", **changes: object) -> Configuration:
    settings = Settings(size, coterie, "all" if size <= 5 else "quorum")
    members = tuple(
        Member(seat, NAMES[seat - 1], f"id-{seat}", f"{NAMES[seat - 1]}:7420")
        for seat in range(1, size + 1)
    )
    rule = Rule(4, (Part(tuple(range(1, size + 1)), settings),))
    return msgspec.structs.replace(Configuration(rule, members, protocol=7), **changes)


def newcomer(name: str = "x", votes: int = 1) -> Newcomer:
    return Newcomer(name, f"{name}:7420", f"id-{name}", votes)


def part_of(goal: Goal) -> Part:
    assert goal.part is not None
    return goal.part


def reached(present: Configuration, goal: Goal) -> Configuration:
    """Return what the goal is, as voters check it."""
    found = plan.expected(present, goal)
    check_decided(found)
    return found


def test_a_voter_more_is_one_step_and_two_more_are_two() -> None:
    present = configuration()
    one = make_plan(present, plan.add(present, [newcomer("x")]))
    assert one.steps == ("configuration 5: a, b, c, x",)
    assert (one.before, one.during, one.after) == (1, 1, 1)
    two = make_plan(present, plan.add(present, [newcomer("x"), newcomer("y")]))
    assert [step.partition(":")[0] for step in two.steps] == ["configuration 5", "configuration 6"]
    assert "joint" in two.steps[0]
    assert two.after == 2


def test_voters_that_are_gone_are_no_failures_to_come() -> None:
    present = configuration(5)
    found = make_plan(present, plan.remove(present, ["a"]), gone=[5])
    assert (found.before, found.during, found.after) == (1, 0, 0)
    found = make_plan(present, plan.remove(present, ["e"]), gone=[5])
    assert (found.before, found.during, found.after) == (1, 1, 1)
    found = make_plan(present, plan.finish(present), gone=[3, 4, 5])
    assert (found.before, found.after) == (-1, -1)


def test_two_voters_bear_no_failure_until_the_third_is_there() -> None:
    present = configuration(2)
    found = make_plan(present, plan.add(present, [newcomer()]))
    assert (found.before, found.during, found.after) == (0, 0, 1)


def test_a_replaced_voter_gives_its_place_and_its_votes() -> None:
    present = configuration(3, "weighted:3,1,1")
    goal = plan.replace(present, "a", newcomer())
    assert part_of(goal).seats == (4, 2, 3)
    assert part_of(goal).settings.coterie == "weighted:3,1,1"
    assert part_of(goal).quorums.contains_quorum([4])
    assert [member.name for member in goal.members] == ["b", "c", "x"]
    found = make_plan(present, goal)
    assert len(found.steps) == 2
    assert found.leaving == ("a",)
    reached(present, goal)


def test_a_removed_voter_takes_its_votes_along() -> None:
    present = configuration(4, "weighted:2,1,1,1")
    goal = plan.remove(present, ["a"])
    assert part_of(goal).settings.coterie == "majority"
    assert part_of(goal).settings.voters == 3
    found = make_plan(present, goal)
    assert found.leaving == ("a",)
    reached(present, goal)


def test_seats_are_never_given_twice() -> None:
    present = configuration()
    assert plan.next_seat(present) == 4
    without = reached(present, plan.remove(present, ["c"]))
    assert plan.next_seat(without) == 4
    again = reached(without, plan.add(without, [newcomer("c"), newcomer("d")]))
    assert [member.seat for member in again.members] == [1, 2, 4, 5]
    # One that only an open number, or a forced configuration, knows of counts as well.
    still_open = Rule(3, (Part((1, 2, 9), Settings(3)),))
    assert plan.next_seat(configuration(open=(still_open,))) == 10
    # Lost voters may have given some that none of those that are left knows of.
    forced = plan.force(again, ["a"], 0)
    assert plan.next_seat(forced) == 6 + 65536
    added = reached(forced, plan.add(forced, [newcomer("e")]))
    assert [member.seat for member in added.members] == [1, 6 + 65536]
    assert part_of(plan.add(forced, [newcomer("e")])).quorums.contains_quorum([1, 6 + 65536])


def test_times_that_were_derived_from_the_lease_follow_it_and_others_stay() -> None:
    present = configuration()
    settings = part_of(plan.change_settings(present, {"lease": "20"})).settings
    assert (settings.lease, settings.heartbeat, settings.hedge, settings.unwind) == (20, 5, 4, 20)
    own = plan.change_settings(present, {"heartbeat": "1", "margin": "0.5", "rate-error": "0.01"})
    assert part_of(own).settings.heartbeat == 1
    later = reached(present, own)
    settings = part_of(plan.change_settings(later, {"lease": "30", "lock-delay": "2"})).settings
    assert (settings.heartbeat, settings.hedge, settings.lock_delay) == (1, 6, 2)
    assert (settings.margin, settings.rate_error) == (0.5, 0.01)


def test_the_usual_policy_follows_the_number_of_voters_and_a_chosen_one_stays() -> None:
    present = configuration(5)
    assert part_of(plan.add(present, [newcomer()])).settings.policy == "quorum"
    chosen = reached(present, plan.change_settings(present, {"policy": "quorum"}))
    assert part_of(plan.remove(chosen, ["a"])).settings.policy == "quorum"


def test_votes_make_and_unmake_weighted_voting() -> None:
    present = configuration()
    goal = plan.change_settings(present, {"votes.b": "2", "lease": "5"})
    assert part_of(goal).settings.coterie == "weighted:1,2,1"
    weighted = reached(present, goal)
    back = plan.change_settings(weighted, {"votes.b": "1"})
    assert part_of(back).settings.coterie == "majority"
    assert part_of(plan.add(weighted, [newcomer("x", 3)])).settings.coterie == "weighted:1,2,1,3"
    grid = plan.change_settings(present, {"coterie": "grid"})
    assert part_of(grid).settings.coterie == "grid"
    assert plan.votes_of(weighted, 2) == 2


def test_what_is_so_already_has_no_steps() -> None:
    present = configuration()
    found = make_plan(present, plan.change_settings(present, {"lease": "10"}))
    assert found.steps == ()


def test_a_joint_step_is_finished_or_taken_back_and_nothing_else() -> None:
    present = configuration()
    goal = plan.replace(present, "b", newcomer())
    parts = (present.rule.parts[0], part_of(goal))
    both = (*present.members, goal.members[-1])
    joint = Configuration(Rule(5, parts), both, open=(present.rule,), protocol=7, by="host:1/x")
    changes: tuple[Callable[[], Goal], ...] = (
        lambda: plan.add(joint, [newcomer("y")]),
        lambda: plan.remove(joint, ["a"]),
        lambda: plan.replace(joint, "a", newcomer("y")),
        lambda: plan.change_settings(joint, {"lease": "20"}),
    )
    for change in changes:
        with pytest.raises(ChangeConflict, match=r"begun by host:1/x: configuration 5 is joint"):
            change()
    back = plan.abort(joint)
    assert back.takes_back
    assert (back.part, back.members) == (present.rule.parts[0], present.members)
    taken_back = make_plan(joint, back)
    assert taken_back.steps == ("configuration 6: back to a, b, c",)
    assert taken_back.leaving == ("x",)
    finished = make_plan(joint, plan.finish(joint))
    assert finished.steps[-1] == "configuration 6: a, c, x"
    assert finished.leaving == ("b",)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda c: plan.add(c, [newcomer("b")]), UsageError, "b is a voter already; if its disk"),
        (
            lambda c: plan.add(c, [Newcomer("x", "b:7420")]),
            UsageError,
            "b:7420 is the address of the voter b",
        ),
        (
            lambda c: plan.add(c, [newcomer("x"), Newcomer("y", "y:7420", "id-x")]),
            UsageError,
            "y has the disk of x",
        ),
        (lambda c: plan.add(c, [newcomer("x", 0)]), UsageError, "--votes must be at least 1"),
        (lambda c: plan.remove(c, ["x"]), UsageError, "the voters are: a, b, c"),
        (lambda c: plan.remove(c, ["a", "b", "c"]), UsageError, "at least one voter has to stay"),
        (lambda c: plan.replace(c, "a", newcomer("b")), UsageError, "give the new node another"),
        (lambda c: plan.change_settings(c, {"leas": "1"}), UsageError, "unknown setting 'leas'"),
        (lambda c: plan.change_settings(c, {"lease": "inf"}), ConfigError, "lease must be"),
        (lambda c: plan.change_settings(c, {"lease": "nan"}), ConfigError, "lease must be"),
        (lambda c: plan.change_settings(c, {"lease": "x"}), UsageError, "lease must be a number"),
        (lambda c: plan.change_settings(c, {"lease": "0"}), ConfigError, "at least 0.1 s"),
        (lambda c: plan.change_settings(c, {"hedge": "9"}), ConfigError, "below half the lease"),
        (lambda c: plan.change_settings(c, {"votes.b": "0"}), UsageError, "a whole number from 1"),
        (lambda c: plan.change_settings(c, {"policy": "x"}), UsageError, "policy must be one of"),
        (lambda c: plan.change_settings(c, {"coterie": "x"}), UsageError, "unknown coterie"),
        (
            lambda c: plan.change_settings(c, {"coterie": "grid", "votes.a": "2"}),
            UsageError,
            "votes do not go with the coterie grid",
        ),
        (
            lambda c: plan.change_settings(c, {"protocol": "8", "lease": "5"}),
            UsageError,
            "changed alone",
        ),
        (lambda c: plan.change_settings(c, {"protocol": "6"}), UsageError, "no way back"),
        (plan.abort, UsageError, "configuration 4 is complete"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    change: Callable[[Configuration], object], kind: type[CoterieError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        change(configuration())


def test_quorums_that_are_listed_fit_no_other_number_of_voters() -> None:
    present = configuration(3, "1,2 2,3 1,3")
    assert part_of(plan.replace(present, "b", newcomer())).settings.coterie == "1,2 2,3 1,3"
    with pytest.raises(ConfigError, match="coterie cluster set coterie=majority"):
        plan.remove(present, ["c"])
    with pytest.raises(ConfigError, match="does not fit 8 voters"):
        plan.add(configuration(7, "plane:2"), [newcomer()])


@pytest.mark.parametrize(
    ("coterie", "size"),
    [
        ("majority", 4),
        ("majority", 5),
        ("weighted:3,1,1,1", 4),
        ("unanimous", 3),
        ("singleton", 3),
        ("grid", 6),
        ("plane", 7),
        ("tree", 7),
        ("1,2 2,3 1,3", 3),
    ],
)
def test_failures_borne_are_those_of_a_search_through_all_sets(coterie: str, size: int) -> None:
    quorums = parse_coterie(coterie, size)
    for gone in (set(), {1}, {2, 3}):
        left = set(quorums.members) - gone
        worst = next(
            count
            for count in range(size + 2)
            if not all(
                quorums.contains_quorum(left - set(lost))
                for lost in itertools.combinations(sorted(left), min(count, len(left)))
            )
        )
        assert failures_borne(quorums, gone) == worst - 1


def test_a_forced_configuration_leaps_and_keeps_only_what_is_kept() -> None:
    present = configuration(5, "weighted:2,1,1,1,1", floor=50)
    forced = plan.force(present, ["c", "a"], 70)
    assert forced.number == 4 + 65536
    assert [member.name for member in forced.members] == ["a", "c"]
    assert forced.settings.coterie == "weighted:2,1"
    assert (forced.floor, forced.open, forced.protocol) == (70, (), 7)
    check_decided(forced)
    assert plan.force(configuration(7, "plane:2"), ["a", "b"], 0).settings.coterie == "majority"
