"""Users who call off what they have asked to commit: all of it happens, or nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.trials.clients import BusySite
from coterie.transactions.history import TransactionOutcome
from coterie.transactions.site.course import Course
from tests.transactions.site_storms import draw, draw_updates, judge, named_storm
from tests.transactions.test_two_phase_commit import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from coterie.lab.trials.trial import Program
    from coterie.process import Outbox
    from coterie.transactions.schemes.scheduler import Name
    from coterie.transactions.site.messages import Message

FICKLE = "fickle "


class Fickle(BusySite):
    """A site whose clients lose patience between the request to commit and its outcome."""

    called_off: list[str] = []

    def commit(self, name: Name, out: Outbox[Message]) -> None:
        super().commit(name, out)
        if self.is_open(name):
            out.set_timer(FICKLE + name, 0.5 + int(name.partition(".")[0]) % 8 / 2)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        if timer.startswith(FICKLE):
            self._call_off(timer.removeprefix(FICKLE), out)
        else:
            super().ring(timer, out)

    def _call_off(self, name: Name, out: Outbox[Message]) -> None:
        if not self.is_open(name) or not self.abort(name, out):
            return
        self.called_off.append(name)
        for client in self.clients:
            if client.attempt is not None and client.attempt.name == name:
                client.go_on()
                self._rest(client, out)


def storms(
    name: str,
    variant: str | None,
    seeds: int = 6,
    *,
    kind: type[Fickle] = Fickle,
    drawn: Callable[[Random], Program] = draw,
) -> int:
    """Count what was called off in a few storms; nobody has ever seen any of it."""
    called_off = 0
    for seed in range(seeds):
        outcome = named_storm(name, variant, 3, seed, kind=kind, drawn=drawn)
        judge(outcome)
        assert outcome.commits
        assert outcome.history is not None
        for site in outcome.sites:
            called_off += len(site.called_off)
            for transaction in site.called_off:
                told = outcome.history.transactions.get(transaction)
                assert told is None or told.outcome is TransactionOutcome.ABORTED, (
                    f"{transaction} was there"
                )
    return called_off


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_what_was_called_off_has_not_happened_anywhere(name: str, variant: str | None) -> None:
    assert storms(name, variant)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["detection", "wait-die", "wound-wait"])
def test_updates_that_wait_for_readers_can_be_called_off(variant: str) -> None:
    assert storms("two-phase-locking", variant, drawn=draw_updates)


def test_what_another_site_decides_about_must_not_be_called_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Course, "is_decided_by", lambda *_: True)
    with pytest.raises(AssertionError, match="was there"):
        storms("two-phase-locking", None)
