"""The source of a step: the handlers that it called, and the lines that it executed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question

if TYPE_CHECKING:
    from coterie.lab.play.runs.code import Handler

FIRST = "ricart-agrawala 2"


def executed(handler: Handler) -> list[str]:
    return [line.text.strip() for line in handler.lines if line.ran]


def code(*moves: str, cursor: int | None = None) -> list[Handler]:
    return Laboratory().code(Question(FIRST, list(moves), cursor))


def test_a_call_shows_its_handler_and_what_that_calls() -> None:
    handlers = code("acquire 1")
    assert handlers[0].name == "RicartAgrawala.acquire"
    assert any("out.broadcast" in text for text in executed(handlers[0]))
    assert handlers[0].lines[0].text.startswith("def acquire")


def test_of_a_delivery_only_the_branch_that_was_taken_is_marked() -> None:
    moves = ("acquire 1", "deliver 1 > 2", "deliver 2 > 1")
    (reply,), (request,) = code(*moves), code(*moves, cursor=2)
    assert reply.name == request.name == "RicartAgrawala.receive"
    assert executed(reply)[-1] == "out.tell(Entered())"
    assert executed(request)[-1] == "out.send(sender, Reply())"


@pytest.mark.parametrize(("moves", "cursor"), [([], None), (["acquire 1"], 0), (["crash 1"], None)])
def test_what_calls_no_handler_has_no_code(moves: list[str], cursor: int | None) -> None:
    assert code(*moves, cursor=cursor) == []


def test_what_traces_this_thread_goes_on_to() -> None:
    before = sys.gettrace()
    code("acquire 1")
    assert sys.gettrace() is before
