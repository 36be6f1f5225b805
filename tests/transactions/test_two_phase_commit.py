"""Two-phase commit over several sites, moved by hand: every rule that is easy to get wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from coterie.clocks import Stamp
from coterie.process import Outbox
from coterie.transactions.schemes.scheduler import Committed, Declaration, Found, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.events import Answered, Doubted
from coterie.transactions.site.messages import (
    Acknowledge,
    Ask,
    Collect,
    Decide,
    Inquire,
    Pending,
    Prepare,
    Promise,
    Reply,
    Vote,
    Want,
)
from coterie.transactions.site.records import (
    AnyRecord,
    Decided,
    Ended,
    Ready,
    Reserved,
    Settled,
    Wrote,
    recall,
)
from coterie.transactions.site.site import OVERDUE, SILENCE, Site
from tests.transactions.site_world import World, key_at, world

A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)  # kept by sites 1, 2 and 3 of three
SCHEMES = (
    ("two-phase-locking", "detection"),
    ("two-phase-locking", "wait-die"),
    ("two-phase-locking", "wound-wait"),
    ("timestamp-ordering", None),
    ("thomas-write-rule", None),
    ("multiversion", None),
    ("conservative", None),
    ("optimistic", "parallel"),
    ("optimistic", "serial"),
)


def voted(coordinator: int = 1) -> tuple[World, str]:
    """Bring a transaction that writes at all three sites to where all votes are under way."""
    sites = world(sites=3)
    writes: dict[str, bytes | None] = {A: b"1", B: b"1", C: b"1"}
    attempt = sites.write(coordinator, writes)
    sites.call(coordinator, "commit", attempt.name)
    for site in (1, 2, 3):
        if site != coordinator:
            sites.deliver(coordinator, site)
    return sites, attempt.name


def records(sites: World, site: int) -> list[type]:
    """Name the records of a site's log, but for those of the clock."""
    decode = msgspec.msgpack.Decoder(AnyRecord).decode
    kinds = [type(decode(record)) for record in sites.logs[site]]
    return [kind for kind in kinds if kind is not Reserved]


def test_the_votes_and_the_decision_are_on_disk_before_anybody_hears_of_them() -> None:
    """2.8 a: a participant logs its writes before it votes, a coordinator its decision first."""
    sites, name = voted()
    assert records(sites, 2) == [Ready]
    assert recall(b"", sites.logs[2]).ready[name].writes == {B: b"1"}
    assert sites.answer(name) is None or not isinstance(sites.answer(name), Committed)
    assert Decided not in records(sites, 1)
    sites.deliver(2, 1)
    assert Decided not in records(sites, 1)
    sites.deliver(3, 1)
    assert records(sites, 1) == [Ready, Decided, Settled]
    assert isinstance(sites.answer(name), Committed)
    sites.run()
    assert records(sites, 2) == [Ready], "that it has committed can be written later"
    assert sites.site(1).facts()["not acknowledged"] == [name], "but not acknowledged before"
    sites.catch_up()
    assert sites.site(1).facts()["not acknowledged"] == []
    assert records(sites, 1) == [Ready, Decided, Settled], "that all know can be written later"
    assert records(sites, 2) == [Ready, Settled]
    sites.put(1, {A: b"1"})
    assert records(sites, 1) == [Ready, Decided, Settled, Ended, Wrote]
    assert [sites.value(1, key) for key in (A, B, C)] == [b"1", b"1", b"1"]


def test_what_a_coordinator_knows_nothing_about_is_aborted() -> None:
    """2.8 b: no record means abort, and an abort needs neither record nor acknowledgement."""
    sites, name = voted()
    sites.crash(1)
    sites.start(1)  # before it had all votes
    sites.run()
    sites.settle()
    assert sites.idle()
    assert Decided not in records(sites, 1)
    assert sites.count(Acknowledge) == 0
    assert [sites.value(2, key) for key in (A, B, C)] == [None, None, None]
    assert not isinstance(sites.answer(name), Committed)


def test_a_site_that_gave_up_before_its_vote_refuses_a_late_prepare() -> None:
    """2.8 b: it votes no, and the transaction has no effect anywhere."""
    sites = world(sites=3)
    attempt = sites.write(1, {A: b"1", B: b"1"})
    sites.call(1, "commit", attempt.name)
    late = sites.mail.pop((1, 2))
    while sites.site(2).takes_part(attempt.name):
        sites.ring(2, SILENCE)
        sites.mail.pop((2, 1), None)
    sites.mail[1, 2] = late
    sites.settle()
    assert isinstance(sites.answer(attempt.name), Refused)
    assert sites.value(3, A) is None
    assert sites.value(3, B) is None


