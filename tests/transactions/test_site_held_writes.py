"""Writes of keys that were read for update: held back, and carried out with the next message."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import Accepted, Committed, Found, Listed, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site import course
from coterie.transactions.site.coordinator import CALLED_OFF, Coordinator
from coterie.transactions.site.course import Visit
from coterie.transactions.site.messages import (
    Ask,
    Decide,
    Pending,
    Prepare,
    Read,
    Reply,
    Vote,
    Write,
)
from coterie.transactions.site.resource import FORGOTTEN, Resource
from coterie.transactions.site.site import Site
from tests.transactions.broken_sites import broken_sites
from tests.transactions.site_world import World, key_at, world

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)
B2 = key_at(2, 3, 1)
SCHEMES = ["two-phase-locking", "optimistic", "conservative"]
BY_STAMPS = ["timestamp-ordering", "thomas-write-rule", "multiversion"]


def updated(sites: World, values: dict[str, bytes]) -> str:
    """Begin a transaction at site 1 that reads keys for update and writes them."""
    name: str = sites.call(1, "begin").name
    for key in values:
        sites.call(1, "read", name, key, update=True)
        sites.settle_until_answered(1, name)
    for key, value in values.items():
        sites.call(1, "write", name, key, value)
        sites.settle_until_answered(1, name)
    return name


def kinds(sites: World, begin: int = 0) -> list[type]:
    return [type(message) for _, _, message in sites.sent[begin:]]


def test_a_write_of_what_was_read_for_update_sends_nothing_before_the_end() -> None:
    sites = world(sites=3)
    name = updated(sites, {A: b"1", B: b"2"})
    assert isinstance(sites.answer(name), Accepted)
    assert kinds(sites) == [Ask, Reply]
    sites.call(1, "commit", name)
    sites.run()
    assert kinds(sites, 2) == [Prepare, Vote, Decide]
    assert isinstance(sites.answer(name), Committed)
    assert (sites.value(3, A), sites.value(3, B)) == (b"1", b"2")


def test_any_other_write_is_sent_at_once() -> None:
    """The site may have to wait with it, or refuse it, and that is heard before the end."""
    sites = world(sites=3)
    name = sites.call(1, "begin").name
    sites.call(1, "read", name, B)
    sites.run()
    sites.call(1, "write", name, B, b"1")
    assert kinds(sites) == [Ask, Reply, Ask]


def test_what_is_too_large_to_wait_is_sent_with_what_was_held_back() -> None:
    sites = world(sites=3)
    large = bytes(course.HELD_BYTES_MAX)
    name = updated(sites, {B: b"1", B2: large})
    assert kinds(sites) == [Ask, Reply, Ask, Reply, Ask, Reply]
    assert [write.key for write in sites.sent[4][2].writes] == [B]
    sites.call(1, "commit", name)
    sites.settle()
    assert (sites.value(3, B), sites.value(3, B2)) == (b"1", large)


def test_small_writes_are_sent_before_they_are_too_many() -> None:
    """Also one of an empty key without a value takes room in a message."""
    visit = Visit(2, updated={""})
    most = course.HELD_BYTES_MAX
    assert sum(visit.holds(Write("", None)) for _ in range(most)) < most


def test_a_transaction_sees_what_it_has_written_and_what_is_held_back() -> None:
    sites = world(sites=3)
    name = updated(sites, {B: b"1"})
    sites.call(1, "read", name, B)
    sites.run()
    assert isinstance(found := sites.answer(name), Found)
    assert found.value == b"1"
    sites.call(1, "write", name, B, b"2")
    sites.call(1, "scan", name, Span("", None), None)
    sites.run()
    assert isinstance(listed := sites.answer(name), Listed)
    assert [(item.key, item.value) for item in listed.items] == [(B, b"2")]


def waiting_commit(sites: World) -> tuple[str, str, int]:
    """Ask the only site to commit while a reader there is in the way of a write."""
    reader = sites.call(2, "begin").name
    sites.call(2, "read", reader, B2)
    name = updated(sites, {B: b"1", B2: b"2"})
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    return name, reader, begin


def test_the_only_site_writes_and_decides_at_once() -> None:
    sites = world(sites=3)
    name = updated(sites, {B: b"1", B2: b"2"})
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    sites.run()
    assert kinds(sites, begin) == [Prepare, Decide]
    assert isinstance(sites.answer(name), Committed)
    assert (sites.value(3, B), sites.value(3, B2)) == (b"1", b"2")


def called_off(kind: type[Site] = Site) -> None:
    """Call a commit off when the only site has said that it waits; what it was asked comes again."""
    sites = world(sites=3, kind=kind)
    name, reader, begin = waiting_commit(sites)
    [again] = sites.mail[1, 2]
    sites.run()
    assert kinds(sites, begin) == [Prepare, Pending]
    assert sites.site(1).is_waiting(name)
    sites.call(2, "commit", reader)
    sites.mail[1, 2] = [again]
    sites.deliver(1, 2)
    assert sites.call(1, "abort", name) is True
    sites.settle()
    assert (sites.value(3, B), sites.value(3, B2)) == (None, None)


def test_a_commit_can_be_called_off_while_the_only_site_waits_for_a_lock() -> None:
    """A commit that another site decides about cannot be; one that waits for a lock can."""
    called_off()


def called_off_early(kind: type[Site] = Site) -> None:
    """Call a commit off before the only site has said that it waits."""
    sites = world(sites=3, kind=kind)
    name, reader, _ = waiting_commit(sites)
    assert sites.call(1, "abort", name) is False, "that site may have decided"
    sites.run()
    assert isinstance(refused := sites.answer(name), Refused)
    assert refused.rule == CALLED_OFF
    sites.call(2, "commit", reader)
    sites.settle()
    assert (sites.value(3, B), sites.value(3, B2)) == (None, None)


def test_a_commit_that_was_called_off_ends_when_the_only_site_has_to_wait() -> None:
    called_off_early()


@pytest.mark.parametrize("lost", [False, True])
def test_the_only_site_decides_when_the_lock_is_free(*, lost: bool) -> None:
    sites = world(sites=3)
    name, reader, begin = waiting_commit(sites)
    sites.deliver(1, 2)
    if lost:
        sites.lose(2, 1)
    sites.run()
    sites.call(2, "commit", reader)
    sites.run()
    assert kinds(sites, begin)[:5] == [Prepare, Pending, Reply, Prepare, Decide]
    assert isinstance(sites.answer(name), Committed)
    assert (sites.value(3, B), sites.value(3, B2)) == (b"1", b"2")


def test_what_the_only_site_has_said_is_said_again_to_a_coordinator_that_has_heard_nothing() -> (
    None
):
    sites = world(sites=3)
    name, reader, _ = waiting_commit(sites)
    sites.deliver(1, 2)
    sites.call(2, "commit", reader)
    sites.lose(2, 1)
    sites.settle()
    assert isinstance(sites.answer(name), Committed)
    assert (sites.value(3, B), sites.value(3, B2)) == (b"1", b"2")


def test_a_vote_waits_for_the_lock_of_a_write() -> None:
    sites = world(sites=3)
    reader = sites.call(2, "begin").name
    sites.call(2, "read", reader, B2)
    name = updated(sites, {A: b"1", B: b"1", B2: b"2"})
    begin = len(sites.sent)
    sites.call(1, "commit", name)
    sites.run()
    assert kinds(sites, begin) == [Prepare]
    assert sites.site(2).blockers(name) == (reader,)
    sites.call(2, "commit", reader)
    sites.settle()
    assert isinstance(sites.answer(name), Committed)
    assert [sites.value(3, key) for key in (A, B, B2)] == [b"1", b"1", b"2"]


@pytest.mark.parametrize("alone", [True, False])
def test_a_site_that_has_forgotten_the_reads_does_not_take_the_writes(*, alone: bool) -> None:
    sites = world(sites=3)
    name = updated(sites, {B: b"1"} if alone else {A: b"1", B: b"1"})
    sites.crash(2)
    sites.start(2)
    sites.call(1, "commit", name)
    sites.settle()
    assert isinstance(refused := sites.answer(name), Refused)
    assert refused.rule == FORGOTTEN
    assert (sites.value(3, A), sites.value(3, B)) == (None, None)


def lossy(scheme_name: str, seed: int) -> None:
    """Transfer while messages are lost or come twice, and a site may crash: all writes or none."""
    dice = Random(seed)
    sites = World(scheme(scheme_name).variant().build, 3)
    sites.put(1, dict.fromkeys((A, B, B2, C), b"0"))
    name = updated(sites, dict.fromkeys((A, B, B2, C), b"1"))
    if not sites.site(1).is_open(name):
        return
    sites.call(1, "read", name, dice.choice((A, B, C)))
    for _ in range(dice.randrange(40)):
        links = sorted(link for link, mail in sites.mail.items() if mail)
        if not links:
            break
        link = dice.choice(links)
        fate = dice.random()
        if fate < 0.2:
            sites.mail[link].pop(0)
        elif fate < 0.5:
            sites.mail[link].insert(0, sites.mail[link][0])
        else:
            sites.deliver(*link)
        if fate > 0.97 and not sites.crashed:
            sites.crashed.append(2)
            sites.crash(2)
            sites.start(2)
    sites.settle_until_answered(1, name)
    if sites.site(1).is_open(name):
        sites.call(1, "write", name, B, b"2")
        sites.call(1, "commit", name)
    sites.settle()
    expected = [b"1", b"2", b"1", b"1"] if isinstance(sites.answer(name), Committed) else [b"0"] * 4
    assert [sites.value(3, key) for key in (A, B, B2, C)] == expected


@pytest.mark.parametrize("scheme_name", SCHEMES)
def test_all_writes_take_effect_or_none_whatever_is_lost_or_comes_twice(scheme_name: str) -> None:
    for seed in range(30):
        lossy(scheme_name, seed)


def test_every_message_and_every_write_may_be_the_last_before_a_crash() -> None:
    """All writes are there in the end or none, wherever the crash comes."""
    outcomes = set()
    for point in range(1, 40):
        sites = world(sites=3)
        name = sites.call(1, "begin").name
        sites.crash_at = sites.actions + point
        steps = [("read", key) for key in (A, B, C)] + [("write", key, b"1") for key in (A, B, C)]
        for verb, *arguments in (*steps, ("commit",)):
            more = {"update": True} if verb == "read" else {}
            sites.call(1, verb, name, *arguments, **more)
            sites.run()
            if sites.crashed and sites.crash_at is not None:
                sites.crash_at = None
                sites.start(sites.crashed[0])
            sites.settle_until_answered(1, name)
            if not sites.site(1).is_open(name):
                break
        sites.settle()
        sites.crash_at = None
        for site in sites.crashed:
            if sites.seats[site] is None:
                sites.start(site)
        sites.settle()
        values = {sites.value(3, key) for key in (A, B, C)}
        assert len(values) == 1, f"half of it, after action {point}"
        if isinstance(sites.answer(name), Committed):
            assert values == {b"1"}
        outcomes |= values
    assert outcomes == {None, b"1"}


MUTANTS: dict[str, tuple[type[msgspec.Struct], str, str]] = {
    "the prepare leaves the writes behind": (
        Coordinator,
        "settled, life, writes)",
        "settled, life, ())",
    ),
    "a request leaves the writes behind": (
        Coordinator,
        "opening, life, writes)",
        "opening, life, ())",
    ),
    "a site carries out the first of the requests that came together": (
        Resource,
        "if part.queue:",
        "if part.queue == [None]:",
    ),
    "a site votes before it has written": (
        Resource,
        "part.count, part.queue = message.count, [*message.writes, None]",
        "part.count, part.queue = message.count, [None]",
    ),
}


def notice(kind: type[Site]) -> None:
    for middle in (False, True):
        sites = World(scheme("two-phase-locking").variant().build, 3, kind)
        name = updated(sites, {A: b"1", B: b"1", B2: b"1"})
        if middle:
            sites.call(1, "read", name, B)
            sites.run()
            assert isinstance(sites.answer(name), Found)
        sites.call(1, "commit", name)
        sites.settle()
        assert isinstance(sites.answer(name), Committed)
        assert [sites.value(3, key) for key in (A, B, B2)] == [b"1"] * 3


@pytest.mark.parametrize(
    ("part", "old", "new", "notice"),
    [
        (
            Resource,
            "            self._repeat(part, sender, step)\n        elif not part",
            (
                "            part.sites, part.queue = message.sites, [None]\n"
                "            answers = []\n"
                "            self._go_on(part, answers, step)\n"
                "            self.pass_on(answers, step)\n"
                "        elif not part"
            ),
            called_off,
        ),
        (
            Resource,
            "elif coordinator != step.me:",
            "elif False:",
            called_off,
        ),
        (Coordinator, "            course.is_unwanted = True\n", "", called_off_early),
    ],
    ids=["a copy of a prepare commits", "the only site waits to decide", "it is not called off"],
)
def test_a_broken_line_of_what_can_be_called_off_is_noticed(
    part: type[msgspec.Struct], old: str, new: str, notice: Callable[[type[Site]], None]
) -> None:
    kind = broken_sites(part, old, new).site
    with pytest.raises(AssertionError):
        notice(kind)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_line_is_noticed(mutant: str) -> None:
    kind = broken_sites(*MUTANTS[mutant]).site
    with pytest.raises(AssertionError):
        notice(kind)


def test_what_notices_them_finds_nothing_wrong_with_the_lines_as_they_are() -> None:
    notice(Site)


def test_a_write_that_is_held_back_is_counted() -> None:
    visit = Visit(2)
    visit.send(Read("x", update=True))
    assert visit.holds(Write("x", b"1"))
    assert visit.count == 2
    assert not visit.holds(Write("y", b"1"))
    visit.release()
    assert (visit.count, visit.held, visit.request) == (2, [], Write("x", b"1"))


@pytest.mark.parametrize("scheme_name", BY_STAMPS)
def test_where_stamps_decide_a_write_is_sent_at_once(scheme_name: str) -> None:
    sites = World(scheme(scheme_name).variant().build, 3)
    sites.put(1, {B: b"0"})
    name: str = sites.call(1, "begin").name
    sites.call(1, "read", name, B, update=True)
    sites.settle_until_answered(1, name)
    sites.call(1, "write", name, B, b"1")
    assert any(sites.mail.values())
