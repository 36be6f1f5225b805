"""Processes that are neither mutexes nor elections say what may be called, and what they are judged by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from coterie.catalogue import load
from coterie.cli import run
from coterie.errors import MisuseError
from coterie.lab.explore import Always, Eventually, Sometimes, at_least, at_most, check
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.trials.verdict import CheckQuestion, run_check
from coterie.lab.scenario import perform
from coterie.process import Entered, InputUser, Mutex, Outbox, Process, seat
from tests.harness import broken_class

if TYPE_CHECKING:
    from coterie.process import Seat

PAXOS = str(Path(__file__).parents[3] / "examples" / "paxos.py")


def is_on(seat: Seat) -> bool:
    assert isinstance(seat.process, Lamp)
    return seat.process.on


class Lamp(Process[Any]):
    """Anyone may press its switch."""

    inputs: ClassVar[tuple[str, ...]] = ("press",)

    size: int
    on: bool = False

    def press(self, out: Outbox[Any]) -> None:
        self.on = not self.on


class OneLamp(Lamp):
    properties: ClassVar[tuple[Any, ...]] = (
        Always("darkness", (at_most(1, is_on),), "two lamps are on"),
        Sometimes("three lights", (at_least(3, is_on),)),
    )


class Left(Lamp):
    properties: ClassVar[tuple[Any, ...]] = (Eventually("all light", is_on, "may stay dark"),)


def lamps(kind: type[Lamp], size: int = 2) -> list[Lamp]:
    return [kind(me, size) for me in range(1, size + 1)]


def test_what_the_class_says_is_judged() -> None:
    verdict = check(lamps(OneLamp))
    assert (verdict.verdict, verdict.property) == ("violated", "darkness")
    assert verdict.reason == "two lamps are on: processes 1 and 2"
    assert check(lamps(OneLamp, 1)).sometimes == {"three lights": False}


def test_a_user_need_not_call_so_that_nothing_comes_by_itself() -> None:
    verdict = check(lamps(Left))
    assert verdict.verdict == "violated"
    assert "processes 1 and 2 are stalled" in verdict.reason


def test_without_properties_nothing_is_shown() -> None:
    verdict = check(lamps(Lamp))
    assert verdict.verdict == "vacuous"
    assert "no property says what these processes should do" in verdict.reason


def test_properties_that_are_given_take_the_place_of_those_of_the_class() -> None:
    assert check(lamps(OneLamp), properties=[Sometimes("light", (at_least(1, is_on),))]).sometimes


def test_a_mutex_is_judged_by_its_own_beside_what_all_promise() -> None:
    class Careless(Mutex[Any]):
        properties: ClassVar[tuple[Any, ...]] = (
            Always("peace", (at_most(0, lambda seat: seat.process.me == 2),), "there is a second"),
        )
        size: int

        def acquire(self, out: Outbox[Any]) -> None:
            out.tell(Entered())

        def release(self, out: Outbox[Any]) -> None:
            pass

    verdict = check([Careless(1, 2), Careless(2, 2)])
    assert (verdict.property, verdict.depth) == ("peace", 0)
    assert check([Careless(1, 1)]).verdict == "vacuous", "it never waits"


def test_a_caller_makes_so_many_calls_and_no_others() -> None:
    lamp = seat(Lamp(1, 1), entries=1)
    assert isinstance(lamp.user, InputUser)
    with pytest.raises(MisuseError, match="cannot switch"):
        lamp.call("switch", Outbox(1))
    lamp.call("press", Outbox(1))
    assert is_on(lamp)
    assert lamp.user.calls() == ()


LAMPS = """
from typing import Any, ClassVar

from coterie.lab.explore import Eventually
from coterie.process import Outbox, Process


def is_on(seat: Any) -> bool:
    return seat.process.on


class Lamp(Process[Any]):
    inputs: ClassVar[tuple[str, ...]] = ("press",)
    properties: ClassVar[tuple[Any, ...]] = (Eventually("all light", is_on, "may stay dark"),)
    size: int
    on: bool = False

    def press(self, out: Outbox[Any]) -> None:
        self.on = not self.on
"""


def test_the_page_of_checks_names_the_command_that_is_typed() -> None:
    load(PAXOS)
    found = run_check(CheckQuestion(f"{PAXOS} 2"), lambda _: None)
    assert found.command == f"coterie check {PAXOS} -N 2"


def test_in_the_laboratory_what_comes_in_the_end_is_left_to_check(tmp_path: Path) -> None:
    (tmp_path / "lamps.py").write_text(LAMPS, encoding="utf-8")
    name = load(str(tmp_path / "lamps.py")).name
    position = Laboratory().play(Question(f"{name} 2", []))
    left = next(item for item in position.properties if item.name == "all light")
    assert (left.holds, left.text, left.by_check) == (None, "Check decides it", True)


# Paxos, as an author has it


def test_the_command_reads_inputs_and_properties_from_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["check", PAXOS, "-N", "2"]) == 0
    shown = capsys.readouterr().out
    assert "N = 2: verified. Every property holds in all 87 reachable states." in shown
    assert "  seen: one gives way\n" in shown
    assert run(["check", PAXOS, "-N", "1"]) == 0
    assert "  never seen: one gives way\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max(votes).value if votes else self.me", "self.me"),
        ("self.promised is None or self.promised <= vote.attempt", "True"),
        ("Promise(attempt, self.latest)", "Promise(attempt, None)"),
    ],
)
def test_a_wrong_paxos_chooses_two_values(old: str, new: str) -> None:
    wrong = broken_class(load(PAXOS).process, old, new)
    verdict = check([wrong(me=me, size=2) for me in (1, 2)])  # type: ignore[call-arg]
    assert (verdict.verdict, verdict.property) == ("violated", "agreement")


def test_it_survives_losses_duplicates_and_a_crash() -> None:
    processes = load(PAXOS).process
    seats = [processes(me=me, size=2) for me in (1, 2)]  # type: ignore[call-arg]
    assert check(seats, losses=1, duplicates=1, crashes=1).verdict == "verified"


def test_it_is_played_by_hand() -> None:
    load(PAXOS)
    played = perform(f"{PAXOS} 2\npropose 1\ndeliver 1 > 2\ndeliver 2 > 1\n")
    assert "1 > 2  Accept(1 in 1.1)" in played.transcript
    laboratory = Laboratory()
    position = laboratory.play(Question(f"{PAXOS} 2", ["propose 1"]))
    assert {item.name: (item.holds, item.text) for item in position.properties} == {
        "agreement": (True, ""),
        "a choice": (None, "not in this state; Check says whether in any"),
        "one gives way": (None, "not in this state; Check says whether in any"),
        "no error": (True, ""),
    }
    chosen = laboratory.play(Question(f"{PAXOS} 2", ["propose 1", "run"]))
    assert ("a choice", True, "seen here") in [(x.name, x.holds, x.text) for x in chosen.properties]
    drawn = laboratory.map(Question(f"{PAXOS} 2", []))
    assert drawn.properties == ["agreement", "no error"], "a file judges what one run can tell"
    entry = next(each for each in laboratory.catalogue() if each.name == PAXOS)
    assert entry.calls == ["propose"]
