"""What a scan finds at another site comes in parts, and is one answer all the same."""

from __future__ import annotations

import msgspec
import pytest

from coterie.clocks import Stamp
from coterie.errors import ProtocolError, UsageError
from coterie.process import Outbox, encode
from coterie.transactions.schemes.scheduler import Declaration, Found, Listed, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site import chunks, course
from coterie.transactions.site.messages import Ask, More, Reply
from coterie.transactions.site.site import SILENCE, Site
from tests.transactions.site_storms import judge, named_storm
from tests.transactions.site_world import World, key_at, world
from tests.transactions.test_two_phase_commit import SCHEMES

KEYS = sorted(key_at(2, 3, number) for number in range(5))  # all at site 2
OLD: dict[str, bytes | None] = dict.fromkeys(KEYS, b"old")
NEW: dict[str, bytes | None] = dict.fromkeys(KEYS, b"new")


@pytest.fixture(autouse=True)
def _two_in_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2 * (chunks.FOUND_BYTES + 10))


def scanning(sites: World) -> str:
    """Begin a scan at site 1 of what site 2 keeps; its request is under way."""
    sites.put(1, OLD)
    reader = sites.call(1, "begin")
    sites.sent.clear()
    sites.call(1, "scan", reader.name, Span(), None)
    return str(reader.name)


def values(sites: World, name: str) -> list[tuple[str, bytes | None]]:
    listed = sites.answer(name)
    assert isinstance(listed, Listed), listed
    assert listed.covered == Span()
    return [(found.key, found.value) for found in listed.items]


def next_part(sites: World) -> Reply:
    """Let site 2 answer, as far as the coordinator's link."""
    sites.deliver(1, 2)
    reply = sites.mail[2, 1][-1]
    assert isinstance(reply, Reply)
    return reply


def lossy_scan(kind: type[Site] = Site) -> None:
    """Lose every request for a part once, and every part once; each is asked for again."""
    sites = world(sites=3, kind=kind)
    name = scanning(sites)
    sites.deliver(1, 3)
    sites.deliver(3, 1)
    for _ in range(3):  # so many parts there are
        for link in ((1, 2), (2, 1)):
            assert sites.mail[link], "something is to be lost"
            sites.lose(*link)
            while not sites.mail.get((1, 2)):
                sites.ring(1, SILENCE)
            if link == (1, 2):
                sites.deliver(1, 2)
        sites.run_one()
        sites.deliver(2, 1)
    assert values(sites, name) == list(OLD.items())


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_all_parts_come_and_are_one_answer(name: str, variant: str | None) -> None:
    sites = world(name, variant, sites=3)
    reader = scanning(sites)
    sites.run()
    assert values(sites, reader) == list(OLD.items())
    parts = [m for _, to, m in sites.sent if isinstance(m, Reply) and isinstance(m.answer, Listed)]
    sizes = [len(part.answer.items) for part in parts if isinstance(part.answer, Listed)]
    assert sorted(sizes) == [0, 1, 2, 2], "of site 3 nothing, of site 2 three parts"
    sites.call(1, "commit", reader)
    sites.settle()
    assert sites.idle()


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_what_is_written_between_two_parts_is_in_none(name: str, variant: str | None) -> None:
    """The scheduler has answered once, whenever the rest is asked for."""
    sites = world(name, variant, sites=3)
    reader = scanning(sites)
    while not any(isinstance(m, Reply) and m.more for m in sites.mail.get((2, 1), ())):
        sites.run_one()
    writer = sites.call(2, "begin")
    for key, value in NEW.items():
        if sites.site(2).is_open(writer.name) and not sites.site(2).is_waiting(writer.name):
            sites.call(2, "write", writer.name, key, value)
    if sites.site(2).is_open(writer.name) and not sites.site(2).is_waiting(writer.name):
        sites.call(2, "commit", writer.name)
    sites.run()
    assert values(sites, reader) == list(OLD.items())


def test_a_part_that_gets_lost_is_asked_for_again_and_comes_once() -> None:
    lossy_scan()


