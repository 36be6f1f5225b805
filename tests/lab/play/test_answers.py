"""The answers that a page is given about a run."""

from __future__ import annotations

import msgspec
import pytest

from coterie.catalogue import Variant, algorithms, every_algorithm
from coterie.lab.explore import check
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.scope import build
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Fates, Position, Question
from coterie.lab.play.runs.address import RunAddress, read_address
from coterie.lab.play.runs.refusal import Refusal, Superseded
from coterie.lab.scenario import from_trace
from coterie.lab.scenario.play import begin

BASIC = "maekawa 3 variant=basic"
DEADLOCK = ["acquire 1", "acquire 2", "acquire 3", "run"]
ENOUGH = 600_000  # milliseconds: small systems take some twenty, and a busy machine changes nothing


def play(*args: object, **options: object) -> Position:
    return Laboratory(ENOUGH).play(msgspec.convert({**options, **_named(args)}, Question))


def fates(*args: object, **options: object) -> Fates:
    given = {"budget_ms": ENOUGH, **options, **_named(args)}
    return Laboratory(ENOUGH).fates(msgspec.convert(given, Question))


def _named(args: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(("first", "moves", "cursor"), args, strict=False))


def test_a_position_shows_the_run_and_the_place_in_it() -> None:
    position = play(BASIC, DEADLOCK, 4)
    assert position.moves[3:] == ["deliver 1 > 2", "deliver 2 > 3", "deliver 3 > 1"]
    assert position.address == "#/run/maekawa%203%20variant=basic/a1/a2/a3/d1.2/d2.3/d3.1@4"
    assert [step.number for step in position.steps] == list(range(7))
    assert [(x.sender, x.receiver, x.label) for x in position.transit] == [
        (2, 3, "Request(1.2)"),
        (3, 1, "Request(1.3)"),
    ]
    assert [state.phase for state in position.states] == ["waiting"] * 3
    second = position.states[1]
    assert second.fields["queue"] == ["1.1"]
    assert second.changed == ["queue"]
    assert position.states[0].changed == []
    assert {move.text: move.code for move in position.enabled if not move.fault} == {
        "deliver 2 > 3": "d2.3",
        "deliver 3 > 1": "d3.1",
    }
    assert [record["kind"] for record in msgspec.to_builtins(position.steps[1].records)] == [
        "called",
        "sent",
    ]


def test_steps_that_are_known_are_not_sent_again() -> None:
    position = play(BASIC, DEADLOCK, known=5)
    assert [step.number for step in position.steps] == [5, 6]


def test_a_move_that_cannot_be_played_leaves_the_run_before_it() -> None:
    position = play(BASIC, ["acquire 1", "release 1", "acquire 2"])
    assert position.moves == ["acquire 1"]
    assert position.refusal is not None
    assert position.refusal.at == 1
    assert "acquire 2" in position.refusal.possible


def test_a_move_is_understood_as_people_write_it() -> None:
    moves = ["acquire 1", "deliver  1 > 2 Request", "acquire 02"]
    assert play(BASIC, moves).moves == ["acquire 1", "deliver 1 > 2", "acquire 2"]


def test_the_run_may_be_reviewed() -> None:
    answer = fates(BASIC, DEADLOCK)
    assert [fate and fate.word for fate in answer.history] == ["risky"] * 3 + ["lost"] * 3 + [
        "broken"
    ]
    assert answer.no_return == 3
    assert answer.blunder is not None
    assert answer.blunder.text == ("move 3 was the blunder: acquire 3; deliver 2 > 3 kept it safe")
    better = fates(BASIC, ["acquire 1", "acquire 2", answer.blunder.better])
    assert better.here is not None
    assert better.here.word == "safe"
    assert better.no_return is None
    assert better.blunder is None


def test_the_properties_are_judged_where_the_reader_stands() -> None:
    judged = {item.name: item.holds for item in play(BASIC, DEADLOCK).properties}
    assert judged == {"mutual exclusion": True, "entry stays possible": None, "no error": True}
    judged = {item.name: item.holds for item in fates(BASIC, DEADLOCK).properties}
    assert judged == {"mutual exclusion": True, "entry stays possible": False, "no error": True}
    judged = {item.name: item.holds for item in fates(BASIC, []).properties}
    assert judged["entry stays possible"] is True
    twice = ["acquire 1", "deliver 1 > 2", "repeat 2 > 1", "deliver 2 > 1"]
    judged = {item.name: item.holds for item in fates("ricart-agrawala 3", twice).properties}
    assert judged == {"mutual exclusion": True, "entry stays possible": None, "no error": False}


FLAWED = [
    pytest.param(name, variant, id=f"{name} {variant.name}")
    for name, entry in algorithms().items()
    for variant in entry.variants
    if variant.flaw is not None and name != "fault-tolerant" and variant.flaw.size < 4
]


@pytest.mark.parametrize(("name", "variant"), FLAWED)
def test_the_shortest_violation_of_a_flawed_variant_is_found(name: str, variant: Variant) -> None:
    flaw = variant.flaw
    assert flaw is not None
    choices = " ".join(f"{key}={value}" for key, value in flaw.parameters.items())
    first = f"{name} {flaw.size} variant={variant.name} {choices}".strip()
    bound = Bound(flaw.entries, flaw.crashes)
    lab = Laboratory(ENOUGH)
    way = lab.way(Question(first, bound=bound, budget_ms=ENOUGH))
    assert way.moves is not None
    assert way.address is not None
    assert len(way.moves) == flaw.steps
    address = read_address(way.address)
    assert address == RunAddress(first, way.moves, flaw.steps)
    answer = lab.fates(Question(first, way.moves, bound=bound, budget_ms=ENOUGH))
    assert answer.here is not None
    assert answer.here.word in ("broken", "lost")
    assert answer.no_return is not None
    assert answer.no_return <= flaw.steps


