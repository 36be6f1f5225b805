"""`coterie check`, as a user types it: flawed variants, vacuous searches, what was decided."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from coterie.catalogue import algorithms
from coterie.cli import run
from coterie.lab.explore import check
from coterie.lab.scenario.replay import replay
from coterie.trace import Repeated, parse_trace

FLAWED = [
    (name, variant.name)
    for name, entry in algorithms().items()
    for variant in entry.variants
    if not variant.sound
]


@pytest.mark.parametrize(("name", "variant"), FLAWED)
def test_the_plain_command_refutes_a_flawed_variant(
    name: str, variant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flaw = algorithms()[name].variant(variant).flaw
    assert flaw is not None, "an unsound variant says where it fails"
    assert run(["check", name, "--variant", variant]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{name}, {variant}, N = {flaw.size}: violated.")
    assert f"depth {flaw.steps}\n" in shown.out
    assert f"known to fail with -N {flaw.size}" in shown.err


@pytest.mark.parametrize(
    ("name", "variant", "text"),
    [
        ("suzuki-kasami", "survey", "process 1 is stalled and can enter only if another user asks"),
        ("maekawa", "basic", "processes 1, 2 and 3 wait forever"),
    ],
)
def test_only_a_wait_that_no_request_can_end_is_called_endless(
    name: str, variant: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", name, "--variant", variant]) == 1
    assert f"Deadlock: no message or timer is pending; {text}.\n" in capsys.readouterr().out


def test_what_a_user_chooses_for_a_flawed_variant_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["check", "bully", "--variant", "as-told", "--crashes", "1", "--entries", "0"]) == 0
    shown = capsys.readouterr()
    assert "N = 3: verified" in shown.out
    assert "known to fail" not in shown.err


@pytest.mark.parametrize("choice", [["-N", "1"], ["--entries", "0"]])
def test_a_search_that_shows_nothing_is_not_verified(
    choice: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "lamport", *choice]) == 3
    assert "vacuous. Nothing was shown: no" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["centralized"], "every wait ends (weak fairness)"),
        (
            ["token-ring", "--entries", "any"],
            ("every wait ends (weak fairness); during one wait others enter at most 2 times"),
        ),
        (
            ["token-ring", "-N", "2", "--entries", "any"],
            ("every wait ends (weak fairness); during one wait others enter at most once"),
        ),
        (
            ["raymond", "--entries", "any"],
            ("every wait ends (weak fairness); during one wait others enter any number of times"),
        ),
        (["decentralized", "-N", "2"], "entry stays possible, and no more is promised"),
        (
            ["bully", "-N", "2", "--crashes", "1"],
            "every run comes to rest (weak fairness)",
        ),
    ],
)
def test_it_is_said_what_was_decided_and_for_which_runs(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *arguments]) == 0
    assert f"\n  {line}\n" in capsys.readouterr().out


EXAMPLE = Path(__file__).parents[3] / "examples" / "last_come.py"


@pytest.mark.parametrize("ending", ["jsonl", "html", "svg", "shiviz", "perfetto.json"])
def test_a_lasso_is_printed_and_written_in_every_form(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / f"lasso.{ending}"
    choices = ["--entries", "any", "--channel", "fifo", "--trace", str(written)]
    assert run(["check", str(EXAMPLE), *choices]) == 1
    shown = capsys.readouterr().out
    assert "violated. Process 1 may wait without end, in a fair cycle of 10 steps" in shown
    assert "\n    acquire 1\n    # from here on, again and again:\n    deliver 1 > 2\n" in shown
    text = written.read_text(encoding="utf-8")
    if ending == "svg":
        assert "again and again" in text
    if ending == "jsonl":
        trace = parse_trace(text)
        replay(trace)
        assert any(isinstance(record, Repeated) for record in trace.records)


def test_serving_in_order_puts_the_example_right() -> None:
    """The comment in the example says how."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "self.stack.pop(), Grant())  # pop(0) would serve the oldest first" in text
    fixed = text.replace("self.stack.pop()", "self.stack.pop(0)")
    module = ModuleType("first_come")
    sys.modules[module.__name__] = module  # where msgspec looks up the types of fields
    exec(compile(fixed, str(EXAMPLE), "exec"), module.__dict__)  # noqa: S102 - our own source
    kind = module.__dict__["LastCome"]
    verdict = check([kind(me, 3) for me in (1, 2, 3)], entries=None)
    assert (verdict.verdict, verdict.overtaking) == ("verified", "unbounded")