def test_a_forgotten_request_is_a_vote_against() -> None:
    """2.8 b: a site that has lost part of what a transaction did there does not vote for the rest."""
    sites = world(sites=3)
    attempt = sites.write(1, {A: b"1", B: b"1"})
    sites.crash(2)
    sites.start(2)
    sites.call(1, "write", attempt.name, B, b"2")
    sites.run()
    assert isinstance(sites.answer(attempt.name), Refused)
    sites.settle()
    assert sites.value(1, A) is None


def test_one_in_doubt_blocks_keeps_its_locks_and_says_so() -> None:
    """2.8 c: with the coordinator down and no peer that knows, it waits and is visible."""
    sites, name = voted()
    sites.crash(1)
    for _ in range(10):
        for site in (2, 3):
            sites.ring(site, SILENCE)
        sites.run()
    assert sites.site(2).facts()["in doubt"] == [name]
    reader = sites.call(3, "begin")
    sites.call(3, "read", reader.name, B)
    sites.run()
    assert sites.answer(reader.name) is None
    assert sites.site(2).facts()["waiting"] == {reader.name: [name]}


def test_one_in_doubt_is_helped_by_a_peer_that_knows_of_the_commit() -> None:
    """2.8 c: the coordinator, then the peers: one with the decision unblocks."""
    sites, name = voted()
    sites.deliver(2, 1)
    sites.deliver(3, 1)
    sites.deliver(1, 2)  # the decision; site 3 does not get it
    sites.lose(1, 3)
    sites.crash(1)
    assert sites.site(3).facts()["in doubt"] == [name]
    for _ in range(3):
        sites.ring(3, SILENCE)
        sites.run()
    assert sites.site(3).facts()["in doubt"] == []
    assert dict(sites.site(3).scheduler.latest())[C].value == b"1"


def test_one_in_doubt_is_helped_by_a_peer_that_has_not_voted() -> None:
    """2.8 c: such a peer ends the transaction, so it cannot commit any more."""
    sites = world(sites=3)
    attempt = sites.write(1, {A: b"1", B: b"1", C: b"1"})
    sites.call(1, "commit", attempt.name)
    sites.deliver(1, 2)
    sites.lose(1, 3)
    sites.crash(1)
    for _ in range(3):
        sites.ring(2, SILENCE)
        sites.run()
    assert sites.site(2).facts()["in doubt"] == []
    assert not sites.site(3).takes_part(attempt.name)
    sites.start(1)
    sites.settle()
    assert sites.value(2, B) is None


def reader_left(again: bool, kind: type[Site] = Site) -> tuple[World, str]:
    """Leave site 2 in doubt about a commit, site 3 having read and left, and site 1 being down.

    With `again`, the first request to the reader comes once more when it has left.
    """
    sites = world(sites=3, kind=kind)
    attempt = sites.call(1, "begin")
    sites.call(1, "read", attempt.name, C)
    first = sites.mail[1, 3][0]
    sites.run()
    for key in (A, B):
        sites.call(1, "write", attempt.name, key, b"1")
        sites.run()
    sites.call(1, "commit", attempt.name)
    for link in ((1, 2), (1, 3), (3, 1), (2, 1)):
        sites.deliver(*link)
    assert isinstance(sites.answer(attempt.name), Committed)
    sites.lose(1, 2)
    if again:
        sites.mail[1, 3] = [first]
        sites.deliver(1, 3)
    sites.crash(1)
    for _ in range(4):
        if SILENCE in sites.timers[2]:
            sites.ring(2, SILENCE)
            sites.run()
    return sites, attempt.name


@pytest.mark.parametrize("again", [False, True])
def test_a_reader_that_has_left_settles_nothing(again: bool) -> None:
    """2.8 c and f: whoever knows nothing may have left because it had only read: no evidence."""
    sites, name = reader_left(again)
    assert not sites.site(3).takes_part(name)
    assert sites.site(2).facts()["in doubt"] == [name]
    sites.start(1)
    sites.settle()
    assert sites.value(3, A) == sites.value(3, B) == b"1"