def test_parts_that_come_twice_count_once() -> None:
    sites = world(sites=3)
    name = scanning(sites)
    while sites.mail.get((1, 2)):
        part = next_part(sites)
        sites.mail[2, 1].append(part)
        sites.run_one()
        sites.deliver(2, 1)
    sites.run()
    assert values(sites, name) == list(OLD.items())


def test_a_site_that_crashes_between_two_parts_has_forgotten_the_rest() -> None:
    sites = world(sites=3)
    name = scanning(sites)
    next_part(sites)
    sites.crash(2)
    sites.start(2)
    sites.settle()
    assert isinstance(sites.answer(name), Refused)
    assert sites.idle()


def test_at_the_own_site_there_are_no_parts() -> None:
    sites = world(sites=3)
    sites.put(2, OLD)
    reader = sites.call(2, "begin")
    sites.call(2, "scan", reader.name, Span(), None)
    sites.run()
    assert values(sites, reader.name) == list(OLD.items())
    assert not any(isinstance(m, Ask) and isinstance(m.request, More) for _, _, m in sites.sent)


def test_who_asks_for_more_than_there_is_breaks_the_protocol() -> None:
    sites = world(sites=3)
    name = scanning(sites)
    sites.run()
    count = sites.site(2).resource.parts[name].count
    with pytest.raises(ProtocolError, match="nothing more"):
        sites.site(2).receive(1, Ask(1, name, count + 1, More()), Outbox(2))


def test_a_part_is_as_large_as_it_may_be_or_a_single_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of keys that take more bytes than characters, and of the smallest values."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 5000)
    sizes = [0, 1, 3000, 3000, 9000, 0, 0] + [1] * 200
    stamp = Stamp(1 << 62, 1 << 30)
    items = tuple(
        Found(str(stamp), f"ключ-{place}", b"v" * size, stamp) for place, size in enumerate(sizes)
    )
    rest: Listed | None = Listed(str(stamp), items, Span())
    found: list[Found] = []
    while rest is not None:
        part, rest = chunks.divided(rest)
        assert len(part.items) == 1 or len(encode(part)) <= 5000
        found += part.items
    assert tuple(found) == items
    assert chunks.divided(Listed("1.1", (), Span())) == (Listed("1.1", (), Span()), None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_storms_with_every_key_in_a_part_of_its_own_are_serializable(
    name: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever crashes, pauses, gets lost or comes twice between the parts."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1)
    for seed in range(4):
        judge(named_storm(name, variant, 3, seed))


# What goes to disk, or over a link, in one piece


def test_writes_that_are_too_large_together_are_refused_before_a_site_hears_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "WRITTEN_BYTES_MAX", 1000)
    sites = world(sites=3)
    writer = sites.write(1, {KEYS[0]: b"x" * 500, KEYS[1]: b"x" * 400})
    sent = len(sites.sent)
    for _ in range(2):
        with pytest.raises(
            UsageError, match=r"would take 1,10\d bytes, and at most 1,000 go to disk"
        ):
            sites.call(1, "write", writer.name, KEYS[2], b"x" * 200)
    assert len(sites.sent) == sent
    sites.call(1, "write", writer.name, KEYS[0], b"small")  # in the place of what was large
    sites.run()
    sites.call(1, "write", writer.name, KEYS[2], b"x" * 200)
    sites.run()
    sites.call(1, "commit", writer.name)
    sites.settle()
    assert sites.value(3, KEYS[0]) == b"small"
    assert sites.value(3, KEYS[2]) == b"x" * 200


def test_a_declaration_that_is_too_large_is_refused_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "DECLARED_BYTES_MAX", 100)
    sites = world("conservative", sites=3)
    declared = Declaration(tuple(map(Span.of, ["k" * 30, "l" * 30])), ())
    before = msgspec.msgpack.encode(sites.site(1))
    with pytest.raises(UsageError, match="declares 2 keys and spans of 122 bytes"):
        sites.call(1, "begin", declared)
    assert msgspec.msgpack.encode(sites.site(1)) == before
    sites.call(1, "begin", Declaration((Span("k", "m"),), ()))
