"""Writes that travel with the prepare: no site still locks while another one lets go of its locks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.transactions.catalogue import scheme, schemes
from coterie.transactions.schemes.scheduler import Committed, Found
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.messages import Ask, Decide, Prepare, Reply, Vote
from coterie.transactions.site.resource import MUST_NOT_WAIT, Resource
from tests.transactions.broken_sites import broken_sites
from tests.transactions.site_storms import draw_mixture, judge, named_storm
from tests.transactions.site_world import Refused, World, key_at, world

if TYPE_CHECKING:
    import msgspec


A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)
B2 = key_at(2, 3, 1)
ALL = [(scheme.name, variant.name) for scheme in schemes().values() for variant in scheme.variants]
SEEDS = 8  # of each storm; `benchmarks/sites_campaign.py --mixture` runs more


def kinds(sites: World, begin: int = 0) -> list[type]:
    return [type(message) for _, _, message in sites.sent[begin:]]


def ask(sites: World, site: int, name: str, verb: str, *arguments: object, **more: object) -> None:
    """Make a request if the transaction is open and has no other under way; that may refuse it."""
    if sites.site(site).is_open(name) and not sites.site(site).is_waiting(name):
        sites.call(site, verb, name, *arguments, **more)


def deliver_some(sites: World, dice: Random) -> None:
    for _ in range(dice.randrange(6)):
        links = sorted(link for link, mail in sites.mail.items() if mail)
        if links:
            sites.deliver(*dice.choice(links))


def skew(scheme_name: str, variant: str | None, seed: int) -> tuple[bool, bool]:
    """Let two transactions each read what the other writes; return which of them have committed."""
    dice = Random(seed)
    sites = World(scheme(scheme_name).variant(variant).build, 3)
    places = dice.choice(((1, 1), (1, 2), (2, 3), (3, 2)))
    names = [sites.call(place, "begin").name for place in places]
    seen: list[Found | None] = [None, None]
    keys = ((B, C), (C, B))
    for verb in ("update", "read", "write", "commit"):
        for number in dice.sample((0, 1), 2):
            own, other = keys[number]
            place, name = places[number], names[number]
            match verb:
                case "update":
                    ask(sites, place, name, "read", own, update=True)
                case "read":
                    ask(sites, place, name, "read", other)
                case "write":
                    found = sites.answer(name)
                    seen[number] = found if isinstance(found, Found) else None
                    ask(sites, place, name, "write", own, b"1")
                case _:
                    ask(sites, place, name, "commit")
            deliver_some(sites, dice)
        if verb != "commit":
            sites.settle_waits()
    sites.settle()
    committed = [isinstance(sites.answer(name), Committed) for name in names]
    for number in (0, 1):
        found = seen[number]
        if found is None or found.key != keys[number][1] or found.value is not None:
            committed[number] = False  # it has not read what was there before the other
    return committed[0], committed[1]


@pytest.mark.parametrize(("scheme_name", "variant"), ALL)
def test_of_two_that_read_what_the_other_writes_one_commits(
    scheme_name: str, variant: str | None
) -> None:
    """Write skew: both saw the state before the other, so no serial order has both."""
    for seed in range(40):
        assert skew(scheme_name, variant, seed) != (True, True), f"seed {seed}"


def mixed(sites: World) -> tuple[str, str]:
    """Begin a transaction at site 1 that updates at site 2 and only reads at site 3."""
    name: str = sites.call(1, "begin").name
    sites.call(1, "read", name, B, update=True)
    sites.run()
    sites.call(1, "read", name, C)
    sites.run()
    sites.call(1, "write", name, B, b"1")
    return name, C


def test_shared_locks_go_after_the_writes_of_other_sites_are_granted() -> None:
    sites = world(sites=3)
    name, _ = mixed(sites)
    reader = sites.call(2, "begin").name
    sites.call(2, "read", reader, B)
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    sites.run()
    assert kinds(sites, begin) == [Ask], "the write waits for a reader, and nothing is prepared"
    assert name in sites.site(3).scheduler.locks.keys
    sites.call(2, "commit", reader)
    sites.run()
    assert kinds(sites, begin)[:4] == [Ask, Reply, Prepare, Prepare]
    assert isinstance(sites.answer(name), Committed)


def test_a_commit_that_writes_first_can_be_called_off() -> None:
    sites = world(sites=3)
    name, _ = mixed(sites)
    sites.call(1, "commit", name)
    assert sites.call(1, "abort", name) is True
    sites.settle()
    assert sites.value(3, B) is None


@pytest.mark.parametrize("reads", ["nothing else", "at the same site", "all at one site"])
def test_no_message_is_spent_where_no_site_lets_go_before_the_others_have_locked(
    reads: str,
) -> None:
    sites = world(sites=3)
    name = sites.call(1, "begin").name
    for key in (B, C) if reads == "nothing else" else (B,):
        sites.call(1, "read", name, key, update=True)
        sites.run()
    if reads != "nothing else":
        sites.call(1, "read", name, B2)
        sites.run()
    if reads == "at the same site":
        sites.call(1, "write", name, C, b"1")
        sites.run()
    for key in (B, C) if reads == "nothing else" else (B,):
        sites.call(1, "write", name, key, b"1")
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    sites.run()
    if reads == "all at one site":
        assert kinds(sites, begin) == [Prepare, Decide]
    else:
        assert kinds(sites, begin)[:6] == [Prepare, Prepare, Vote, Vote, Decide, Decide]
    assert isinstance(sites.answer(name), Committed)


@pytest.mark.parametrize("what", ["read", "read for update", "scan"])
def test_whatever_is_read_and_not_written_is_let_go_late(what: str) -> None:
    sites = world(sites=3)
    name = sites.call(1, "begin").name
    sites.call(1, "read", name, B, update=True)
    sites.run()
    if what == "scan":
        sites.call(1, "scan", name, Span(C, C + "~"), None)
    else:
        sites.call(1, "read", name, C, update=what == "read for update")
    sites.run()
    sites.call(1, "write", name, B, b"1")
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    assert kinds(sites, begin) == [Ask]
    sites.settle()
    assert isinstance(sites.answer(name), Committed)


def test_optimistic_sites_keep_what_was_read_so_a_write_may_come_with_the_prepare() -> None:
    sites = world("optimistic", sites=3)
    name, _ = mixed(sites)
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    assert kinds(sites, begin) == [Prepare, Prepare]


def updated(sites: World, *keys: str) -> str:
    """Begin a transaction at site 1, younger than all others, that updates keys."""
    name: str = sites.call(1, "begin", above=Stamp(9, 3)).name
    for key in keys:
        sites.call(1, "read", name, key, update=True)
        sites.settle_until_answered(1, name)
    for key in keys:
        sites.call(1, "write", name, key, b"1")
    return name


def test_under_wound_wait_none_that_has_voted_waits_for_an_older_one() -> None:
    """The older one cannot wound it where it has voted, and would wait for it there."""
    sites = world(variant="wound-wait", sites=3)
    older = sites.call(2, "begin").name
    sites.call(2, "read", older, B)
    sites.run()
    name = updated(sites, B, C)
    assert isinstance(sites.answer(older), Found)
    sites.call(1, "commit", name)
    sites.run()
    assert isinstance(refused := sites.answer(name), Refused)
    assert (refused.rule, refused.others) == (MUST_NOT_WAIT, (older,))
    sites.call(2, "read", older, C)
    sites.run()
    assert isinstance(found := sites.answer(older), Found)
    assert found.key == C
    sites.call(2, "commit", older)
    sites.run()
    assert isinstance(sites.answer(older), Committed)


def test_where_older_ones_do_not_wound_a_vote_waits() -> None:
    sites = world(sites=3)
    reader = sites.call(2, "begin").name
    sites.call(2, "read", reader, B)
    name = updated(sites, B, C)
    sites.call(1, "commit", name)
    sites.run()
    assert sites.site(1).is_waiting(name)
    sites.call(2, "commit", reader)
    sites.settle()
    assert isinstance(sites.answer(name), Committed)


def test_one_that_is_wounded_by_what_its_first_write_locks_does_not_go_on_with_the_second() -> None:
    """The oldest ends a reader first, for which the write has waited, and then the writer itself."""
    sites = world(variant="wound-wait", sites=3)
    oldest, reader = sites.call(1, "begin").name, sites.call(3, "begin").name
    name = updated(sites, B, B2)
    sites.call(3, "read", reader, B)
    sites.run()
    sites.call(1, "commit", name)
    sites.run()
    assert sites.site(1).is_waiting(name)
    sites.call(1, "write", oldest, B, b"2")
    sites.run()
    assert isinstance(sites.answer(name), Refused)
    assert isinstance(sites.answer(reader), Refused)
    sites.call(1, "commit", oldest)
    sites.settle()
    assert isinstance(sites.answer(oldest), Committed)
    assert (sites.value(3, B), sites.value(3, B2)) == (b"2", None)


@pytest.mark.parametrize(("scheme_name", "variant"), ALL)
def test_storms_of_every_operation(scheme_name: str, variant: str | None) -> None:
    for seed in range(SEEDS):
        for trouble in (False, True):
            outcome = named_storm(
                scheme_name, variant, 2 + seed % 2, seed, trouble=trouble, drawn=draw_mixture
            )
            try:
                judge(outcome)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, trouble {trouble}: {error}") from error


@pytest.mark.parametrize(
    ("part", "old", "new", "variant"),
    [
        (
            Coordinator,
            "course.growing_late() if step.scheduler.prepare_releases_reads else []",
            "[]",
            "detection",
        ),
        (Resource, "if not scheduler.voters_may_wait:", "if False:", "wound-wait"),
        (Resource, "if name in step.scheduler.active:", "if True:", "wound-wait"),
    ],
    ids=["writes travel with the prepare", "a voter waits", "a wounded one goes on"],
)
def test_a_broken_line_is_noticed_in_storms(
    part: type[msgspec.Struct], old: str, new: str, variant: str
) -> None:
    kind = broken_sites(part, old, new).busy_site
    for seed in range(60):
        outcome = named_storm(
            "two-phase-locking", variant, 3, seed, trouble=False, drawn=draw_mixture, kind=kind
        )
        try:
            judge(outcome)
        except AssertionError:
            return
    pytest.fail("nothing was noticed")
