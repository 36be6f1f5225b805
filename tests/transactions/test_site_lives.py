"""A site that starts again has forgotten what it said: no transaction may mix two of its lives."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.clocks import Stamp
from coterie.transactions.catalogue import schemes
from coterie.transactions.schemes.scheduler import Committed, Found, Refused
from coterie.transactions.site.coordinator import UNREACHABLE, Coordinator
from coterie.transactions.site.messages import Ask, Reply, Vote
from coterie.transactions.site.resource import FORGOTTEN, Resource
from coterie.transactions.site.site import SILENCE, Site
from tests.transactions.broken_sites import broken_sites
from tests.transactions.site_world import World, key_at, world

A, B = key_at(1, 2), key_at(2, 2)

SCHEMES = [(each.name, variant.name) for each in schemes().values() for variant in each.variants]


def late_answer(name: str, variant: str | None, kind: type[Site] = Site) -> tuple[World, str, Any]:
    """Let an answer of a site arrive when the site has started again, and was asked again.

    A user of site 1 reads B at site 2, whose answer is on a link that stalls. Site 2 starts again, and a
    user there sets B. Site 1 asks again; then the first answer arrives, before the second one.
    """
    sites = world(name, variant, kind=kind)
    sites.put(1, {B: b"old"})
    sites.sent.clear()
    reader = sites.call(1, "begin")
    sites.call(1, "read", reader.name, B)
    stalled = answer_to_come(sites)
    sites.crash(2)
    sites.mail.pop((2, 1), None)
    sites.start(2)
    sites.run()
    set_at_home(sites, b"new")
    if sites.site(1).is_waiting(reader.name):
        ask_again(sites)
        sites.mail.setdefault((2, 1), []).insert(0, stalled)
        sites.deliver(2, 1)
    return sites, reader.name, sites.answer(reader.name)


def set_at_home(sites: World, value: bytes) -> None:
    """Let a user of site 2 set B; no timer rings, so site 1 does not ask again meanwhile."""
    writer = sites.write(2, {B: value}).name
    sites.call(2, "commit", writer)
    sites.run()
    assert isinstance(sites.answer(writer), Committed)


def answer_to_come(sites: World) -> Reply:
    """Deliver until site 2 has answered site 1, and take the answer off the link."""
    while True:
        for link in ((1, 2), (2, 1)):
            mail = sites.mail.get(link, [])
            if mail and isinstance(mail[0], Reply):
                reply: Reply = mail.pop(0)
                return reply
            if mail:
                sites.deliver(*link)


def ask_again(sites: World) -> None:
    """Let site 1 ask once more, and site 2 answer, or say that it waits."""
    asked = sites.count(Ask)
    while sites.count(Ask) == asked:
        sites.ring(1, SILENCE)
    while sites.mail[1, 2]:
        sites.deliver(1, 2)


def finish(sites: World, reader: str, found: Any) -> None:
    """Write what rests on the value that was read, and commit."""
    for verb, *arguments in (("write", B, (found.value or b"") + b"+1"), ("commit",)):
        sites.settle_until_answered(1, reader)
        if sites.site(1).is_open(reader):
            sites.call(1, verb, reader, *arguments)
    sites.settle()


def lost_update(name: str, variant: str | None, kind: type[Site] = Site) -> bool:
    """Return whether an acknowledged commit was overwritten by one that has not seen it."""
    sites, reader, found = late_answer(name, variant, kind)
    if found is not None and not isinstance(found, Refused):
        finish(sites, reader, found)
    return sites.value(2, B) == b"old+1"


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_no_acknowledged_commit_is_overwritten_by_what_a_former_life_has_shown(
    name: str, variant: str
) -> None:
    assert not lost_update(name, variant)


def refused_later(kind: type[Site], *, at_home: bool) -> tuple[World, Any]:
    """Read what a former life of site 2 answers, write at one of the sites, and commit."""
    sites, reader, found = late_answer("two-phase-locking", None, kind)
    assert found.value == b"old"
    sites.call(1, "write", reader, A if at_home else B, b"later")
    sites.settle_until_answered(1, reader)
    if sites.site(1).is_open(reader):
        sites.call(1, "commit", reader)
        sites.settle()
    return sites, sites.answer(reader)


def has_voted(sites: World) -> bool:
    return any(sender == 2 and isinstance(message, Vote) for sender, _, message in sites.sent)


@pytest.mark.parametrize("at_home", [True, False])
def test_a_transaction_that_meets_another_life_of_a_site_is_refused(*, at_home: bool) -> None:
    """Whether it asks that site for anything more, or only to prepare."""
    sites, refused = refused_later(Site, at_home=at_home)
    assert isinstance(refused, Refused)
    assert refused.rule == FORGOTTEN
    assert not has_voted(sites)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new", "at_home"),
    [
        (Coordinator, "settled, life, writes)", "settled, None, writes)", True),
        (Coordinator, "opening, life, writes", "opening, None, writes", False),
        (Resource, "if not part.is_meant(message.life) or message.count", "if message.count", True),
        (Resource, "if not part.is_meant(message.life) or count", "if count", False),
    ],
)
def test_a_request_that_means_any_life_would_be_carried_out(
    part: type[Any], old: str, new: str, *, at_home: bool
) -> None:
    """The site would answer or vote by its new life, which the coordinator does not take."""
    sites, refused = refused_later(broken_sites(part, old, new).site, at_home=at_home)
    assert refused.rule == UNREACHABLE or has_voted(sites)


def test_an_answer_of_another_life_is_not_taken() -> None:
    sites = world()
    reader = sites.call(1, "begin").name
    sites.call(1, "read", reader, B)
    sites.run()
    sites.call(1, "read", reader, B)
    stale = Reply(0, reader, 2, Found(reader, B, b"stale", None), life=7)
    sites.mail[2, 1] = [stale]
    sites.deliver(2, 1)
    assert sites.site(1).is_waiting(reader)
    sites.run()
    assert sites.answer(reader).value is None


def test_a_vote_of_another_life_is_not_counted() -> None:
    sites = world()
    writer = sites.write(1, {A: b"1", B: b"1"}).name
    sites.call(1, "commit", writer)
    sites.mail[2, 1] = [Vote(0, writer, Stamp(5, 2), life=7)]
    sites.deliver(2, 1)
    assert sites.site(1).is_open(writer)
    sites.run()
    assert isinstance(sites.answer(writer), Committed)


def test_a_vote_that_is_on_disk_counts_after_a_restart() -> None:
    """It binds the site in all its lives, so the transaction need not be tried again."""
    sites = world()
    writer = sites.write(1, {A: b"1", B: b"1"}).name
    sites.call(1, "commit", writer)
    sites.deliver(1, 2)
    assert writer in sites.site(2).in_doubt()
    sites.lose(2, 1)
    sites.crash(2)
    sites.start(2)
    sites.settle()
    assert isinstance(sites.answer(writer), Committed)
    assert sites.value(1, B) == b"1"
