"""A site that is gone need not be waited for: its promise is presumed, and kept for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.trials.clients import BusySite
from coterie.transactions.schemes.scheduler import Committed, Declaration, Found, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.messages import Want
from coterie.transactions.site.promises import OUTDATED, Promises
from coterie.transactions.site.site import SILENCE
from tests.harness import broken_class
from tests.transactions.broken_sites import with_part
from tests.transactions.site_storms import judge, named_storm
from tests.transactions.site_world import World, key_at, world

if TYPE_CHECKING:
    from coterie.transactions.site.resource import Resource
    from coterie.transactions.site.step import Step

A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)
AT_A = Declaration((Span.of(A),), (Span.of(A),))


def blocked() -> tuple[World, str]:
    """Let site 1 wait for the word of site 3, which is down."""
    sites = world("conservative", sites=3)
    sites.crash(3)
    attempt = sites.call(1, "begin", AT_A)
    sites.call(1, "read", attempt.name, A)
    for _ in range(10):
        sites.run()
        sites.ring(1, SILENCE)
    assert sites.answer(attempt.name) is None
    return sites, attempt.name


def test_a_site_that_is_closed_is_not_waited_for() -> None:
    """2.5 f: those who wait go on, and those who come later do not wait."""
    sites, name = blocked()
    sites.call(1, "close_source", 3)
    assert isinstance(sites.answer(name), Found)
    sites.call(1, "commit", name)
    sites.run()
    assert isinstance(sites.answer(name), Committed)
    later = sites.call(1, "begin", AT_A)
    sites.call(1, "read", later.name, A)
    sites.run()
    assert isinstance(sites.answer(later.name), Found)


def test_what_a_closed_site_began_before_is_refused_when_it_comes_late() -> None:
    """2.5 f: the presumed promise is kept, so nothing older comes after what was granted."""
    sites = world("conservative", sites=3)
    late = sites.call(3, "begin", AT_A)
    attempt = sites.call(1, "begin", AT_A)  # 1.1, and its promise is presumed up to 1.3
    sites.call(1, "begin", AT_A)
    sites.call(1, "abort", attempt.name)
    attempt = sites.call(1, "begin", AT_A)
    sites.lose(1, 3)
    sites.call(1, "close_source", 3)
    sites.call(1, "close_source", 2)
    older = sites.site(1).open_transactions()[0]
    sites.call(1, "abort", older)
    sites.call(1, "read", attempt.name, A)
    assert isinstance(sites.answer(attempt.name), Found)
    sites.run()
    assert isinstance(sites.answer(late.name), Refused)
    again = sites.call(3, "begin", AT_A)
    assert again.stamp > attempt.stamp, "its clock has learnt from the refusal"
    sites.call(1, "commit", attempt.name)
    sites.call(3, "read", again.name, A)
    sites.run()
    assert isinstance(sites.answer(again.name), Found)


def test_a_closed_site_that_is_heard_again_is_waited_for_again() -> None:
    sites, name = blocked()
    sites.call(1, "close_source", 3)
    sites.call(1, "commit", name)
    sites.run()
    assert sites.site(1).promises.closed == [3]
    sites.start(3)
    back = sites.call(3, "begin", AT_A)
    sites.run()
    assert sites.site(1).promises.closed == []
    sites.call(3, "abort", back.name)
    sites.run()
    later = sites.call(1, "begin", AT_A)
    sites.call(1, "read", later.name, A)
    assert any(isinstance(message, Want) for message in sites.mail[1, 3])
    assert sites.answer(later.name) is None
    sites.run()
    assert isinstance(sites.answer(later.name), Found)


def test_a_closed_site_does_not_keep_old_versions() -> None:
    """2.4 e: what it has not promised would keep them for ever."""
    sites = world("multiversion", sites=2)
    key = key_at(1, 2)
    sites.crash(2)
    for _ in range(OUTDATED + 2):
        sites.put(1, {key: b"x"})
    scheduler = sites.site(1).scheduler
    attempt = sites.call(1, "begin")
    sites.call(1, "read", attempt.name, key)
    sites.ring(1, SILENCE)
    sites.run()
    assert scheduler.promises[1].time == 0
    sites.call(1, "close_source", 2)
    sites.ring(1, SILENCE)
    assert scheduler.promises[1].time > OUTDATED
    assert sites.site(1).facts()["oldest"] == attempt.name
    sites.call(1, "commit", attempt.name)
    assert sites.site(1).facts()["oldest"] == ""


def impatient(base: type[Promises] = Promises) -> type[BusySite]:
    """Make a site that never waits for the word of another, even of one that lives."""

    class Impatient(base):  # type: ignore[misc, valid-type]  # mypy knows no class from a variable
        def ask(self, resource: Resource, step: Step) -> None:
            self.closed = [site for site in range(1, step.sites + 1) if site != step.me]
            super().ask(resource, step)

    return with_part(BusySite, "promises", Impatient)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["conservative", "multiversion"])
def test_sites_that_close_each_other_though_all_live_stay_serializable(scheme: str) -> None:
    """It costs refusals, and never the order."""
    refusals = 0
    for seed in range(12):
        outcome = named_storm(scheme, None, 3, seed, kind=impatient())
        judge(outcome)
        refusals += outcome.aborts
    assert refusals, "somebody came too late"


def test_a_presumed_promise_that_is_not_kept_is_noticed() -> None:
    old = "if heeds_promises(step.scheduler) and opening.stamp <= self.promised[place]:"
    broken = broken_class(Promises, old, "if False:")
    with pytest.raises(AssertionError, match="was to begin there any more"):
        judge(named_storm("conservative", None, 3, 0, kind=impatient(broken)))