@pytest.mark.parametrize("kind", [Prepare, Vote, Decide, Acknowledge, Ask, Reply])
def test_duplicates_are_harmless(kind: type) -> None:
    """2.8 d: each message of the protocol twice, and once more when everything is over."""
    sites = world(sites=3)
    again: list[tuple[int, int, Any]] = []

    def run_with_duplicates() -> None:
        while any(sites.mail.values()):
            for link in sorted(sites.mail):
                if sites.mail[link]:
                    message = sites.mail[link][0]
                    if isinstance(message, kind) and (*link, message) not in again:
                        again.append((*link, message))
                        sites.mail[link].insert(0, message)
                    sites.deliver(*link)

    attempt = sites.call(1, "begin")
    for key in (A, B, C):
        sites.call(1, "write", attempt.name, key, b"1")
        run_with_duplicates()
    sites.call(1, "commit", attempt.name)
    run_with_duplicates()
    for site in (2, 3):
        sites.ring(site, OVERDUE)  # what they have put off is written
    run_with_duplicates()
    answers = [e.answer for _, e in sites.told if isinstance(e, Answered)]
    assert sum(isinstance(answer, Committed) for answer in answers) == 1
    assert again
    for sender, receiver, message in again:
        sites.mail.setdefault((sender, receiver), []).append(message)
    sites.settle()
    assert sites.idle()
    assert [sites.value(2, key) for key in (A, B, C)] == [b"1", b"1", b"1"]


def test_a_decision_about_an_unknown_transaction_is_acknowledged() -> None:
    """2.8 d: or its coordinator would repeat it for ever."""
    sites = world(sites=3)
    sites.mail[1, 2] = [Decide(7, "7.1", Stamp(7, 1))]
    sites.deliver(1, 2)
    assert sites.mail[2, 1] == [Acknowledge(7, "7.1")]


def test_names_never_repeat_after_a_restart() -> None:
    """2.8 d and 2.0 g: stamps are unique and grow at each site, whatever crashes."""
    sites = world(sites=2)
    names = []
    for _ in range(5):
        attempts = [sites.call(1, "begin") for _ in range(3)]
        names += [attempt.stamp for attempt in attempts]
        sites.crash(1)
        sites.start(1)
    assert names == sorted(set(names))


@pytest.mark.slow
def test_a_hundred_thousand_stamps_of_two_sites_differ_and_grow_at_each() -> None:
    """2.0 g: pairs of a counter and a site; no clock of the machine is asked, so none can err."""
    sites = world(sites=2)
    out: Outbox[Any] = Outbox(1)
    seen: set[tuple[int, int]] = set()
    for number in (1, 2):
        site = sites.site(number)
        stamps = [site.journal.tick(number, out) for _ in range(50_000)]
        assert stamps == sorted(set(stamps))
        seen.update(stamps)
    assert len(seen) == 100_000


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_nobody_sees_half_of_a_transfer(name: str, variant: str | None) -> None:
    """2.8 e: the coordinator pauses in mid-commit; a reader of both accounts waits or sees all."""
    sites = world(name, variant, sites=3)
    attempt = sites.write(1, {B: b"90", C: b"110"})
    sites.settle_waits()
    sites.call(1, "commit", attempt.name)
    while not sites.site(1).facts()["not acknowledged"]:
        sites.run_one()
    sites.deliver(1, 2)  # the decision reaches one of the two
    paused = sites.mail.pop((1, 3))
    reader = sites.call(3, "begin", declared(B, C))
    seen = [read_if_answered(sites, reader.name, key) for key in (B, C)]
    sites.mail[1, 3] = paused
    sites.settle_waits()
    if len([value for value in seen if value != "waits"]) == 2:
        sites.call(3, "commit", reader.name)
        sites.settle_waits()
        whole = seen in ([b"90", b"110"], [None, None])
        assert isinstance(sites.answer(reader.name), Committed if whole else Refused)
    else:
        sites.call(3, "abort", reader.name)
    assert [sites.value(2, key) for key in (B, C)] == [b"90", b"110"]


def read_if_answered(sites: World, name: str, key: str) -> Any:
    """Read a key while site 1 is out of reach."""
    if not sites.site(3).is_open(name) or sites.site(3).is_waiting(name):
        return "waits"
    sites.call(3, "read", name, key)
    while sites.mail.get((2, 3)) or sites.mail.get((3, 2)):
        for link in ((2, 3), (3, 2)):
            if sites.mail.get(link):
                sites.deliver(*link)
    answer = sites.answer(name)
    return answer.value if isinstance(answer, Found) and answer.key == key else "waits"


