"""Physical clocks over graphs of the user's choice, and the command that runs them."""

from __future__ import annotations

import json

import msgspec
import pytest

from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.simulate import clocks
from coterie.lab.simulate.clocks import SHAPES, Conditions, diameter_of, run_clocks, shape_of
from tests.harness import Mutant, broken

USUAL = Conditions(drift=1e-3, period=10, least_delay=0.02, most_delay=0.03, duration=300)


@pytest.mark.parametrize(
    ("name", "size", "diameter"),
    [
        ("line", 2, 1),
        ("line", 7, 6),
        ("ring", 2, 1),
        ("ring", 6, 3),
        ("ring", 7, 3),
        ("star", 2, 1),
        ("star", 9, 2),
        ("complete", 5, 1),
    ],
)
def test_graphs_have_their_diameters_and_links_in_both_directions(
    name: str, size: int, diameter: int
) -> None:
    graph = shape_of(name, size)
    assert diameter_of(graph) == diameter
    assert all(me in graph[peer] and me != peer for me in graph for peer in graph[me])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clocks_stay_within_the_bound_and_would_not_by_themselves(shape: str, seed: int) -> None:
    found = run_clocks(shape_of(shape, 6), USUAL, seed)
    assert found.bound == pytest.approx(found.diameter * 0.03)
    assert found.bound / 5 < found.largest < 1.01 * found.bound < found.left_alone
    assert found.mean < found.largest


def test_without_drift_and_with_equal_delays_they_agree() -> None:
    exact = msgspec.structs.replace(USUAL, drift=0.0, most_delay=0.02)
    found = run_clocks(shape_of("line", 5), exact)
    assert found.bound == 0
    assert found.largest < 1e-9


def test_clocks_that_do_not_catch_up_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = Mutant("message.time + self.least_delay - out.now", "self.ahead")
    module = broken("coterie.clocks.synchronisation", mutant)
    monkeypatch.setattr(clocks, "synchronised_clocks", module.synchronised_clocks)
    found = run_clocks(shape_of("line", 5), USUAL)
    assert found.largest > 10 * found.bound
    assert run(["clocks", "--duration", "300"]) == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--graph", "tree"], "choose one of line, ring, star, complete"),
        (["-N", "1"], "choose 2 at least"),
        (["--drift", "1"], "below 1"),
        (["--delay", "3,1"], "0 <= LOW <= HIGH"),
        (["--delay", "fast"], "LOW,HIGH in seconds"),
        (["--period", "0"], "the period must be above 0"),
        (["--duration", "20"], "let them run longer"),
    ],
)
def test_what_no_clock_can_do_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert run(["clocks", *options]) == UsageError.exit_status
    assert text in capsys.readouterr().err


def test_the_command_shows_spread_and_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clocks", "--graph", "ring", "-N", "6", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["processes"], found["diameter"], found["bound"]) == (6, 3, pytest.approx(0.09))
    assert run(["clocks", "--graph", "ring", "-N", "6"]) == 0
    printed = capsys.readouterr().out
    assert f"{found['largest']:.4f} s apart at most" in printed
    assert "0.0900 s = 3 (2 · 0.001 · 10 + 0.01)" in printed
