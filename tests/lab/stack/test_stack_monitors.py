"""Monitors notice what is planted, and nothing else."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import Attempt, Proposal, SessionName
from coterie.algorithms.mutex.quorum.leased.sessions import Downlink
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.succession import Succession
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.stack.scene.monitors import (
    AccusationMonitor,
    ConfigurationMonitor,
    HistoryMonitor,
    LockMonitor,
    OrderMonitor,
)
from coterie.lab.stack.world import ViolationError, World
from coterie.lab.stack.world.machine import Process

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Loss:
    told: bool = False

    def is_set(self) -> bool:
        return self.told


@dataclass
class Fake:
    """What a program would have in hand."""

    tokens: dict[str, int]
    valid: bool = True
    name: str = "a"
    lost: Loss = field(default_factory=Loss)


class Stage:
    """Two processes, and a monitor of their holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.locks = LockMonitor(world, 1.0)
        self.first, self.second = (Process(world.machine(name), name, 1, print) for name in "pq")

    def grant(self, process: Process, token: int, *, shared: bool = False, **more: Any) -> Fake:
        held = Fake({"a": token}, **more)
        self.locks.granted(process, cast("Any", held), shared=shared)
        return held

    def verdict(self) -> str:
        try:
            self.world.at(self.world.now, lambda: None)
            self.world.run(self.world.now + 10)
        except ViolationError as error:
            return error.name
        return ""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with World(1) as world:
        yield Stage(world)


def test_two_valid_holds_are_noticed(stage: Stage) -> None:
    stage.grant(stage.first, 1)
    stage.grant(stage.second, 2)
    assert stage.verdict() == "exclusion"


def test_a_hold_beside_one_that_shares_is_noticed(stage: Stage) -> None:
    stage.grant(stage.first, 1, shared=True)
    stage.grant(stage.second, 2)
    assert stage.verdict() == "exclusion"


def test_holds_that_share_stand_beside_each_other(stage: Stage) -> None:
    stage.grant(stage.first, 1, shared=True)
    stage.grant(stage.second, 1, shared=True)
    assert stage.verdict() == ""


def test_a_hold_of_a_dead_process_is_in_no_way(stage: Stage) -> None:
    stage.grant(stage.first, 1)
    stage.first.die()
    stage.grant(stage.second, 2)
    assert stage.verdict() == ""


def test_a_hold_that_ended_and_was_told_is_in_no_way(stage: Stage) -> None:
    held = stage.grant(stage.first, 1)
    held.valid, held.lost.told = False, True
    stage.grant(stage.second, 2)
    assert stage.verdict() == ""


def test_a_hold_that_comes_to_life_again_beside_another_is_noticed(stage: Stage) -> None:
    first = stage.grant(stage.first, 1)
    first.valid, first.lost.told = False, True
    second = stage.grant(stage.second, 2)
    assert stage.verdict() == ""
    first.valid = True
    stage.locks.released(stage.second, cast("Any", second))
    assert stage.verdict() == "exclusion"


def test_a_loss_that_was_not_told_is_noticed(stage: Stage) -> None:
    stage.world.run(20)
    held = stage.grant(stage.first, 1)
    held.valid = False
    stage.grant(stage.second, 2)
    assert stage.verdict() == "told"


def test_a_paused_process_may_hear_of_its_loss_later(stage: Stage) -> None:
    stage.world.run(20)
    held = stage.grant(stage.first, 1)
    stage.first.pause(stage.world.now + 5)
    held.valid = False
    stage.grant(stage.second, 2)
    assert stage.verdict() == ""


@pytest.mark.parametrize("token", [5, 4])
def test_a_token_that_does_not_grow_is_noticed(stage: Stage, token: int) -> None:
    held = stage.grant(stage.first, 5)
    stage.locks.released(stage.first, cast("Any", held))
    stage.grant(stage.second, token)
    assert stage.verdict() == "tokens"


def test_a_release_ends_a_hold(stage: Stage) -> None:
    held = stage.grant(stage.first, 1)
    stage.locks.released(stage.first, cast("Any", held))
    stage.grant(stage.second, 2)
    assert stage.verdict() == ""


def test_overtaking_is_noticed(stage: Stage) -> None:
    order = OrderMonitor(stage.world, apart=0.05)
    order.asked("p", 1.0)
    order.asked("q", 1.04)
    order.asked("r", 1.2)
    order.served("q")
    assert stage.verdict() == ""
    order.served("r")
    assert stage.verdict() == "order"


def test_those_that_share_may_come_in_any_order_and_overtake_no_other(stage: Stage) -> None:
    order = OrderMonitor(stage.world, apart=0.05)
    order.asked("p", 1.0, shared=True)
    order.asked("q", 2.0, shared=True)
    order.asked("r", 3.0)
    order.asked("s", 4.0, shared=True)
    order.served("q")
    order.served("p")
    assert stage.verdict() == ""
    order.served("s")
    assert stage.verdict() == "order"


