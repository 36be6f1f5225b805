"""Single rules of sites, each by the shortest script that needs it, and each broken once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError, ProtocolError
from coterie.process import encode
from coterie.transactions.schemes.scheduler import Accepted, Committed, Found, Listed, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.events import Doubted, Installed
from coterie.transactions.site.journal import RECORDS_MAX, Journal
from coterie.transactions.site.messages import Ask, Decide, Inquire, Pending, Reply, Vote
from coterie.transactions.site.resource import ENDED_MAX, Resource
from coterie.transactions.site.site import SILENCE
from coterie.transactions.site.step import RINGS_MAX
from tests.transactions.broken_sites import Kinds, broken_sites
from tests.transactions.site_world import World, key_at, world

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

NOTICED = (AssertionError, KeyError, IndexError, MisuseError)  # by a test, or by the site itself
A, B = key_at(1, 2), key_at(2, 2)


@dataclass(frozen=True)
class Rule:
    """A script, and pieces of a class that it needs."""

    script: Callable[[type[Any]], None]
    part: type[msgspec.Struct]
    broken: dict[str, str]  # old text and new


def let_snapshot(sites: World, site: int) -> None:
    """Let a site replace its log as if it were long."""
    sites.site(site).journal.logged = RECORDS_MAX + 1
    sites.put_snapshot(site)


def begins_above(kind: type[Any]) -> None:
    sites = world(kind=kind)
    above = Stamp(50, 2)
    assert sites.call(1, "begin", above=above).stamp > above


def validates(kind: type[Any]) -> None:
    sites = world(kind=kind)
    idle = sites.call(1, "begin").name
    sites.call(1, "validate", idle)
    assert isinstance(sites.answer(idle), Accepted), "there is nothing to ask about"
    reader = sites.call(1, "begin").name
    sites.call(1, "read", reader, B)
    sites.run()
    sites.call(1, "validate", reader)
    assert isinstance(sites.answer(reader), Found), "the site where it has read has to be asked"
    sites.run()
    assert isinstance(sites.answer(reader), Accepted)


def scans_twice(kind: type[Any]) -> None:
    sites = world(kind=kind)
    sites.put(1, {A: b"1", B: b"1"})
    reader = sites.call(1, "begin").name
    for _ in range(2):
        sites.call(1, "scan", reader, Span(), None)
        sites.run()
        listed = sites.answer(reader)
        assert isinstance(listed, Listed)
        assert [item.key for item in listed.items] == sorted([A, B])


def refuses_answers_of_another_kind(kind: type[Any]) -> None:
    sites = world(kind=kind)
    reader = sites.call(1, "begin").name
    sites.call(1, "scan", reader, Span(), None)
    sites.run_one()
    sites.mail[2, 1] = [Reply(1, reader, 1, Found(reader, B, b"1", Stamp(0, 0)))]
    try:
        sites.deliver(2, 1)
    except ProtocolError:
        return
    raise AssertionError("it was taken")


def is_patient_with_a_site_that_waits(kind: type[Any]) -> None:
    sites = world(kind=kind)
    holder = sites.call(2, "begin").name
    sites.call(2, "write", holder, B, b"1")
    sites.run()
    waiter = sites.call(1, "begin").name
    sites.call(1, "write", waiter, B, b"2")
    for _ in range(RINGS_MAX):
        sites.settle_waits()
    assert sites.site(1).is_waiting(waiter)


def doubts_once(kind: type[Any]) -> None:
    """The only site that decides is away: the user hears of it, and once."""
    sites = world(kind=kind)
    writer = sites.write(1, {B: b"1"}).name
    sites.call(1, "commit", writer)
    sites.crash(2)

    def doubts() -> list[Any]:
        return [event for _, event in sites.told if event == Doubted(writer)]

    for ring in range(1, 2 * RINGS_MAX):
        sites.ring(1, SILENCE)
        sites.run()
        assert len(doubts()) == (ring > RINGS_MAX), f"after {ring} rings"


def ends_a_decision_once(kind: type[Any]) -> None:
    """What a snapshot has left out must not be ended in the log after it."""
    sites = world(kind=kind)
    sites.put(1, {A: b"1", B: b"1"})
    let_snapshot(sites, 1)
    sites.put(1, {A: b"2", B: b"2"})
    sites.crash(1)
    sites.start(1)
    sites.settle()
    assert sites.value(1, A) == b"2"


def leaves_a_short_log(kind: type[Any]) -> None:
    sites = world(kind=kind)
    let_snapshot(sites, 1)
    sites.put(1, {A: b"1"})
    sites.put_snapshot(1)
    assert sites.logs[1], "it is not replaced so soon"


def tells_again_what_was_installed(kind: type[Any]) -> None:
    """A crash may come between the disk and the user."""
    sites = world(kind=kind)
    writer = sites.write(1, {A: b"1"}).name
    sites.crash_at = sites.actions + 1
    sites.call(1, "commit", writer)
    assert sites.crashed == [1]
    sites.start(1)
    installed = [event.writes for _, event in sites.told if isinstance(event, Installed)]
    assert installed == [((A, b"1"),)]


def remembers_what_others_may_ask(kind: type[Any]) -> None:
    """One site has not heard of a commit, and its coordinator is gone: a third one has to know it."""
    sites = world(sites=3, kind=kind)
    a, b, c = (key_at(site, 3) for site in (1, 2, 3))
    before = sites.call(1, "begin").name
    first = sites.write(1, {b: b"1", c: b"1"}).name
    sites.call(1, "commit", first)
    for link in ((1, 2), (1, 3), (2, 1), (3, 1), (1, 2)):
        sites.deliver(*link)
    sites.lose(1, 3)
    sites.call(1, "abort", before)
    second = sites.write(1, {a: b"2", b: b"2"}).name
    sites.call(1, "commit", second)
    sites.run()
    sites.crash(1)
    for _ in range(RINGS_MAX):
        sites.ring(3, SILENCE)
        sites.run()
    assert not sites.site(3).in_doubt()


def counts_votes_that_it_has_asked_for(kind: type[Any]) -> None:
    sites = world(kind=kind)
    writer = sites.call(1, "begin").name
    sites.call(1, "write", writer, B, b"1")
    sites.mail[2, 1] = [Vote(1, writer, Stamp(1, 2)), Decide(1, writer, Stamp(1, 2))]
    sites.deliver(2, 1)
    sites.deliver(2, 1)
    assert sites.site(1).is_waiting(writer)


def gives_up_a_dead_site(kind: type[Any]) -> None:
    """Also where its own site has a part in the request, and waits."""
    sites = world(kind=kind)
    holder = sites.write(1, {A: b"1"}).name
    reader = sites.call(1, "begin").name
    sites.crash(2)
    sites.call(1, "scan", reader, Span(), None)
    asked = sites.count(Ask)
    sites.ring(1, SILENCE)
    assert sites.count(Ask) == asked, "one ring may come at once"
    for _ in range(2 * RINGS_MAX):
        if sites.site(1).is_open(reader):
            sites.run()
            sites.ring(1, SILENCE)
    assert not sites.site(1).is_open(reader)
    assert Decide(sites.site(1).clock, reader) in sites.mail[1, 2], "it need not ask"
    assert sites.site(1).is_open(holder)


def tells_all_others_of_a_refusal(kind: type[Any]) -> None:
    sites = world(sites=3, kind=kind)
    writer = sites.write(1, {key_at(site, 3): b"1" for site in (1, 2, 3)}).name
    sites.mail[2, 1] = [Reply(1, writer, 1, Refused(writer, "why", (), ()))]
    sites.deliver(2, 1)
    assert Decide(sites.site(1).clock, writer) in sites.mail[1, 3]
    assert not sites.mail.get((1, 2)), "it knows"


def remembers_what_another_coordinator_decided(kind: type[Any]) -> None:
    """What is over for one coordinator says nothing of the transactions of another."""
    sites = world(sites=3, kind=kind)
    b, c = key_at(2, 3), key_at(3, 3)
    first = sites.write(1, {b: b"1", c: b"1"}).name
    sites.call(1, "commit", first)
    for link in ((1, 2), (1, 3), (2, 1), (3, 1), (1, 2)):
        sites.deliver(*link)
    sites.lose(1, 3)
    second = sites.write(3, {key_at(2, 3, 1): b"2", key_at(3, 3, 1): b"2"}).name
    sites.call(3, "commit", second)
    sites.run()
    sites.crash(1)
    for _ in range(RINGS_MAX):
        if SILENCE in sites.timers[3]:
            sites.ring(3, SILENCE)
            sites.run()
    assert not sites.site(3).in_doubt()


def helps_another_out_of_doubt_by_an_abort(kind: type[Any]) -> None:
    """A voter that has heard of the abort knows it, though it keeps no record of it."""
    sites = world(sites=3, kind=kind)
    writer = sites.write(1, {key_at(2, 3): b"1", key_at(3, 3): b"1"}).name
    sites.call(1, "commit", writer)
    sites.deliver(1, 2)
    sites.deliver(1, 3)
    sites.call(1, "abort", writer)
    sites.lose(2, 1)
    sites.deliver(1, 2)
    sites.crash(1)
    sites.lose(1, 3)
    for _ in range(RINGS_MAX):
        if SILENCE in sites.timers[3]:
            sites.ring(3, SILENCE)
            sites.run()
    assert not sites.site(3).in_doubt()


def forgets_the_oldest_ends(kind: type[Any]) -> None:
    sites = world(kind=kind)
    ended = sites.site(1).resource.ended
    ended |= {f"{time}.2": True for time in range(ENDED_MAX)}
    sites.put(1, {A: b"1"})
    assert ENDED_MAX / 2 < len(ended) <= ENDED_MAX
    assert "0.2" not in ended
    assert f"{ENDED_MAX - 1}.2" in ended


def asks_a_silent_coordinator_and_leaves_it(kind: type[Any]) -> None:
    """Before its vote a site may end a transaction whose coordinator is gone, but not at once."""
    sites = world(kind=kind)
    writer = sites.write(1, {B: b"1"}).name
    sites.crash(1)
    asked = []
    for _ in range(RINGS_MAX):
        sites.ring(2, SILENCE)
        asked.append(sites.count(Inquire))
        assert sites.site(2).takes_part(writer)
    assert asked == list(range(RINGS_MAX)), "one ring may come at once"
    sites.ring(2, SILENCE)
    assert not sites.site(2).takes_part(writer)


def asks_others_when_the_coordinator_is_silent(kind: type[Any]) -> None:
    sites = world(sites=3, kind=kind)
    writer = sites.write(1, {key_at(site, 3): b"1" for site in (1, 2, 3)}).name
    sites.call(1, "commit", writer)
    sites.deliver(1, 2)
    sites.crash(1)
    asked = []
    for _ in range(3):
        sites.ring(2, SILENCE)
        asked.append([to for sender, to, message in sites.sent if isinstance(message, Inquire)])
    assert asked == [[], [1], [1, 1, 3]]


def hears_only_the_coordinator(kind: type[Any]) -> None:
    """Another site that knows nothing is no reason to be patient."""
    sites = world(sites=3, kind=kind)
    writer = sites.write(1, {key_at(2, 3): b"1"}).name
    sites.crash(1)
    for _ in range(RINGS_MAX + 1):
        sites.mail[3, 2] = [Pending(1, writer)]
        sites.deliver(3, 2)
        sites.ring(2, SILENCE)
    assert not sites.site(2).takes_part(writer)


def answers_once_more_what_it_has_decided(kind: type[Any]) -> None:
    """The only site has decided, and its answer is lost."""
    sites = world(kind=kind)
    writer = sites.write(1, {B: b"1"}).name
    sites.call(1, "commit", writer)
    sites.deliver(1, 2)
    sites.lose(2, 1)
    for _ in range(2):
        sites.ring(1, SILENCE)
    sites.run()
    assert isinstance(sites.answer(writer), Committed)


def tells_what_takes_effect(kind: type[Any]) -> None:
    sites = world(kind=kind)
    sites.put(1, {A: b"1", B: b"1"})
    sites.put(1, {B: b"2"})
    told = [(site, event.writes) for site, event in sites.told if isinstance(event, Installed)]
    assert sorted(told) == [(1, ((A, b"1"),)), (2, ((B, b"1"),)), (2, ((B, b"2"),))]


def forgets_outcomes(kind: type[Any]) -> None:
    sites = world(kind=kind)
    for value in (b"1", b"2", b"3"):
        sites.put(1, {A: value, B: value})
    assert len(sites.site(2).journal.outcomes) == 1, "the last one: no site asks about the others"


def does_nothing_for_one_that_has_voted(kind: type[Any]) -> None:
    """A request that comes once more must not change what the vote is for."""
    sites = world(sites=3, kind=kind)
    writer = sites.call(1, "begin").name
    sites.call(1, "write", writer, key_at(2, 3), b"1")
    again = list(sites.mail[1, 2])
    sites.run()
    sites.call(1, "write", writer, key_at(3, 3), b"1")
    sites.run()
    sites.call(1, "commit", writer)
    sites.deliver(1, 2)
    before = encode(sites.site(2).resource), encode(sites.site(2).scheduler)
    sites.mail[1, 2] = again
    sites.deliver(1, 2)
    assert (encode(sites.site(2).resource), encode(sites.site(2).scheduler)) == before


RULES = {
    "outcomes are forgotten": Rule(
        forgets_outcomes,
        Resource,
        {
            "if settled <= self.settled[coordinator - 1]:": "if settled > self.settled[coordinator - 1]:"
        },
    ),
    "one that has voted is asked in vain": Rule(
        does_nothing_for_one_that_has_voted,
        Resource,
        {"            return\n        elif not part.is_meant": "        elif not part.is_meant"},
    ),
    "each site tells what takes effect there": Rule(
        tells_what_takes_effect,
        Resource,
        {
            "            step.out.tell(Installed(name, number, tuple(writes.items())))": "            pass",
            "            step.out.tell(Installed(name, number, tuple(prepared.writes.items())))": "            pass",
        },
    ),
    "the only site says again what it has decided": Rule(
        answers_once_more_what_it_has_decided,
        Resource,
        {"name, journal.decided[name].number))": "name))"},
    ),
    "an outcome is remembered as long as its coordinator has not settled it": Rule(
        remembers_what_others_may_ask,
        Resource,
        {"time_of(name) < settled": "time_of(name) <= settled"},
    ),
    "outcomes are forgotten by the word of their own coordinator": Rule(
        remembers_what_another_coordinator_decided,
        Resource,
        {"if coordinator_of(name) == coordinator and": "if"},
    ),
    "a voter that was told of an abort tells others": Rule(
        helps_another_out_of_doubt_by_an_abort,
        Resource,
        {
            "writes\n        self._end(name, aborted=number is None)": "writes\n        self._end(name, aborted=False)",
            "elif self.ended.get(name):": "elif False:",
        },
    ),
    "ends are forgotten, the oldest first": Rule(
        forgets_the_oldest_ends,
        Resource,
        {
            "                del self.ended[oldest]": "                pass",
            "list(islice(self.ended, ENDED_MAX // 4))": "list(self.ended)[-ENDED_MAX // 4 :]",
        },
    ),
    "a silent coordinator is asked, then left": Rule(
        asks_a_silent_coordinator_and_leaves_it,
        Resource,
        {
            "            if part.silence == 1:\n                continue\n": "",
            "elif part.silence > RINGS_MAX:": "elif part.silence >= RINGS_MAX:",
            "                self.refuse(name, ABANDONED, step)": "                pass",
        },
    ),
    "others are asked when the coordinator is silent": Rule(
        asks_others_when_the_coordinator_is_silent,
        Resource,
        {
            "if part.silence > 2:": "if part.silence >= 2:",
            "if site not in (step.me, coordinator)": "if site != step.me",
        },
    ),
    "the word of the coordinator alone makes a site patient": Rule(
        hears_only_the_coordinator,
        Resource,
        {"part is not None and sender == coordinator_of(name)": "part is not None"},
    ),
    "a refusal is told to all sites but that which refuses": Rule(
        tells_all_others_of_a_refusal,
        Coordinator,
        {
            "for site in course.sites if site != sender]": "for site in course.sites if site == sender]",
            "site for site in course.sites if site != sender": "*course.sites",
        },
    ),
    "an outcome is remembered while a site may ask about it": Rule(
        remembers_what_others_may_ask,
        Coordinator,
        {
            "return min((*own": "return max((*own",
            "if coordinator_of(name) == step.me]": "if coordinator_of(name) != step.me]",
        },
    ),
    "no vote or decision counts before it was asked for": Rule(
        counts_votes_that_it_has_asked_for,
        Coordinator,
        {
            'course is None or course.state == "running" or': "course is None or",
            ' and course.alone and course.state != "running"': " and course.alone",
        },
    ),
    "a dead site is given up, and told": Rule(
        gives_up_a_dead_site,
        Coordinator,
        {
            " and sender in course.awaited and sender != step.me": " and sender in course.awaited",
            "            if course.silence == 1:\n                continue\n": "",
            "                step.out.broadcast(course.sites, Decide(step.clock, name))\n": "",
        },
    ),
    "a transaction begins above what its user has seen": Rule(
        begins_above, Coordinator, {"            step.advance(above.time)\n": "            pass\n"}
    ),
    "all that was read is validated": Rule(
        validates,
        Coordinator,
        {
            "if course.visits:\n            self._ask": "if not course.visits:\n            self._ask",
            "            step.answer(Accepted(name))\n\n": "            pass\n\n",
            "            self._ask(course, course.sites, Validate(), step)": "            pass",
        },
    ),
    "a second scan begins with nothing": Rule(
        scans_twice, Coordinator, {"            course.lists.clear()": "            pass"}
    ),
    "an answer fits its request": Rule(
        refuses_answers_of_another_kind,
        Coordinator,
        {"if isinstance(answer, Listed) != isinstance(course.request, Scan):": "if False:"},
    ),
    "a site that waits is not given up": Rule(
        is_patient_with_a_site_that_waits,
        Coordinator,
        {
            "            course.silence = 0\n            course.blockers +=": "            course.blockers +="
        },
    ),
    "doubt is told once, and not too soon": Rule(
        doubts_once,
        Coordinator,
        {
            '            course.state = "doubted"\n': "",
            'course.silence > RINGS_MAX and course.state == "voting"': 'course.state == "voting"',
        },
    ),
    "a decision that a snapshot has left out is not ended after it": Rule(
        ends_a_decision_once,
        Journal,
        {
            "            self.logged = 0\n            self.overdue.clear()\n": "            self.logged = 0\n"
        },
    ),
    "a short log is not replaced": Rule(
        leaves_a_short_log, Journal, {"            self.logged = 0\n": ""}
    ),
    "what was installed is told after a crash": Rule(
        tells_again_what_was_installed,
        Journal,
        {"for wrote in past.installed:": "for wrote in ():"},
    ),
}
BROKEN = [(name, old) for name, rule in RULES.items() for old in rule.broken]


@pytest.mark.parametrize("name", RULES)
def test_it_holds(name: str) -> None:
    RULES[name].script(Kinds().site)


@pytest.mark.parametrize(("name", "old"), BROKEN)
def test_it_is_noticed_when_it_is_broken(name: str, old: str) -> None:
    rule = RULES[name]
    kinds = broken_sites(rule.part, old, rule.broken[old])
    with pytest.raises(NOTICED):
        rule.script(kinds.site)
