"""Promises between sites: who waits for whose word, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError, Undeclared
from coterie.lab.trials.sites import simulate_store
from coterie.lab.trials.trial import program
from coterie.transactions.schemes.scheduler import Accepted, Committed, Declaration, Found, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.messages import Promise, Want
from coterie.transactions.site.site import SILENCE
from tests.transactions.site_world import World, key_at, world

if TYPE_CHECKING:
    from random import Random

    from coterie.lab.trials.trial import Program

A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)


def spans(*keys: str) -> tuple[Span, ...]:
    return tuple(Span.of(key) for key in keys)


def test_a_silent_site_holds_everything_back_until_it_promises() -> None:
    """2.5 a: nothing executes, however long; its word releases what is older."""
    sites = world("conservative", sites=3)
    attempt = sites.call(1, "begin", Declaration(spans(A), ()))
    sites.call(1, "read", attempt.name, A)
    sites.deliver(1, 2)
    sites.deliver(2, 1)
    sites.lose(1, 3)
    assert sites.answer(attempt.name) is None
    for _ in range(3):
        sites.ring(1, SILENCE)
        sites.lose(1, 3)
        sites.run()
    assert sites.answer(attempt.name) is None
    sites.ring(1, SILENCE)
    sites.run()
    assert isinstance(sites.answer(attempt.name), Found)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_promise_costs_a_question_and_an_answer_for_each_other_site(size: int) -> None:
    """2.5 c: they are sent on demand, and an idle store says nothing."""
    sites = world("conservative", sites=size)
    key = key_at(1, size)
    for _ in range(3):
        sent = len(sites.sent)
        attempt = sites.call(1, "begin", Declaration(spans(key), spans(key)))
        sites.call(1, "read", attempt.name, key)
        sites.run()
        sites.call(1, "commit", attempt.name)
        sites.run()
        assert isinstance(sites.answer(attempt.name), Committed)
        assert len(sites.sent) - sent == 2 * (size - 1)
    assert sites.count(Want) == sites.count(Promise) == 3 * (size - 1)


def test_a_transaction_is_announced_to_the_sites_it_has_declared_and_to_no_others() -> None:
    sites = world("conservative", sites=3)
    sites.call(1, "begin", Declaration(spans(B), ()))
    assert list(sites.mail) == [(1, 2)]
    assert len(sites.mail[1, 2]) == 1


def test_an_access_that_was_not_declared_raises_before_any_site_hears_of_it() -> None:
    """2.5 d."""
    sites = world("conservative", sites=3)
    attempt = sites.call(1, "begin", Declaration(spans(A), ()))
    with pytest.raises(Undeclared, match="may read"):
        sites.call(1, "read", attempt.name, B)
    with pytest.raises(Undeclared, match="may write"):
        sites.call(1, "write", attempt.name, A, b"1")
    assert not sites.mail


def test_what_a_site_announced_before_it_crashed_comes_too_late() -> None:
    """2.5 f: late messages of the old incarnation are refused, and progress resumes."""
    sites = world("conservative", sites=3)
    attempt = sites.call(1, "begin", Declaration((), spans(B)))
    late = list(sites.mail.pop((1, 2)))
    newer = sites.call(1, "begin", Declaration((), spans(B)))
    sites.call(1, "write", newer.name, B, b"2")
    sites.run()
    sites.crash(1)
    sites.start(1)
    sites.settle()
    sites.mail[1, 2] = late
    sites.run()
    assert not sites.site(2).takes_part(attempt.name)
    sites.put(3, {B: b"3"})
    assert sites.value(1, B) == b"3"


def test_a_site_that_lost_an_announcement_refuses_what_follows_it() -> None:
    """2.5 b: a gap is not patched up; the transaction begins again with a larger stamp."""
    sites = world("conservative", sites=3)
    attempt = sites.call(1, "begin", Declaration((), spans(B)))
    sites.lose(1, 2)
    sites.call(1, "write", attempt.name, B, b"1")
    sites.run()
    assert isinstance(sites.answer(attempt.name), Refused)
    sites.put(1, {B: b"2"})
    assert sites.value(3, B) == b"2"


def test_a_promise_waits_for_a_transaction_that_may_still_come() -> None:
    """2.4 e: an old reader of another site keeps the versions that it may want to see."""
    sites = world("multiversion", sites=3)
    reader = sites.call(1, "begin")
    sites.put(2, {B: b"1"})
    promises = sites.count(Promise)
    sites.mail[2, 1] = [Want(0, Stamp(sites.site(1).clock, 2))]
    sites.deliver(2, 1)
    assert sites.count(Promise) == promises, "the reader may still come with its small stamp"
    sites.call(1, "read", reader.name, B)
    sites.run()
    assert isinstance(sites.answer(reader.name), Found)
    assert sites.answer(reader.name).value is None, "the reader began before the write"
    assert sites.count(Promise) == promises + 1


def busy(sites: World, site: int, key: str) -> None:
    for number in range(40):
        sites.put(site, {key: str(number).encode()})


def test_a_slow_clock_catches_up_when_it_is_refused() -> None:
    """2.2 h: one site's clock is far behind; its first try fails, the next does not."""
    sites = world("timestamp-ordering", sites=3)
    busy(sites, 2, B)
    assert sites.site(2).clock > sites.site(1).clock + 30
    attempts = []
    for _ in range(3):
        attempt = sites.call(1, "begin")
        sites.call(1, "write", attempt.name, B, b"1")
        sites.run()
        attempts.append(sites.answer(attempt.name))
        if sites.site(1).is_open(attempt.name):
            sites.call(1, "commit", attempt.name)
            sites.run()
    assert [type(answer) for answer in attempts] == [Refused, Accepted, Accepted]