@pytest.mark.parametrize(
    ("reason", "first_fault", "verdict"),
    [
        ("a frame of 7 bytes; at most 5", 0.0, "accused"),
        ("no handshake in 10 s", 0.0, ""),
        ("no handshake in 10 s", math.inf, "accused"),
        ("TLS: SSL handshake is taking longer than 5.0 seconds: aborting", 0.0, ""),
        ("TLS: SSL handshake is taking longer than 5.0 seconds: aborting", math.inf, "accused"),
    ],
)
def test_a_peer_that_is_accused_is_noticed(
    stage: Stage, reason: str, first_fault: float, verdict: str
) -> None:
    logger = logging.getLogger("coterie.cluster")
    before = logger.level, logger.propagate, list(logger.handlers)
    with AccusationMonitor(stage.world, first_fault):
        logger.warning("connection with %s refused: %s", "n1:5", reason)
    assert stage.verdict() == verdict
    assert (logger.level, logger.propagate, logger.handlers) == before


def test_a_lost_update_is_noticed(stage: Stage) -> None:
    monitor = HistoryMonitor()
    for name in ("T1", "T2"):
        monitor.add(stage.first, name, "begin")
        monitor.add(stage.first, name, "read", "x", None)
    for name in ("T1", "T2"):
        monitor.add(stage.first, name, "write", "x", name)
        monitor.add(stage.first, name, "commit")
    with pytest.raises(ViolationError, match="serializable"):
        monitor.judge()


# Configurations


def configuration(number: int, *, by: str = "", open_: tuple[Rule, ...] = ()) -> Configuration:
    """Return one of three voters, whose disks are called after their seats."""
    members = tuple(Member(seat, f"n{seat}", f"disk {seat}", by) for seat in (1, 2, 3))
    return Configuration(rule(number), members, open=open_)


def rule(number: int) -> Rule:
    return Rule(number, (Part((1, 2, 3), Settings(3)),))


def voter(seat: int, present: Configuration, *, counts_in: int | None = None) -> Voter:
    made = Voter(present, identity=f"disk {seat}")
    if counts_in is not None:
        link = Downlink(SessionName("program", 1, "nonce"), 1)
        link.number = counts_in
        made.sessions["program"] = link
    return made


def test_what_a_voter_has_promised_outlasts_its_end(stage: Stage) -> None:
    before, after = voter(1, configuration(1)), voter(1, configuration(1))
    monitor = ConfigurationMonitor(stage.world)
    before.succession = Succession(Attempt(1, "changer"))
    monitor.kept("n1", before, before, resumed=False)
    monitor.kept("n1", before, voter(1, configuration(2)), resumed=False)
    assert not stage.verdict()
    monitor.kept("n1", before, after, resumed=False)
    assert stage.verdict() == "kept"


def test_only_a_voter_that_goes_on_with_its_sessions_may_abstain_for_less_time(
    stage: Stage,
) -> None:
    before, after = voter(1, configuration(1)), voter(1, configuration(1))
    monitor = ConfigurationMonitor(stage.world)
    before.abstention, after.abstention = 5.0, 3.0
    monitor.kept("n1", before, after, resumed=True)
    assert not stage.verdict()
    monitor.kept("n1", before, after, resumed=False)
    assert stage.verdict() == "kept"


def test_two_decisions_are_noticed_that_no_node_knows_of(stage: Stage) -> None:
    monitor = ConfigurationMonitor(stage.world)
    present = configuration(1)
    monitor.saw("n1", present)
    for seats, by in (((1, 2), "one"), ((3,), "other")):
        for seat in seats:
            accepting = voter(seat, present)
            accepting.succession.accepted = Proposal(Attempt(1, by), configuration(2, by=by))
            monitor.accepted(accepting)
    assert not stage.verdict()
    accepting = voter(2, present)
    accepting.succession.accepted = Proposal(Attempt(1, "other"), configuration(2, by="other"))
    monitor.accepted(accepting)
    assert stage.verdict() == "one decision"


def test_no_quorum_serves_a_number_that_is_over(stage: Stage) -> None:
    monitor = ConfigurationMonitor(stage.world)
    monitor.saw("n1", configuration(1))
    still_open = configuration(2, open_=(rule(1),))
    over = configuration(2)
    monitor.served([voter(seat, still_open, counts_in=1) for seat in (1, 2, 3)])
    monitor.served([voter(1, over, counts_in=1), voter(2, over), voter(3, over)])
    assert not stage.verdict()
    monitor.served([voter(seat, over, counts_in=1) for seat in (1, 2)])
    assert stage.verdict() == "finished"
