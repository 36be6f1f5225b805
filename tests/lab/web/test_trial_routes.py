"""The questions of the pages of long runs, asked without a browser: shapes, refusals, bounds."""

from __future__ import annotations

import asyncio
import random
import string
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from coterie.catalogue import find
from coterie.dashboard.guard import Guard
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.simulate import Closed, Simulation
from coterie.lab.web.check import CheckPages
from coterie.lab.web.routes import LabPages
from coterie.lab.web.searches import Searches
from coterie.trace import Header, Trace
from tests.asgi import HOST, Answer, ask

APP = Guard(LabPages(Laboratory()).app(), [HOST])
QUESTIONS = ("simulate", "fork", "measure", "check", "trace/fork")


def post(path: str, question: object, app: Guard = APP) -> Answer:
    body = question if isinstance(question, bytes) else msgspec.json.encode(question)
    headers = {"content-type": "application/json"}
    return ask(app, f"/api/{path}", method="POST", headers=headers, body=body)


def answer(path: str, question: object, app: Guard = APP) -> Any:
    answered = post(path, question, app)
    assert answered.status == 200, answered.body
    return msgspec.json.decode(answered.body)


def test_a_run_is_simulated_and_forked() -> None:
    trial = {"first": "maekawa 4", "entries": 1}
    run = answer("simulate", trial)
    assert run["succeeded"]
    assert run["figures"]["entries"] == 4
    forked = answer("fork", {"trial": trial, "until": run["columns"]["events"]["record"][-1] + 1})
    assert answer("open", {"address": forked["address"]})["first"] == "maekawa 4 variant=eager"


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("simulate", {"first": "fault-tolerant 20 coterie=majority"}),
        ("fork", {"trial": {"first": "fault-tolerant 20 coterie=majority"}, "until": 1}),
        ("measure", {"first": "fault-tolerant 16 coterie=majority"}),
        ("check", {"first": "fault-tolerant 20 coterie=majority"}),
    ],
)
def test_an_algorithm_with_too_many_quorums_for_a_page_is_refused(
    path: str, question: object
) -> None:
    """With 167,960 of them it takes most of a minute to begin, which nothing can stop."""
    assert b"too many quorums to list them all here" in post(path, question).body


def test_a_fault_with_a_very_long_number_is_refused() -> None:
    question = {"first": "maekawa 3", "faults": [f"crash {'1' * 5_000} @ 1"]}
    assert post("simulate", question).status == 400


def test_quorums_that_are_not_listed_may_be_many() -> None:
    assert answer("simulate", {"first": "maekawa 20 coterie=majority", "entries": 1})["succeeded"]


def test_a_check_is_told_line_by_line() -> None:
    lines = post("check", {"first": "maekawa 3 variant=basic"}).body.split(b"\n")
    *_, last = [msgspec.json.decode(line) for line in lines if line]
    assert last["verdict"]["verdict"] == "violated"
    assert last["verdict"]["counterexample"]["address"].startswith("#/run/maekawa%203")


def test_a_check_that_is_asked_again_is_superseded() -> None:
    """The newest question of a page ends the one before, also if that has not begun."""
    pages = CheckPages(Searches())

    async def check(first: str) -> bytes:
        body = msgspec.json.encode({"first": first, "bound": {"entries": 2}})

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        headers = [(b"coterie-page", b"one")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        response: Any = await pages.check(Request(scope, receive))
        return b"".join([part async for part in response.body_iterator])

    async def main() -> list[bytes]:
        older = asyncio.ensure_future(check("lamport 4"))
        await asyncio.sleep(0)  # it has asked
        return list(await asyncio.gather(older, check("token-ring 3")))

    older, newer = asyncio.run(main())
    assert b"superseded" in older
    assert b'"verified"' in newer


@pytest.mark.parametrize("path", QUESTIONS)
def test_whatever_is_asked_is_answered(path: str) -> None:
    dice = random.Random(path)
    for garbage in (b"", b"{", b"\xff", b"[]", b'{"first": 3}', b'{"until": "x"}'):
        assert post(path, garbage).status == 400
    for _ in range(60):
        text = "".join(dice.choices(string.printable, k=dice.randrange(60)))
        number = dice.choice([0, -1, 10**12, 3, 1.5])
        trial = {"first": f"raymond {text}", "entries": number, "latency": text, "faults": [text]}
        question = {"trial": trial, "until": number, **trial, "bound": {"entries": number}}
        assert post(path, question).status in {200, 400}, question


def test_a_trace_is_drawn_if_there_is_one() -> None:
    assert ask(APP, "/api/trace").status == 400
    entry = find("raymond")
    header = Header(algorithm="raymond", size=3)
    simulation = Simulation(entry.build(entry.setup(3)), workload=Closed(2), header=header)
    trace = simulation.run().trace
    assert isinstance(trace, Trace)
    app = Guard(LabPages(Laboratory(), trace).app(), [HOST])
    drawn = msgspec.json.decode(ask(app, "/api/trace").body)
    assert drawn["playable"]
    last = drawn["columns"]["events"]["record"][-1]
    assert answer("trace/fork", {"until": last + 1}, app)["address"].startswith("#/run/raymond")