def test_a_site_that_was_only_read_leaves_at_its_vote_and_not_before() -> None:
    """2.8 f: no operation can follow a prepare, so its locks may go then."""
    sites = world(sites=3)
    reader = sites.call(1, "begin")
    for key in (B, C):
        sites.call(1, "read", reader.name, key)
        sites.run()
    writer = sites.call(2, "begin")
    sites.call(2, "write", writer.name, B, b"1")
    assert sites.answer(writer.name) is None, "the reader may still ask for more"
    sites.call(1, "commit", reader.name)
    sites.deliver(1, 2)
    assert sites.answer(writer.name) is not None
    sites.run()
    assert isinstance(sites.answer(reader.name), Committed)
    assert sites.count(Decide) == 0, "nobody was left to hear a decision"


def test_readers_of_optimistic_transactions_stay_until_the_decision() -> None:
    """2.8 f and 2.6 k: what is validated stays in every site's active set."""
    sites = world("optimistic", sites=3)
    reader = sites.call(1, "begin")
    sites.call(1, "read", reader.name, B)
    sites.run()
    sites.call(1, "write", reader.name, C, b"1")
    sites.run()
    sites.call(1, "commit", reader.name)
    sites.deliver(1, 2)
    assert sites.site(2).facts()["in doubt"] == [reader.name]


def test_validated_in_opposite_orders_at_two_sites_at_most_one_commits() -> None:
    """2.6 k: T1 is validated first at A, T2 first at B, and they conflict at both."""
    sites = world("optimistic", sites=3)
    attempts = [sites.call(1, "begin"), sites.call(3, "begin")]
    for site, attempt in zip((1, 3), attempts, strict=True):
        for key in (A, B):
            sites.call(site, "read", attempt.name, key)
            sites.run()
            sites.call(site, "write", attempt.name, key, attempt.name.encode())
            sites.run()
    sites.call(1, "commit", attempts[0].name)  # validated at site 1 at once
    sites.call(3, "commit", attempts[1].name)
    sites.deliver(3, 2)  # validated at site 2 before the other
    sites.run()
    outcomes = [isinstance(sites.answer(attempt.name), Committed) for attempt in attempts]
    assert sum(outcomes) <= 1


def test_write_skew_over_two_sites_commits_one_of_two_at_most() -> None:
    """2.6 k: each reads at one site and writes at the other; each is validated first somewhere."""
    sites = world("optimistic", sites=3)
    first, second = sites.call(1, "begin"), sites.call(1, "begin")
    for attempt, read, write in ((first, B, C), (second, C, B)):
        sites.call(1, "read", attempt.name, read)
        sites.run()
        sites.call(1, "write", attempt.name, write, b"off")
        sites.run()
    sites.call(1, "commit", first.name)
    prepare_3 = sites.mail.pop((1, 3))
    sites.deliver(1, 2)
    sites.call(1, "commit", second.name)
    sites.mail[1, 3].append(prepare_3[0])  # the second is validated first there
    sites.run()
    outcomes = [isinstance(sites.answer(attempt.name), Committed) for attempt in (first, second)]
    assert sum(outcomes) <= 1


@pytest.mark.parametrize("variant", ["detection", "wait-die", "wound-wait"])
def test_one_that_has_voted_is_wounded_by_nobody(variant: str) -> None:
    """2.8 g and 2.1 h7: prepared beats age, deadlocks and silence."""
    sites = world(variant=variant, sites=3)
    older = sites.call(2, "begin")
    sites.call(1, "begin")
    young = sites.write(1, {B: b"1", C: b"1"})
    sites.call(1, "commit", young.name)
    sites.deliver(1, 2)
    sites.call(2, "write", older.name, B, b"2")
    for _ in range(8):
        for timer in list(sites.timers[2]):
            sites.ring(2, timer)
        sites.lose(2, 1)
        sites.lose(2, 3)
    assert sites.site(2).facts()["in doubt"] == [young.name]
    sites.settle()
    assert isinstance(sites.answer(young.name), Committed | Refused)
    assert sites.site(2).facts()["in doubt"] == []


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_a_transaction_of_one_site_sends_no_message(name: str, variant: str | None) -> None:
    """2.8 h: one phase; only conservative sites ask each other whether anything older may come."""
    sites = world(name, variant, sites=3)
    attempt = sites.call(1, "begin", declared(A))
    for verb in (("read", A), ("write", A, b"1"), ("commit",)):
        sites.call(1, verb[0], attempt.name, *verb[1:])
        sites.run()
    assert isinstance(sites.answer(attempt.name), Committed)
    assert {type(message) for _, _, message in sites.sent} <= {Want, Promise}
    assert not sites.sent or name == "conservative"
    assert records(sites, 1) == [Wrote]


