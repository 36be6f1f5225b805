"""The questions of the laboratory's pages, asked without a browser: shapes, refusals, bounds."""

from __future__ import annotations

import asyncio
import random
import string
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.catalogue import every_algorithm
from coterie.dashboard.guard import Guard
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.web.routes import LabPages
from coterie.lab.web.searches import Searches
from tests.asgi import HOST, Answer, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.play.questions import Position, Question

APP = Guard(LabPages(Laboratory()).app(), [HOST])
BASIC = "maekawa 3 variant=basic"
ASKED = ["acquire 1", "acquire 2", "acquire 3"]


def post(path: str, question: object, app: Guard = APP) -> Answer:
    body = question if isinstance(question, bytes) else msgspec.json.encode(question)
    headers = {"content-type": "application/json"}
    return ask(app, f"/api/{path}", method="POST", headers=headers, body=body)


def answer(path: str, question: object) -> Any:
    answered = post(path, question)
    assert answered.status == 200, answered.body
    return msgspec.json.decode(answered.body)


def test_the_catalogue_has_every_algorithm() -> None:
    answered = ask(APP, "/api/catalogue")
    assert {entry["name"] for entry in msgspec.json.decode(answered.body)} == set(every_algorithm())


def test_a_run_is_played_and_an_address_opens_the_same_run() -> None:
    position = answer("play", {"first": BASIC, "moves": ASKED})
    assert [move["text"] for move in position["enabled"] if not move["fault"]] == [
        "deliver 1 > 2",
        "deliver 2 > 3",
        "deliver 3 > 1",
    ]
    opened = answer("open", {"address": position["address"]})
    assert opened == {"first": BASIC, "moves": ASKED, "cursor": 3, "bounds": {}}


def test_fates_name_the_point_of_no_return_and_the_blunder() -> None:
    fates = answer("fates", {"first": BASIC, "moves": ASKED})
    assert fates["here"]["word"] == "lost"
    assert fates["no_return"] == 3
    assert fates["blunder"]["move"] == "acquire 3"


def test_the_shortest_violation_is_found_from_the_start_and_from_here() -> None:
    assert len(answer("way", {"first": BASIC})["moves"]) == 6
    assert len(answer("way", {"first": BASIC, "moves": ASKED})["moves"]) == 3
    assert answer("way", {"first": "maekawa 3"})["moves"] is None


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("play", b"{"),
        ("play", b"\xff"),
        ("play", {}),
        ("play", {"first": 3}),
        ("play", {"first": "nonsense 3"}),
        ("play", {"first": "maekawa 99"}),
        ("play", {"first": "maekawa 3", "moves": ["acquire 1"] * 2001}),
        ("fates", {"first": "maekawa 3", "bound": {"entries": 1000}}),
        ("way", {"first": ""}),
        ("open", {"address": "#/elsewhere"}),
        ("graph", {"text": "{"}),
        ("graph", {"text": '{"P": {"any": 3}}'}),
        ("graph", {"text": '{"P": {"of": ' + "1" * 5_000 + ', "from": ["Q"]}}'}),
        ("goal", {"lesson": "nothing", "page": 0, "question": {"first": BASIC}}),
        ("export", {"first": "maekawa 3", "form": "exe"}),
        ("export", {"first": "maekawa 3", "form": "svg", "moves": ["fly 1"]}),
    ],
)
def test_a_bad_question_is_refused_with_a_reason(path: str, question: object) -> None:
    answered = post(path, question)
    assert answered.status == 400
    assert msgspec.json.decode(answered.body)["error"]


def test_a_refused_move_is_named_with_the_moves_that_are_possible_there() -> None:
    """A run is played up to such a move; a file of it is refused."""
    question = {"first": "lamport 2", "moves": ["acquire 1", "fly 1"]}
    refusal = answer("play", question)["refusal"]
    assert refusal["error"].startswith("cannot 'fly 1' here")
    assert refusal["at"] == 1
    assert "deliver 1 > 2" in refusal["possible"]
    exported = post("export", {**question, "form": "svg"})
    assert (exported.status, msgspec.json.decode(exported.body)) == (400, refusal)


def test_any_address_is_answered_and_never_with_an_error_of_ours() -> None:
    chance = random.Random(7)
    letters = string.printable + "äß→\0"
    for _ in range(300):
        text = "".join(chance.choices(letters, k=chance.randrange(2000)))
        for start in ("", "#/run/", "#/run/maekawa%203/", "#/z/"):
            assert post("open", {"address": start + text}).status in {200, 400}


@pytest.mark.parametrize("path", ["graph", "history", "coterie", "challenge", "hint", "answer"])
def test_any_text_of_an_editor_is_answered_and_never_with_an_error_of_ours(path: str) -> None:
    chance = random.Random(path)
    for letters in (string.printable + "äß→\0", "0123456789, ", '{}[]":,P1 ', "rwca123(xy) "):
        for _ in range(12):
            text = "".join(chance.choices(letters, k=chance.choice([1, 20, 200, 2000])))
            question = {
                "graph": {"text": text},
                "history": {"text": text},
                "coterie": {"text": text},
                "answer": {"lesson": "server", "page": 0, "ask": 0, "answer": text},
            }.get(path, {"name": "deadlock", "moves": [text, "acquire 1"]})
            assert post(path, question).status in {200, 400}


