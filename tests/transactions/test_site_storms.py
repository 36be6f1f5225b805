"""Storms over one to four sites, while sites crash in mid-step, return, pause and are cut off."""

from __future__ import annotations

import pytest

from coterie.errors import UsageError
from coterie.transactions.catalogue import schemes
from coterie.transactions.site.messages import Collect
from tests.transactions.anarchy import Anarchy
from tests.transactions.site_storms import judge, named_storm, site_storm

ALL = [(scheme.name, variant.name) for scheme in schemes().values() for variant in scheme.variants]
SEEDS = 12  # of each number of sites; campaigns of thousands are a matter of this number


@pytest.mark.slow
@pytest.mark.parametrize("sites", [1, 2, 3, 4])
@pytest.mark.parametrize(("scheme", "variant"), ALL)
def test_whatever_crashes_the_history_is_serializable_and_everything_ends(
    scheme: str, variant: str | None, sites: int
) -> None:
    for seed in range(SEEDS):
        outcome = named_storm(scheme, variant, sites, seed)
        try:
            judge(outcome)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "variant"), ALL)
def test_where_nothing_goes_wrong_everybody_commits(scheme: str, variant: str | None) -> None:
    for seed in range(8):
        outcome = named_storm(scheme, variant, 3, seed, trouble=False)
        judge(outcome)
        silent = ("a site does not answer", "its coordinator does not answer")
        assert not any(outcome.refusals[rule] for rule in silent)
        assert scheme != "conservative" or not outcome.aborts, "2.5 g: zero aborts"
        assert variant == "detection" or Collect.__name__ not in outcome.kinds


def test_a_scheduler_that_controls_nothing_is_refuted() -> None:
    """Without this the storms might be too weak to show anything."""
    refuted = 0
    for seed in range(10):
        try:
            judge(site_storm(lambda _site, _sites: Anarchy(), 3, seed, trouble=False))
        except (AssertionError, UsageError):  # two commits may even get the same number
            refuted += 1
    assert refuted == 10


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (named_storm("two-phase-locking", None, 3, 1) for _ in range(2))
    assert first.seconds == second.seconds
    assert first.kinds == second.kinds