def declared(*keys: str) -> Any:
    spans = tuple(Span.of(key) for key in keys)
    return Declaration(spans, spans)


@pytest.mark.parametrize(
    ("name", "reads", "writes", "costs"),
    [
        ("two-phase-locking", [], [A], (0, 0, 1)),
        ("two-phase-locking", [], [B], (2, 3, 1)),
        ("two-phase-locking", [], [A, B], (2, 4, 2)),
        ("two-phase-locking", [], [B, C], (4, 8, 3)),
        ("two-phase-locking", [], [A, B, C], (4, 8, 3)),
        ("two-phase-locking", [C], [A, B], (4, 6, 2)),
        ("two-phase-locking", [A, B, C], [], (4, 4, 0)),
        ("optimistic", [C], [A, B], (4, 8, 3)),
        ("optimistic", [A, B, C], [], (4, 8, 3)),
    ],
)
def test_what_a_commit_costs(
    name: str, reads: list[str], writes: list[str], costs: tuple[int, int, int]
) -> None:
    """Messages until the user knows, messages in all, and how often a disk has to be waited for."""
    until_told, in_all, writes_to_disk = costs
    sites = world(name, sites=3)
    attempt = sites.call(1, "begin")
    for key in reads:
        sites.call(1, "read", attempt.name, key)
        sites.run()
    for key in writes:
        sites.call(1, "write", attempt.name, key, b"1")
        sites.run()
    sent, actions = len(sites.sent), sites.actions
    sites.call(1, "commit", attempt.name)
    delivered = 0
    while not isinstance(sites.answer(attempt.name), Committed):
        sites.run_one()
        delivered += 1
    assert delivered == until_told
    sites.run()
    assert (sites.actions - actions) - (len(sites.sent) - sent) == writes_to_disk
    sites.catch_up()
    assert len(sites.sent) - sent == in_all


def test_the_only_site_of_a_transaction_decides_by_itself() -> None:
    """2.8 h: one round trip where one site takes part, wherever it is; then an acknowledgement."""
    sites = world(sites=3)
    attempt = sites.write(1, {B: b"1"})
    sent = len(sites.sent)
    sites.call(1, "commit", attempt.name)
    sites.run()
    sites.catch_up()
    kinds = [type(message) for _, _, message in sites.sent[sent:]]
    assert kinds == [Prepare, Decide, Acknowledge]
    assert records(sites, 2) == [Wrote, Decided]


def test_the_outcome_is_unknown_while_the_only_site_is_silent_and_not_aborted() -> None:
    """2.0 f: it is killed between decision and reply; the truth comes when it is back."""
    sites = world(sites=3)
    attempt = sites.write(1, {B: b"1"})
    sites.call(1, "commit", attempt.name)
    sites.deliver(1, 2)  # it has committed
    sites.lose(2, 1)
    sites.crash(2)
    for _ in range(8):
        sites.ring(1, SILENCE)
        sites.run()
    assert Doubted(attempt.name) in [event for _, event in sites.told]
    assert not isinstance(sites.answer(attempt.name), Refused | Committed)
    assert sites.call(1, "abort", attempt.name) is False
    sites.start(2)
    sites.settle()
    assert isinstance(sites.answer(attempt.name), Committed)
    assert sites.value(3, B) == b"1"


def test_a_user_hears_nothing_from_a_coordinator_that_dies_between_decision_and_reply() -> None:
    """2.0 f: so the outcome is unknown to it, and the decision stands."""
    sites, name = voted()
    sites.deliver(2, 1)
    sites.crash_at = sites.actions + 1  # the decision is on disk, and nobody was told
    sites.deliver(3, 1)
    assert sites.crashed == [1]
    assert not isinstance(sites.answer(name), Committed | Refused)
    sites.crash_at = None
    sites.start(1)
    sites.settle()
    assert [sites.value(2, key) for key in (A, B, C)] == [b"1", b"1", b"1"]


