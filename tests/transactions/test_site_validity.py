"""What a faulty site sends: legal types and absurd values. It is refused, and changes nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.process import Outbox, encode
from coterie.transactions.catalogue import schemes
from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Accepted,
    Attempt,
    Found,
    Listed,
    Refused,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.messages import (
    Acknowledge,
    Ask,
    Collect,
    Collected,
    Decide,
    Inquire,
    More,
    Pending,
    Prepare,
    Promise,
    Read,
    Reply,
    Sacrifice,
    Scan,
    Validate,
    Vote,
    Waiter,
    Want,
    Write,
)
from coterie.transactions.site.validity import LEAP_MAX
from tests.transactions.site_world import World, key_at, world

A, B = key_at(1, 2), key_at(2, 2)
NUMBERS = (-(1 << 63), -1, 0, 1, 2, 3, 7, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)


class Faulty:
    """Draws messages of all kinds, whose fields have the right types."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self.dice = Random(seed)
        self.names = [
            *names,
            *names,
            "",
            ".",
            "1",
            "1.9",
            "9.0",
            "a.1",
            "1.1.1",
            "٣.1",
            "-1.1",
            "1.1",
        ]

    def number(self) -> int:
        return self.dice.choice(NUMBERS)

    def count(self) -> int:
        return self.dice.choice((*NUMBERS, 1, 1, 2, 2))

    def name(self) -> str:
        return self.dice.choice(self.names)

    def stamp(self) -> Stamp:
        return Stamp(self.number(), self.number())

    def attempt(self, name: str) -> Attempt:
        time, _, site = name.partition(".")
        own = Stamp(int(time), int(site)) if time.isdecimal() and site.isdecimal() else self.stamp()
        return Attempt(name, self.dice.choice((own, own, self.stamp())), own, 0, EVERYTHING)

    def request(self) -> Any:
        low = self.dice.choice((A, B, "", "z"))
        kinds = (Read(low), Scan(Span(low, None), None), More(), Write(low, b"?"), Validate(), None)
        return self.dice.choice(kinds)

    def answer(self, name: str) -> Any:
        found = Found(name, A, b"?", self.stamp())
        kinds = (found, Listed(name, (found,), Span()), Accepted(name), Refused(name, "?", (), ()))
        return self.dice.choice(kinds)

    def message(self) -> Any:
        dice, name = self.dice, self.name()
        time = dice.choice((0, 1, 5, self.number()))
        opening = dice.choice((None, self.attempt(name), self.attempt(self.name())))
        sites = tuple(dice.choices((1, 2, *NUMBERS), k=dice.randint(0, 3)))
        waiter = Waiter(dice.choice((1, 2, 9)), self.attempt(name), self.count(), (self.name(),))
        whose = dice.choice((name, name, self.name()))
        life = dice.choice((None, 0, 0, self.number()))
        return dice.choice(
            (
                Ask(time, name, self.count(), self.request(), opening, life),
                Reply(time, name, self.count(), self.answer(whose), dice.random() < 0.3, life or 0),
                Prepare(
                    time, name, self.count(), dice.choice(((1, 2), sites)), self.number(), life
                ),
                Vote(time, name, self.stamp(), dice.random() < 0.5, life or 0),
                Decide(time, name, dice.choice((None, self.stamp()))),
                Acknowledge(time, name),
                Inquire(time, name),
                Pending(time, name, (self.name(),)),
                Want(time, self.stamp()),
                Promise(time, self.stamp()),
                Collect(time, self.number()),
                Collected(time, self.count(), (waiter,)),
                Sacrifice(time, name, self.count(), (self.name(),)),
            )
        )


def under_way(name: str, variant: str) -> tuple[World, list[str]]:
    """Let transactions of both sites be under way, one of them with a request that waits."""
    sites = world(name, variant)
    sites.put(1, {A: b"1", B: b"1"})
    names = []
    for site, first, second in ((1, A, B), (2, B, A)):
        attempt = sites.call(site, "begin").name
        names.append(attempt)
        for verb, key in (("read", first), ("read", second)):
            if sites.site(site).is_open(attempt) and not sites.site(site).is_waiting(attempt):
                sites.call(site, verb, attempt, key)
                sites.run()
    return sites, names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    [(each.name, variant.name) for each in schemes().values() for variant in each.variants],
)
def test_whatever_a_site_sends_is_taken_or_refused_and_the_other_goes_on(
    name: str, variant: str
) -> None:
    refused = 0
    for seed in range(30):
        sites, names = under_way(name, variant)
        faulty = Faulty(seed, names)
        for _ in range(40):
            before = sites.site(1).clock
            try:
                sites.mail[2, 1] = [faulty.message()]
                sites.deliver(2, 1)
            except ProtocolError:
                refused += 1
            assert sites.site(1).clock <= before + (1 << 41), f"seed {seed}"
    assert refused > 400


def test_what_is_refused_has_changed_nothing() -> None:
    for seed in range(200):
        sites, names = under_way("two-phase-locking", "detection")
        before = encode(sites.site(1))
        out: Outbox[Any] = Outbox(1)
        message = Faulty(seed, names).message()
        try:
            sites.site(1).receive(2, message, out)
        except ProtocolError:
            assert encode(sites.site(1)) == before, f"seed {seed}: {message}"
            assert not out.sends


def test_two_sites_go_on_together_after_a_third_has_moved_the_clock_of_one_far_ahead() -> None:
    """The other does not believe such a clock at once, but comes to it; what it lost is asked again."""
    sites = world(sites=3)
    first = sites.call(2, "begin").name
    sites.mail[3, 2] = [Collect(sites.site(2).clock + LEAP_MAX, 1)]
    sites.deliver(3, 2)
    sites.mail[2, 3].clear()
    sites.call(2, "write", first, key_at(1, 3), b"1")
    sites.settle_until_answered(2, first)
    sites.call(2, "commit", first)
    sites.settle()
    assert sites.value(2, key_at(1, 3)) == b"1"
