"""A play by hand: what is possible, refusals, and forks that know nothing of each other."""

from __future__ import annotations

import random

import pytest

from coterie.algorithms.mutex.quorum.maekawa.messages import Request
from coterie.catalogue import algorithms
from coterie.clocks import Stamp
from coterie.errors import UsageError
from coterie.lab.scenario import from_trace, perform
from coterie.lab.scenario.play import Play, begin
from coterie.process import Phase, encode, plain
from coterie.trace import Trace

VARIANTS = [(name, v.name) for name, entry in algorithms().items() for v in entry.variants]


def started(line: str) -> Play:
    play = begin(line)
    play.start()
    return play


def state(play: Play) -> object:
    """All that a play consists of, as a value."""
    world = play.world
    seats = [(encode(seat.process), encode(seat.user)) for seat in world.seats.values()]
    timers = {me: dict(timers) for me, timers in world.timers.items()}
    watched = {me: set(peers) for me, peers in world.watched.items()}
    tallies = dict(play.asked), dict(play.spent), play.time, play.over
    return (
        seats,
        list(world.transit),
        timers,
        watched,
        set(world.crashed),
        tallies,
        world.records[:],
    )


def candidates(play: Play) -> set[str]:
    """Every command that could make sense, and many that do not."""
    ids = play.world.seats
    texts = {f"{verb} {me}" for verb in ("acquire", "release", "elect") for me in ids}
    texts |= {f"{verb} {me}" for verb in ("crash", "restart") for me in ids}
    pairs = [(a, b) for a in ids for b in ids]
    texts |= {f"{verb} {a} {b}" for verb in ("down", "suspect") for a, b in pairs}
    verbs = ("deliver", "repeat", "drop")
    texts |= {f"{verb} {a} > {b}" for verb in verbs for a, b in pairs}
    timers = {timer for armed in play.world.timers.values() for timer in armed} | {"NONE"}
    return texts | {f"ring {me} {timer}" for me in ids for timer in timers}


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_what_is_enabled_is_what_is_accepted(name: str, variant: str) -> None:
    """On a random walk; and a refused move, like a fork, leaves everything as it was."""
    chance = random.Random(f"{name} {variant}")
    play = started(f"{name} 3 variant={variant}")
    for _ in range(12):
        before = state(play)
        moves = play.enabled()
        texts = {move.text for move in moves}
        assert len(texts) == len(moves)
        for move in moves:
            play.fork().move(move.text)
        for text in candidates(play) - texts:
            with pytest.raises(UsageError):
                play.move(text)
        assert state(play) == before
        if not moves:
            break
        quiet = [move for move in moves if not move.is_fault]
        play.move(chance.choice(quiet or moves if chance.random() < 0.8 else moves).text)


def test_messages_of_one_link_are_told_apart_where_links_may_reorder() -> None:
    play = started("ricart-agrawala 2")
    for line in ["acquire 1", "run", "acquire 2", "run", "release 1", "acquire 1"]:
        play.command(line)
    texts = [move.text for move in play.enabled() if move.kind == "deliver"]
    assert texts == ["deliver 1 > 2", "deliver 1 > 2 Request"]
    play = started("ricart-agrawala 2 channel=fifo")
    for line in ["acquire 1", "run", "acquire 2", "run", "release 1", "acquire 1"]:
        play.command(line)
    assert [x.text for x in play.enabled() if x.kind == "deliver"] == ["deliver 1 > 2"]
    assert "drop 1 > 2 Request" in [move.text for move in play.enabled()]


def test_asking_and_faults_are_counted() -> None:
    play = started("ricart-agrawala 3")
    for text in ["acquire 1", "repeat 1 > 2", "crash 3", "drop 1 > 3", "drop 1 > 2", "restart 3"]:
        play.move(text)
    assert play.asked == {1: 1}
    assert {fault: count for fault, count in play.spent.items() if count} == {
        "repeat": 1,
        "crash": 1,
        "drop": 1,
        "restart": 1,
    }


def test_the_oldest_delivery_is_what_run_does_first() -> None:
    play = started("ricart-agrawala 3")
    play.move("acquire 2")
    other = play.fork()
    moves = []
    while (move := play.next_delivery()) is not None:
        play.move(move.text)
        moves.append(move.text)
    other.command("run")
    assert other.world.records == play.world.records
    assert moves[0] == "deliver 2 > 1"


def test_a_clock_that_stands_still_is_chosen_in_the_first_line() -> None:
    assert begin("leased 3").header.clock == "time"
    assert begin("leased 3 clock=none").header.clock == "none"
    assert begin("leased 3", clock="none").header.clock == "none"
    assert begin("leased 3 clock=time", clock="none").header.clock == "time"
    with pytest.raises(UsageError, match="unknown clock: 'sun'"):
        begin("leased 3 clock=sun")


def test_the_scenario_of_a_run_without_clock_says_so_where_clocks_are_read() -> None:
    play = started("leased 3 clock=none")
    play.move("acquire 1")
    scenario = from_trace(Trace(play.header, play.world.records))
    assert scenario.startswith("leased 3 clock=none\n")
    assert perform(scenario).trace.header.clock == "none"


@pytest.mark.parametrize("line", ["lamport 'x", "lamport " + "9" * 5000, "", "\N{SUPERSCRIPT TWO}"])
def test_a_first_line_that_makes_no_sense_is_a_usage_error(line: str) -> None:
    with pytest.raises(UsageError):
        begin(line)


def test_a_state_is_shown_by_the_names_of_its_fields() -> None:
    play = started("maekawa 3")
    play.move("acquire 2")
    process = plain(play.world.seats[2].process)
    assert process["stamp"] == "1.2"
    assert process["locked"] == [2]
    assert process["owner"] == "1.2"
    assert process["queue"] == []
    assert plain(Request(Stamp(1, 2))) == {"stamp": "1.2"}
    assert plain([Phase.INSIDE, {1: {3, 2}}, float("inf"), b"\x01", None, True, 0.5]) == [
        "inside",
        {"1": [2, 3]},
        "inf",
        "01",
        None,
        True,
        0.5,
    ]