@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_an_abort_comes_in_time_until_the_decision(name: str, variant: str | None) -> None:
    """Presumed abort: whoever has voted, there is no decision before the coordinator's."""
    outcomes = set()
    for moment in range(40):
        dice = Random(moment)
        sites = world(name, variant, sites=3)
        writer = sites.write(1, {A: b"1", B: b"1", C: b"1"}).name
        sites.call(1, "commit", writer)
        for _ in range(moment // 2):
            links = sorted(link for link, mail in sites.mail.items() if mail)
            if links:
                sites.deliver(*dice.choice(links))
        in_time = sites.site(1).is_open(writer)
        assert sites.call(1, "abort", writer) is True, "one that has ended stays as it was"
        sites.settle()
        assert isinstance(sites.answer(writer), Committed) is not in_time
        expected = None if in_time else b"1"
        assert [sites.value(2, key) for key in (A, B, C)] == [expected] * 3
        outcomes.add(in_time)
    assert outcomes == {True, False}


def test_an_abort_is_too_late_where_another_site_decides() -> None:
    sites = world(sites=3)
    writer = sites.write(1, {B: b"1"}).name
    sites.call(1, "commit", writer)
    assert sites.call(1, "abort", writer) is False
    sites.run()
    assert isinstance(sites.answer(writer), Committed)
    assert sites.value(3, B) == b"1"


def test_whoever_asks_again_hears_for_whom_its_request_waits() -> None:
    sites = world(sites=3)
    holder = sites.write(3, {B: b"1"})
    waiter = sites.call(1, "begin")
    sites.call(1, "write", waiter.name, B, b"2")
    sites.run()
    for _ in range(2):
        sites.ring(1, SILENCE)
        sites.run()
    assert sites.site(1).blockers(waiter.name) == (holder.name,)
    sites.call(3, "abort", holder.name)
    sites.run()
    sites.call(1, "read", waiter.name, A)
    assert sites.site(1).blockers(waiter.name) == ()


def test_an_abort_reaches_every_site() -> None:
    sites = world(sites=3)
    attempt = sites.write(1, {A: b"1", B: b"1", C: b"1"})
    assert sites.call(1, "abort", attempt.name)
    sites.run()
    assert sites.idle()
    assert [sites.value(1, key) for key in (A, B, C)] == [None, None, None]


def test_a_silent_site_is_asked_again_and_then_given_up() -> None:
    """Before any vote everything may be undone, so nobody waits for ever."""
    sites = world(sites=3)
    attempt = sites.write(1, {A: b"1", B: b"1"})
    sites.crash(2)
    sites.call(1, "commit", attempt.name)
    for _ in range(8):
        if SILENCE in sites.timers[1]:
            sites.ring(1, SILENCE)
            sites.run()
    answer = sites.answer(attempt.name)
    assert isinstance(answer, Refused)
    assert answer.rule == "a site does not answer"


def test_a_user_who_thinks_for_long_keeps_its_transaction() -> None:
    """Sites ask the coordinator whether it is alive, and that it is."""
    sites = world(sites=3)
    attempt = sites.write(1, {B: b"1"})
    for _ in range(12):
        for site in (1, 2):
            sites.ring(site, SILENCE)
            sites.run()
    assert sites.count(Inquire) > 1
    assert sites.count(Pending) > 1
    sites.call(1, "commit", attempt.name)
    sites.run()
    assert isinstance(sites.answer(attempt.name), Committed)


def test_a_scan_asks_every_site_and_puts_the_answers_in_order() -> None:
    sites = world(sites=3)
    keys = sorted([A, B, C, key_at(1, 3, 1), key_at(2, 3, 1)])
    writer = sites.write(2, {key: key.encode() for key in keys})
    sites.call(2, "commit", writer.name)
    sites.run()
    for limit, expected in ((None, keys), (2, keys[:2])):
        reader = sites.call(1, "begin")
        sites.call(1, "scan", reader.name, Span(), limit)
        sites.run()
        listed = sites.answer(reader.name)
        assert [found.key for found in listed.items] == expected
        assert keys[1] in listed.covered
        assert (keys[2] in listed.covered) is (limit is None)
        sites.call(1, "commit", reader.name)
        sites.run()


def test_no_deadlock_is_looked_for_where_there_can_be_none() -> None:
    for name, variant in SCHEMES:
        if variant != "detection":
            sites = world(name, variant, sites=2)
            assert sites.site(1).scheduler.may_deadlock() is False
            assert sites.count(Collect) == 0
