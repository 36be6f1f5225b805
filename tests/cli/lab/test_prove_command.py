"""`coterie prove`, as a user types it: proved, refuted, vacuous, and files of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli import run

PAXOS = Path(__file__).parents[3] / "examples" / "paxos.py"
PAGE = """
from coterie.lab.prove import Page, Thing, when

PAGE = page = Page("lamp")


class Lamp(Thing):
    pass


on = page.relation("on", Lamp)


@page.start
def all_are_off(x: Lamp):
    return ~on(x)


@page.action
def switch(x: Lamp):
    when(~on(x))
    on[x] = True


@page.safety
def {promise}
"""
AT_MOST_ONE = "at_most_one(x: Lamp, y: Lamp):\n    return (on(x) & on(y)) >> (x == y)\n"
NEVER = "never(x: Lamp):\n    return ~on(x)\n\n\npage.actions.clear()\n"
SLIP = "slip(x: Lamp):\n    return on(x) and on(x)\n"
HELPER = "helped(x: Lamp):\n    return on(x)\n\n\ndef let(x):\n    return on(x) >> on(x) & on(x)\n"
DEAD = "never(x: Lamp):\n    return on(x) >> ~on(x)\n\n\n@page.action\ndef idle(x: Lamp):\n    when(on(x))\n"

WITHOUT_Z3 = """
import sys
sys.modules["z3"] = None
from coterie.cli import main
sys.exit(main())
"""


def test_a_proved_page_says_what_was_shown_and_how_far_the_code_was_held_against_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["prove", "centralized"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "centralized, for every N: proved. 6 clauses, kept by 6 actions.",
        "  mutual exclusion, no deadlock",
        "  27 obligations",
    ]
    assert lines[3] == "  the code follows it:"
    assert "    silent, N = 2: 71 states, 112 steps, all" in lines


def test_a_page_without_a_link_proves_the_specification_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lamp.py"
    path.write_text(PAGE.format(promise=NEVER), encoding="utf-8")
    assert run(["prove", str(path)]) == 0
    assert "this proves the specification only: no code" in capsys.readouterr().out


def test_a_flaw_that_is_real_shows_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prove", "two-phase-commit", "--variant", "aborts-on-a-timeout"]) == 1
    shown = capsys.readouterr().out
    assert "not proved. The step abort breaks “atomicity”" in shown
    assert " steps from the start break “atomicity”:\n    " in shown


def test_a_missing_clause_is_told_from_a_wrong_algorithm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "lost.svg"
    arguments = ["prove", "centralized", "--without", "one holder", "--picture", str(picture)]
    assert run(arguments) == 1
    shown = capsys.readouterr().out
    assert "The step receive grant breaks “mutual exclusion”" in shown
    assert "no run from the start is known to break a promise, none of up to 10 steps" in shown
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "no longer grant" in drawn


def test_a_solver_that_gives_up_shows_nothing_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["prove", "centralized", "--effort", "0.0001"]) == 3
    shown = capsys.readouterr().out
    assert shown.startswith("centralized: not known. The start may break “mutual exclusion” (27 of")
    assert "the solver gave up, and there is no small counterexample" in shown
    assert "not known whether a run leads there: none of up to 0 steps" in shown
    arguments = ["prove", "centralized", "--effort", "0.0001", "-o", "json"]
    assert run([*arguments, "--without", "one_holder"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "not proved", "a small state shows it, whatever the solver does"
    assert facts["counterexample"]["breaks"] == "mutual exclusion"
    assert (facts["run"]["steps"], facts["run"]["complete"]) == ([], False)


def test_programs_read_it_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prove", "token-ring", "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "proved"
    assert facts["obligations"] == 24
    assert {each["trouble"] for each in facts["code"]} == {""}


@pytest.mark.parametrize(
    ("promise", "status", "words"),
    [
        (AT_MOST_ONE, 1, "lamp: not proved. The step switch breaks “at most one”"),
        (NEVER, 0, "lamp, for every N: proved. 1 clauses, kept by 0 actions."),
        (DEAD, 3, "lamp: vacuous. By its clauses this never happens: idle;"),
        (SLIP, 64, "lamp, slip: on(x) has no truth value here"),
        (HELPER, 64, "lamp, let: put parentheses around what >> connects"),
    ],
)
def test_a_file_of_ones_own(
    promise: str, status: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lamp.py"
    path.write_text(PAGE.format(promise=promise), encoding="utf-8")
    assert run(["prove", str(path)]) == status
    shown = capsys.readouterr()
    assert words in shown.out + shown.err


def test_code_that_does_not_follow_a_page_that_is_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "paxos.py"
    text = PAXOS.read_text(encoding="utf-8")
    path.write_text(text.replace("if 2 * len(self.promises) > self.size:", "if self.promises:"))
    assert run(["prove", str(path)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("paxos, for every N and any quorums: proved.")
    assert "  the code does not follow it, N = 2" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nix"], "there is no page for 'nix': choose from bully,"),
        (["./nix.py"], "there is no file nix.py"),
        (["maekawa", "--variant", "nix"], "has no variant 'nix': choose from eager, basic"),
        (["maekawa", "--without", "nix"], "has no clause or axiom 'nix'"),
        (["token-ring", "--waits"], "token-ring does not say why every wait ends"),
        ([], "name one page to prove"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prove", *arguments]) == 64
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.real
def test_without_z3_it_says_what_to_install() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_Z3, "prove", "centralized"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 78
    assert ended.stderr == (
        "coterie: proofs need z3, which is not there: pip install 'coterie[prove]'\n"
    )