def test_challenges_are_listed_scored_and_hinted_at() -> None:
    listed = msgspec.json.decode(ask(APP, "/api/challenges").body)
    assert listed[1]["name"] == "deadlock"
    assert answer("hint", {"name": "deadlock", "moves": ASKED})[0] == "deliver 1 > 2"
    score = answer("challenge", {"name": "deadlock", "moves": ASKED})
    assert (score["reached"], score["shortest"]) == (False, 6)


@pytest.mark.parametrize(
    ("form", "kind", "content"),
    [
        ("scenario", "text/plain", b"acquire 1"),
        ("svg", "image/svg+xml", b"<svg"),
        ("jsonl", "application/jsonl", b'"kind"'),
        ("html", "text/html", b'"places"'),
    ],
)
def test_a_run_is_saved_in_each_form(form: str, kind: str, content: bytes) -> None:
    saved = post("export", {"first": BASIC, "moves": ASKED, "form": form})
    assert saved.status == 200
    assert saved.headers["content-type"].startswith(kind)
    assert 'filename="maekawa-3.' in saved.headers["content-disposition"]
    assert content in saved.body


def test_all_runs_are_saved_unless_they_are_too_many() -> None:
    saved = post("export", {"first": BASIC, "form": "map"})
    assert 'filename="maekawa-3-map.html"' in saved.headers["content-disposition"]
    assert post("export", {"first": "ricart-agrawala 9", "form": "map"}).status == 400


def test_lessons_are_listed_and_their_goals_judged() -> None:
    listed = msgspec.json.decode(ask(APP, "/api/lessons").body)
    assert "maekawa" in [lesson["name"] for lesson in listed]
    question = {"first": BASIC, "moves": ASKED}
    assert answer("goal", {"lesson": "maekawa", "page": 1, "question": question})["reached"]


def test_a_graph_is_judged_and_drawn() -> None:
    found = answer("graph", {"text": '{"P": "Q", "Q": "P", "R": {"any": ["P", "S"]}}'})
    assert [(node["name"], node["state"]) for node in found["nodes"]] == [
        ("P", "deadlocked"),
        ("Q", "deadlocked"),
        ("R", "waits"),
        ("S", "runs"),
    ]
    assert [reason["kind"] for reason in found["reasons"]] == ["cycle"]
    assert found["svg"].startswith("<svg")


def test_a_newer_search_ends_the_older_and_those_that_wait_never_begin() -> None:
    searches = Searches()
    begun, begins = [], threading.Event()

    def search(name: str) -> Callable[[Callable[[], bool]], str]:
        def run(cancelled: Callable[[], bool]) -> str:
            begun.append((name, cancelled()))
            begins.set()
            while name == "first" and not cancelled():
                pass
            return name

        return run

    async def main() -> list[str]:
        first = asyncio.create_task(searches.run("a", search("first")))
        await asyncio.to_thread(begins.wait)
        other = asyncio.create_task(searches.run("b", search("of another page")))
        second = asyncio.create_task(searches.run("a", search("second")))
        third = asyncio.create_task(searches.run("a", search("third")))
        return list(await asyncio.gather(first, other, second, third))

    assert asyncio.run(main()) == ["first", "of another page", "second", "third"]
    assert begun == [
        ("first", False),
        ("of another page", False),
        ("second", True),
        ("third", False),
    ]
    searches.close()
    assert asyncio.run(searches.run("a", lambda cancelled: cancelled()))


def test_the_event_loop_plays_no_run() -> None:
    """A run that takes long to begin would freeze every page."""
    threads = []

    class Watched(Laboratory):
        def play(self, question: Question) -> Position:
            threads.append(threading.current_thread())
            return super().play(question)

    app = Guard(LabPages(Watched()).app(), [HOST])
    assert post("play", {"first": BASIC}, app).status == 200
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("path", ["challenge", "hint"])
def test_the_end_of_the_program_ends_what_is_judged(path: str) -> None:
    pages = LabPages(Laboratory())
    pages.close()
    app = Guard(pages.app(), [HOST])
    assert post(path, {"name": "deadlock", "moves": ASKED}, app).status == 409


def test_the_pages_first_visit_fits_its_budget() -> None:
    names = ["lab.html", "lab.css", "lab.js", "lab/run.js", "lab/picture.js", "lab/panels.js"]
    names += ["lab/lesson.js", "lab/challenge.js", "lab/editor.js", "exercise.css", "drawing.css"]
    names += ["tokens.css", "style.css", "ui.js", "icon.svg"]
    names += [f"vendor/{name}.js" for name in ("preact", "hooks", "htm", "signals", "signals-core")]
    sizes = [len(ask(APP, f"/assets/{name}").body) for name in names]
    assert all(sizes)
    assert sum(sizes) <= 200_000
