"""`coterie check`, as a user types it: flawed variants, vacuous searches, what was decided."""

from __future__ import annotations

import pytest

from coterie.catalogue import algorithms
from coterie.cli import run

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
        (["centralized"], "every wait ends, if every step that stays possible is taken at last"),
        (
            ["token-ring", "--entries", "any"],
            (
                "every wait ends, if every step that stays possible is taken at last;"
                " during one wait others enter at most 2 times"
            ),
        ),
        (
            ["raymond", "--entries", "any"],
            (
                "every wait ends, if every step that stays possible is taken at last;"
                " during one wait others enter any number of times"
            ),
        ),
        (["decentralized", "-N", "2"], "entry stays possible, and no more is promised"),
        (
            ["bully", "-N", "2", "--crashes", "1"],
            "every run comes to rest, if every step that stays possible is taken at last",
        ),
    ],
)
def test_it_is_said_what_was_decided_and_for_which_runs(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *arguments]) == 0
    assert f"\n  {line}\n" in capsys.readouterr().out