def test_a_counterexample_of_the_explorer_opens_as_a_run() -> None:
    processes = build(begin(BASIC))
    verdict = check(processes, header=begin(BASIC).header)
    assert verdict.counterexample is not None
    first, *lines = from_trace(verdict.counterexample).splitlines()
    moves = [line for line in lines if not line.startswith((" ", "#")) and line != "show"]
    position = play(first, moves)
    assert position.refusal is None
    assert len(position.moves) == verdict.depth


def test_an_algorithm_that_relies_on_time_is_playable_and_says_what_is_missing() -> None:
    position = play("fault-tolerant 3", ["acquire 1", "run"])
    assert position.states[0].phase == "inside"
    assert "relies on bounds of time" in position.notes[0]
    answer = fates("fault-tolerant 3", ["acquire 1", "run"])
    assert answer.here is not None
    assert answer.here.text.startswith("within the bounds of time")
    assert answer.searched.text == "nothing was searched"


def test_where_clocks_are_read_progress_is_not_judged() -> None:
    answer = fates("leased 2", ["acquire 1"], bound={"crashes": 1})
    assert {item.name: item.holds for item in answer.properties} == {
        "mutual exclusion": True,
        "entry stays possible": None,
        "no error": True,
    }
    assert "reads a clock" in play("leased 2").notes[0]
    assert fates("leased 2 clock=time").here is None


def test_a_large_system_is_searched_from_where_the_reader_stands() -> None:
    answer = fates("ricart-agrawala 5", ["acquire 1"], budget_ms=40)
    assert answer.searched.from_here
    assert answer.here is not None
    assert answer.here.word == "open"
    assert answer.history == []
    assert {fate.word for fate in answer.moves.values()} == {"open"}


def test_a_larger_budget_is_a_new_chance_for_the_whole_atlas() -> None:
    lab = Laboratory(ENOUGH)
    words = []
    for budget_ms in (0, 0, ENOUGH, 0):
        answer = lab.fates(Question(BASIC, budget_ms=budget_ms))
        words.append((answer.searched.from_here, answer.searched.complete))
    assert words[2:] == [(False, True)] * 2
    assert words[0][0]


def test_a_run_that_leaves_the_bound_keeps_its_history() -> None:
    """A crash that was not to be expected is no part of the atlas, and yet where it led is known."""
    answer = fates("ricart-agrawala 3", ["acquire 1", "crash 3", "deliver 1 > 2"])
    assert [fate and fate.word for fate in answer.history] == ["safe", "safe", None, "lost"]
    assert answer.searched.from_here
    assert answer.no_return is None  # it was after the crash, and of that nothing is known
    assert answer.blunder is None


def test_a_question_out_of_range_is_refused() -> None:
    lab = Laboratory(ENOUGH)
    for question in [
        Question("ricart-agrawala 10"),
        Question("nothing 3"),
        Question("maekawa 3 coterie=nothing"),
        Question("maekawa 3", ["acquire 1"] * 2001),
        Question("maekawa 3", ["acquire " + "1" * 70_000]),
        Question("maekawa 3 variant=" + "b" * 70_000),
    ]:
        for ask in (lab.play, lab.fates, lab.way):
            with pytest.raises(Refusal):
                ask(question)
    for bound in [Bound(entries=10), Bound(entries=-1), Bound(crashes=5), Bound(losses=-1)]:
        with pytest.raises(Refusal, match="must be between 0 and"):
            lab.fates(Question("maekawa 3", bound=bound))
        assert lab.play(Question("maekawa 3", bound=bound)).moves == []


def test_an_endless_run_ends_at_the_limit() -> None:
    rounds = ["acquire 1", "run", "release 1"] * 400
    position = play("ricart-agrawala 3", rounds)
    assert len(position.moves) == 2_000
    assert position.refusal is not None
    assert position.refusal.error == "a run has at most 2,000 moves"


def test_a_search_that_is_superseded_says_so_and_is_forgotten() -> None:
    lab = Laboratory(ENOUGH)
    question = Question("ricart-agrawala 3", budget_ms=ENOUGH)
    with pytest.raises(Superseded):
        lab.fates(question, lambda: True)
    answer = lab.fates(question)
    assert answer.searched.complete


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    lab = Laboratory(ENOUGH)
    moves: list[str] = []
    for move in ["acquire 1", "acquire 2", "deliver 1 > 2", "deliver 2 > 1", "crash 2"]:
        moves.append(move)
        for cursor in (None, len(moves) // 2):
            question = Question("ricart-agrawala 2", [*moves], cursor, budget_ms=ENOUGH)
            other = Laboratory(ENOUGH)
            assert lab.play(question) == other.play(question)
            assert lab.fates(question) == other.fates(question)


def test_the_catalogue_lists_every_algorithm() -> None:
    entries = {entry.name: entry for entry in Laboratory(ENOUGH).catalogue()}
    assert list(entries) == list(every_algorithm())
    assert entries["fault-tolerant"].timed
    assert entries["leased"].reads_clock
    assert entries["bully"].calls == ["elect"]
    flaw = entries["maekawa"].variants[-1].flaw
    assert flaw is not None
    assert flaw.moves == 6
    assert msgspec.json.encode(list(entries.values()))