def test_reads_before_a_crash_are_not_overtaken_after_it() -> None:
    """2.2 e: after a restart every key counts as read at the time of the recovery."""
    sites = world("timestamp-ordering", sites=3)
    old = sites.call(1, "begin")
    for _ in range(5):
        sites.value(2, B)
    sites.crash(2)
    sites.start(2)
    sites.call(1, "write", old.name, B, b"1")
    sites.run()
    assert isinstance(sites.answer(old.name), Refused)


def test_a_request_of_a_transaction_that_has_ended_is_misuse() -> None:
    sites = world(sites=2)
    attempt = sites.call(1, "begin")
    sites.call(1, "commit", attempt.name)
    with pytest.raises(MisuseError, match="not under way"):
        sites.call(1, "read", attempt.name, "x")
    other = sites.call(1, "begin")
    sites.call(1, "read", other.name, key_at(2, 2))
    with pytest.raises(MisuseError, match="request under way"):
        sites.call(1, "read", other.name, key_at(2, 2))


def test_idle_sites_do_not_keep_old_versions_alive() -> None:
    """2.4 e: they promise when they are asked, so memory stays bounded under a steady load."""
    keys = [f"k{number}" for number in range(6)]

    def draw(dice: Random) -> Program:
        first, second = dice.sample(keys, 2)
        return program(f"u({first}) w({first}) w({second})")

    outcome = simulate_store("multiversion", draw=draw, sites=3, clients=1, until=4000.0, seed=1)
    versions = [
        len(chain.versions)
        for site in outcome.sites
        for chain in site.scheduler.table.items.values()
    ]
    assert outcome.commits > 700
    assert sum(versions) < outcome.commits / 3
    assert outcome.kinds["Want"] < outcome.commits / 5


def test_a_site_that_is_asked_for_a_later_time_promises_it_at_once() -> None:
    """2.5 a: its clock goes there, so nothing smaller begins; no transaction has to come by first."""
    sites = world("conservative", sites=2)
    sites.mail[2, 1] = [Want(0, Stamp(50, 2))]
    sites.deliver(2, 1)
    [promise] = sites.mail[1, 2]
    assert isinstance(promise, Promise)
    assert promise.stamp.time >= 50
    assert sites.call(1, "begin").stamp > promise.stamp
