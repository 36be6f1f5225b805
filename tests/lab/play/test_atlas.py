"""The atlas agrees with `check`, and every run that can be played within its bound lies on it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from coterie.catalogue import algorithms
from coterie.lab.explore import check
from coterie.lab.explore.budget import Budget
from coterie.lab.play.exploration.atlas import Atlas, build, horizon
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.scope import build as build_processes
from coterie.lab.play.exploration.scope import unexplored
from coterie.lab.scenario.play import Play, begin
from coterie.process import Channel

if TYPE_CHECKING:
    from coterie.lab.scenario.world import Move

ONE_CRASH = Bound(crashes=1)
ENOUGH = Budget(max_states=400_000)  # no limit of time: a busy machine changes nothing


def play_of(line: str, *moves: str) -> Play:
    play = begin(line, clock="none")
    play.start()
    for move in moves:
        play.move(move)
    return play


UNTIMED = [
    (name, variant.name)
    for name, entry in algorithms().items()
    for variant in entry.variants
    if unexplored(begin(f"{name} 3 variant={variant.name}", clock="none")) is None
]
LARGE = {("decentralized", "retry"), ("lamport", "plain"), ("ring", "as-told")}
CASES = [
    pytest.param(*case, marks=[pytest.mark.slow] if case in LARGE else [], id=" ".join(case))
    for case in UNTIMED
]


def allowed(play: Play, atlas: Atlas) -> list[Move]:
    """List the moves within the bound; of a link in order, the explorer loses only the oldest message."""
    moves = [move for move in play.enabled() if atlas.scope.allows(play, move)]
    if play.channel is not Channel.FIFO:
        return moves
    return [x for x in moves if x.kind != "drop" or len(x.text.split()) == 4]


def walk(play: Play, atlas: Atlas, chance: random.Random, length: int) -> int:
    """Play at random within the bound; the state is on the atlas at every step. Count the steps."""
    for step in range(length):
        assert atlas.find(play) is not None, play.world.records
        fate = atlas.look(play)
        assert fate is not None
        moves = allowed(play, atlas)
        if not moves:
            return step
        play.move(chance.choice(moves).text)
        if play.over:
            assert atlas.look(play).word == "broken"  # type: ignore[union-attr]
            return step + 1
    return length


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_atlas_agrees_with_the_check_and_no_walk_leaves_it(name: str, variant: str) -> None:
    play = play_of(f"{name} 3 variant={variant}")
    atlas = build(play, Bound(), ENOUGH)
    verdict = check(build_processes(play))
    fate = atlas.look(play)
    assert fate is not None
    assert atlas.searched.complete
    if verdict.verdict == "verified":
        assert fate.word == "safe"
        assert (atlas.searched.states, atlas.searched.moves) == (
            verdict.states,
            verdict.transitions,
        )
        assert atlas.way(play) is None
    else:
        assert fate.word == "risky"
        way = atlas.way(play)
        assert way is not None
        assert len(way) == verdict.depth
        for text in way:
            play.move(text)
        after = atlas.look(play)
        assert after is not None
        assert (after.word, after.violated) == ("broken", verdict.property)
    chance = random.Random(f"{name} {variant}")
    assert (
        sum(walk(play_of(f"{name} 3 variant={variant}"), atlas, chance, 60) for _ in range(3)) > 9
    )


@pytest.mark.parametrize(
    ("line", "bound"),
    [
        ("maekawa 3", Bound(crashes=1, losses=1)),
        ("token-ring 3", Bound(crashes=1, duplicates=1)),
        ("centralized 3 variant=failover", Bound(crashes=1, suspicions=1)),
        ("bully 2", Bound(crashes=1, suspicions=1)),
        ("lamport 2", Bound(entries=2, losses=1, duplicates=1)),
        ("suzuki-kasami 2 channel=fifo", Bound(entries=2, losses=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_walk_with_faults_leaves_the_atlas(line: str, bound: Bound) -> None:
    atlas = build(play_of(line), bound, ENOUGH)
    assert atlas.searched.complete
    chance = random.Random(line)
    for _ in range(8):
        walk(play_of(line), atlas, chance, 60)


def word(atlas: Atlas, play: Play) -> tuple[str, int | None]:
    fate = atlas.look(play)
    assert fate is not None
    return fate.word, fate.moves


def test_flawed_rules_are_lost_long_before_they_are_stuck() -> None:
    """Three ask at once of a ring of quorums: after that each first delivery decides."""
    play = play_of("maekawa 3 variant=basic")
    atlas = build(play, Bound(), ENOUGH)
    assert atlas.searched.text == "306 states, 612 moves, 1 entry each, no faults: complete"
    assert word(atlas, play) == ("risky", 3)
    play.move("acquire 1")
    play.move("acquire 2")
    fates = dict(
        zip([x.text for x in play.enabled()], atlas.look_ahead(play, play.enabled()), strict=True)
    )
    assert fates["acquire 3"].word == "lost"
    assert fates["acquire 3"].text == ("processes 1, 2 and 3 can never enter; it shows in 3 moves")
    assert fates["deliver 1 > 2"].word in ("risky", "safe")
    assert fates["crash 1"].text == "outside the bound"
    play.move("acquire 3")
    assert word(atlas, play) == ("lost", 3)
    for text in ["deliver 1 > 2", "deliver 2 > 3", "deliver 3 > 1"]:
        play.move(text)
    fate = atlas.look(play)
    assert fate is not None
    assert (fate.word, fate.violated) == ("broken", "no deadlock")
    assert fate.text == "no message or timer is pending; processes 1, 2 and 3 wait forever"


def test_a_wait_that_another_request_may_end_is_stalled_and_not_past_saving() -> None:
    """The request to the holder of the token was lost; when process 3 asks, process 2 is served, too."""
    play = play_of("suzuki-kasami 3", "acquire 2", "drop 2 > 1")
    atlas = build(play, Bound(losses=1), ENOUGH)
    here = atlas.look(play)
    assert here is not None
    assert (here.word, here.moves, here.violated) == ("stalled", 1, "entry stays possible")
    assert here.text == "process 2 can enter only if another user asks; it shows in 1 move"
    play.move("deliver 2 > 3")
    here = atlas.look(play)
    assert here is not None
    assert (here.word, here.violated) == ("broken", "no deadlock")
    assert here.text == (
        "no message or timer is pending;"
        " process 2 is stalled and can enter only if another user asks"
    )
    assert not here.is_final
    moves = [move for move in play.enabled() if move.text == "acquire 3"]
    assert [fate.word for fate in atlas.look_ahead(play, moves)] == ["safe"]


@pytest.mark.parametrize(
    ("line", "bound"),
    [
        ("suzuki-kasami 3", Bound(losses=1)),
        ("suzuki-kasami 3 variant=survey", Bound()),
        ("centralized 3", Bound(crashes=1)),
        ("maekawa 3 variant=survey", Bound()),
        ("naimi-trehel 3", Bound(losses=1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_past_saving_leads_to_states_past_saving_alone(line: str, bound: Bound) -> None:
    """Never means never: what is lost stays so, and no plain move leads back to where all is well."""
    atlas = build(play_of(line), bound, ENOUGH)
    assert atlas.searched.complete
    chance, seen = random.Random(line), 0
    for _ in range(60):
        play = play_of(line)
        while not play.over:
            here = atlas.look(play)
            assert here is not None
            moves = allowed(play, atlas)
            plain = [move for move in moves if not move.is_fault]
            for fate in atlas.look_ahead(play, plain) if here.is_final else []:
                seen += 1
                assert fate.is_final
                assert {*here.processes} <= {*fate.processes} or fate.word == "broken"
            if not moves:
                break
            play.move(chance.choice(moves).text)
    assert seen


def test_what_only_a_fault_can_break_is_fragile() -> None:
    play = play_of("ricart-agrawala 3")
    atlas = build(play, ONE_CRASH, ENOUGH)
    assert word(atlas, play) == ("fragile", 2)
    play.move("acquire 1")
    assert word(atlas, play) == ("fragile", 1)
    play.move("crash 2")
    assert word(atlas, play)[0] == "lost"
    for text in ["deliver 1 > 3", "deliver 3 > 1"]:
        play.move(text)
    assert word(atlas, play)[0] == "broken"


def test_a_doomed_state_has_no_way_out_though_nothing_is_lost_yet() -> None:
    """A request that came twice is answered twice, and no order of arrivals mends that."""
    play = play_of("ricart-agrawala 2 channel=fifo")
    atlas = build(play, Bound(duplicates=1), ENOUGH)
    words = set()
    for number in range(atlas.graph.size):
        near, doomed = atlas.graph.near[number], atlas.graph.doomed[number]
        words.add((bool(near > 0), bool(doomed)))
        assert not (doomed and near < 0)
    assert (True, True) in words
    assert (True, False) in words
    for text in ["acquire 1", "repeat 1 > 2", "deliver 1 > 2", "deliver 2 > 1"]:
        play.move(text)
    assert word(atlas, play)[0] == "doomed"


def test_a_handler_that_raises_is_broken_before_it_is_called() -> None:
    play = play_of("ricart-agrawala 3", "acquire 1", "deliver 1 > 2", "repeat 2 > 1")
    atlas = build(play, Bound(duplicates=1), ENOUGH)
    fates = atlas.look_ahead(play, play.enabled())
    raising = next(
        fate
        for move, fate in zip(play.enabled(), fates, strict=True)
        if move.text == "deliver 2 > 1"
    )
    assert (raising.word, raising.text) == ("broken", "KeyError: 2")
    assert atlas.way(play) == ["deliver 2 > 1"]


def test_beyond_the_bound_the_search_begins_in_the_present_state() -> None:
    play = play_of("maekawa 3 variant=basic")
    atlas = build(play, Bound(), ENOUGH)
    for text in ["acquire 1", "run", "release 1", "run", "acquire 1", "acquire 2"]:
        play.command(text)
    assert atlas.look(play) is None
    here = horizon(play, Bound(), ENOUGH)
    assert here.searched.from_here
    assert here.searched.complete
    assert word(here, play) == ("risky", 1)
    outside = {
        move.text: fate.text
        for move, fate in zip(play.enabled(), here.look_ahead(play, play.enabled()), strict=True)
        if fate.text == "outside the bound"
    }
    assert {"crash 1", "crash 2", "crash 3"} < outside.keys()
    assert here.way(play) is not None


def test_the_horizon_says_how_far_it_sees() -> None:
    play = play_of("ricart-agrawala 4", "acquire 1", "acquire 2")
    here = horizon(play, Bound(), Budget(max_states=2_000))
    assert not here.searched.complete
    fate = here.look(play)
    assert fate is not None
    assert fate.word == "open"
    assert fate.moves is not None
    assert fate.moves >= 3
    assert "ahead, then the search was cut" in here.searched.text
    fragile = play_of("centralized 5", "acquire 2")
    fate = horizon(fragile, Bound(crashes=1), Budget(max_states=400)).look(fragile)
    assert fate is not None
    assert fate.text == (
        "nothing is wrong within 3 moves unless there is another fault; then it goes wrong in 1 move"
    )


def test_a_cut_search_never_says_safe_and_what_it_finds_is_exact() -> None:
    """Every state that a cut search calls wrong, or a number of moves away, is so in the whole."""
    play = play_of("suzuki-kasami 3 variant=survey")
    whole, cut = build(play, Bound(), ENOUGH), build(play, Bound(), Budget(max_states=900))
    assert not cut.searched.complete
    chance = random.Random(7)
    seen = set()
    for _ in range(40):
        play = play_of("suzuki-kasami 3 variant=survey")
        while (found := cut.look(play)) is not None and not play.over:
            exact = whole.look(play)
            assert exact is not None
            seen.add(found.word)
            if found.word in ("broken", "lost", "doomed"):
                assert exact.is_final
            elif found.word == "risky":
                assert exact.word in ("risky", "doomed", "lost")
            moves = [move for move in play.enabled() if whole.scope.allows(play, move)]
            if not moves:
                break
            play.move(chance.choice(moves).text)
    assert {"open", "risky"} <= seen


@pytest.mark.parametrize("name", ["leased", "decentralized"])
def test_where_clocks_are_read_only_safety_is_judged(name: str) -> None:
    play = play_of(f"{name} 2")
    atlas = build(play, ONE_CRASH, ENOUGH)
    assert atlas.searched.safety_only
    assert atlas.searched.text.endswith("safety only, since the clock stands still")
    fate = atlas.look(play)
    assert fate is not None
    assert fate.word == "safe"


def test_a_search_can_be_cancelled() -> None:
    play = play_of("ricart-agrawala 5")
    asked = iter(range(100))
    atlas = build(play, Bound(), Budget(cancelled=lambda: next(asked) == 40))
    assert next(asked) == 41
    assert not atlas.searched.complete
