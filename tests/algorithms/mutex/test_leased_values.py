"""Values of locks: the rules of section 21, one by one and in a small world with random failures."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    CopyValue,
    Data,
    Fetch,
    Forget,
    Grant,
    ListValues,
    Look,
    Reply,
    Report,
    Request,
    Seen,
    SessionName,
    UpBody,
    ValueCopied,
    ValueList,
    Write,
    Written,
)
from coterie.algorithms.mutex.quorum.leased.register import BYTES_MAX, NAMES_MAX, Register
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.process import Outbox
from tests.algorithms.mutex.leased_value_rules import (
    FIRST_SEEDS,
    OPEN_RULES,
    VALUE_RULES,
    ValueRule,
)
from tests.algorithms.mutex.leased_values import ValueWorld, outcome

SETTINGS = Settings(3, interval=8, reserve=0)
MEMBERS = tuple(Member(seat, f"n{seat}", f"disk{seat}") for seat in (1, 2, 3, 4))


def configuration(number: int = 1, protocol: int = 8, *, is_open: bool = False) -> Configuration:
    part = Part((1, 2, 3), SETTINGS)
    still_open = (Rule(number - 1, (part,)),) if is_open else ()
    return Configuration(
        Rule(number, (part,)), MEMBERS[:3], 0, still_open, protocol, cluster_identity="it"
    )


class Node:
    """A voter with its disk, and one participant that speaks with it."""

    def __init__(self, present: Configuration | None = None) -> None:
        self.voter = Voter(present or configuration())
        self.voter.identity = "disk1"
        self.saved, self.log = b"", list[bytes]()
        self.seq = 0
        self.saves = 0
        self.start()

    def start(self) -> None:
        self.step(self.voter.start, "v")
        self.voter.abstains_until = float("-inf")

    def restart(self) -> None:
        present = self.voter.configuration
        self.voter = Voter(present)
        self.voter.identity = "disk1"
        self.seq = 0
        self.start()

    def step(self, handler: Any, *arguments: Any) -> list[Any]:
        out: Outbox[Any] = Outbox(1, 1.0)
        out.saved, out.log = self.saved, tuple(self.log)
        handler(*arguments, out)
        if out.to_save is not None:
            self.saved, self.log = out.to_save, []
            self.saves += 1
        self.log += out.appended
        return [message for _, message in out.sends]

    def say(self, *bodies: UpBody, name: str = "p", number: int | None = None) -> list[Any]:
        """Send lock messages in the session of a participant; return the answers in the session."""
        self.seq += 1
        link = self.voter.sessions.get(name)
        session = link.session if link else SessionName(name, 1)
        seq = link.delivered + 1 if link else 1
        counted = self.voter.number if number is None else number
        frame = Data(session, seq, 0, 5, 1.0, bodies, counted, counted)
        sent = self.step(self.voter.receive, 9, frame)
        return [body for each in sent if isinstance(each, Reply) for body in each.bodies]

    def own(self, name: str = "p", *, shared: bool = False) -> tuple[Grant, list[Any]]:
        answers = self.say(Request("x", 1, 5, 5, shared=shared), name=name)
        (grant,) = [body for body in answers if isinstance(body, Grant)]
        return grant, [body for body in answers if body is not grant]


def value(token: int, sequence: int = 1, data: bytes | None = b"data") -> StoredValue:
    return StoredValue(token, sequence, data)


def test_a_lock_without_a_value_sends_and_saves_what_it_did() -> None:
    node = Node()
    _, others = node.own()
    assert others == []
    assert node.log == []
    assert not node.voter.register.is_used


def test_the_owner_writes_and_the_next_one_is_told_of_it() -> None:
    node = Node()
    grant, _ = node.own()
    written = value(grant.high)
    assert node.say(Write("x", 1, written)) == [Written("x", 1, grant.high, 1)]
    node.step(node.voter.end_session, "p")
    _, others = node.own("q")
    assert others == [Report("x", 1, written)]


def test_what_is_large_comes_when_it_is_asked_for() -> None:
    node = Node()
    grant, _ = node.own()
    written = value(grant.low, data=b"." * 2000)
    node.say(Write("x", 1, written))
    node.step(node.voter.end_session, "p")
    _, (report,) = node.own("q")
    assert (report.value.data, report.whole) == (None, False)
    assert node.say(Fetch("x", 1), name="q") == [Report("x", 1, written)]


@pytest.mark.parametrize("why", ["ended", "shared", "above", "below", "protocol", "number"])
def test_who_may_not_write_does_not(why: str) -> None:
    node = Node(configuration(protocol=7 if why == "protocol" else 8))
    grant, _ = node.own(shared=why == "shared")
    token = grant.high + 1 if why == "above" else grant.high
    if why == "below":
        node.say(Write("x", 1, value(token, 2)))
    if why == "ended":
        node.step(node.voter.end_session, "p")
        node.own("q")
    number = 0 if why == "number" else None
    known = node.voter.register.find("x")
    assert node.say(Write("x", 1, value(token)), number=number) == []
    assert node.voter.register.find("x") == known


def test_the_same_again_is_acknowledged_and_kept_once() -> None:
    node = Node()
    grant, _ = node.own()
    node.say(Write("x", 1, value(grant.low)))
    records = len(node.log)
    assert node.say(Write("x", 1, value(grant.low))) == [Written("x", 1, grant.low, 1)]
    assert len(node.log) == records


def test_values_and_the_bound_are_there_after_a_start_and_two() -> None:
    node = Node()
    grant, _ = node.own()
    node.say(Write("x", 1, value(grant.low)))
    node.say(Request("y", 2, 6, 900))  # saves another bound
    bound = node.voter.bound
    assert node.log, "it is a record, or it had taken the place of the value"
    for _ in range(2):
        node.restart()
        assert node.voter.register.find("x") == value(grant.low)
        assert node.voter.bound == bound
        assert node.log == [], "a start saves all that it has read"


def test_many_records_become_a_snapshot() -> None:
    node = Node()
    grant, _ = node.own()
    saves = node.saves
    for sequence in range(1, 40):
        node.say(Write("x", 1, value(grant.low, sequence, b"." * 60_000)))
    assert node.saves > saves
    assert sum(map(len, node.log)) < 2 << 20
    node.restart()
    assert node.voter.register.find("x").sequence == 39


def test_a_full_register_refuses_and_takes_deletions() -> None:
    register = Register()
    for number in range(BYTES_MAX >> 16):
        register.keep(f"n{number}", value(1, data=bytes(1 << 16)))
    assert register.objection("more", value(1)) != ""
    assert register.objection("n0", value(2, data=None)) == ""
    assert register.objection("n0", value(2, data=bytes(1 << 16))) == ""
    for number in range(NAMES_MAX):
        register.keep(f"n{number}", value(3, data=None))
    assert register.objection("more", value(1, data=None)) != ""
    assert register.size == 0


def test_a_voter_says_that_there_is_no_room() -> None:
    node = Node()
    grant, _ = node.own()
    for number in range(NAMES_MAX):
        node.voter.register.keep(f"n{number}", value(1, data=None))
    (answer,) = node.say(Write("x", 1, value(grant.low)))
    assert answer.refusal == "a node keeps values of 10000 names at most"
    assert node.voter.register.find("x") == NOTHING


def test_a_deleted_value_is_forgotten_only_while_no_number_is_open() -> None:
    for is_open in (False, True):
        node = Node(configuration(2, is_open=is_open))
        grant, _ = node.own()
        node.say(Write("x", 1, value(grant.low, data=None)))
        node.say(Forget("x", 1, grant.low, 1))
        assert ("x" in node.voter.register.values) == is_open


def test_a_copy_is_taken_while_its_number_is_open_and_above_what_is_there() -> None:
    node = Node(configuration(2, is_open=True))
    copy = CopyValue(1, "x", value(7))
    assert node.step(node.voter.receive, 9, copy) == [ValueCopied(1, "x", 7, 1)]
    older = CopyValue(1, "x", value(6))
    assert node.step(node.voter.receive, 9, older) == [ValueCopied(1, "x", 7, 1)]
    over = CopyValue(0, "x", value(8))
    assert node.step(node.voter.receive, 9, over) == []
    assert node.voter.register.find("x") == value(7)


def test_values_are_listed_page_by_page_by_voters_that_have_adopted_the_number() -> None:
    node = Node()
    for number in range(1500):
        node.voter.register.keep(f"n{number:04}", value(1))
    (first,) = node.step(node.voter.receive, 9, ListValues(1))
    assert isinstance(first, ValueList)
    assert (len(first.values), first.more) == (1000, True)
    (rest,) = node.step(node.voter.receive, 9, ListValues(1, first.values[-1][0]))
    assert (len(rest.values), rest.more) == (500, False)
    assert node.step(node.voter.receive, 9, ListValues(2)) == []


def test_a_reader_is_answered_while_no_votes_are_given_and_not_by_a_number_that_is_closed() -> None:
    node = Node(configuration(2, is_open=True))
    node.voter.register.keep("x", value(7))
    node.voter.abstains_until, node.voter.closed = 100.0, 0
    assert node.step(node.voter.receive, 9, Look(3, "x", 1, 2)) == [Seen(3, "x", value(7))]
    known = Look(4, "x", 2, 2, 7, 1)
    assert node.step(node.voter.receive, 9, known) == [
        Seen(4, "x", value(7).without_data(), whole=False)
    ]
    node.voter.closed = 1
    (stale,) = node.step(node.voter.receive, 9, Look(5, "x", 1, 2))
    assert not isinstance(stale, Seen)


def test_another_seat_and_a_force_change_what_the_values_are_worth() -> None:
    node = Node()
    node.voter.register.keep("x", value(7))
    forced = msgspec.structs.replace(
        configuration(), rule=Rule(1 << 17, configuration().rule.parts)
    )
    node.step(node.voter.impose, forced)
    assert node.voter.register.find("x").doubtful
    moved = msgspec.structs.replace(
        forced,
        rule=Rule((1 << 17) + 1, forced.rule.parts),
        members=(Member(9, "n1", "disk1"), *MEMBERS[1:3]),
    )
    node.step(node.voter.adopt, moved)
    assert node.voter.register.values == {}
    node.restart()
    assert node.voter.register.values == {}


@pytest.mark.parametrize("changes", [False, True])
def test_no_run_breaks_a_promise(*, changes: bool) -> None:
    reads = writes = 0
    for seed in range(8):
        monitor = ValueWorld(seed, changes=changes).run()
        reads, writes = reads + monitor.reads, writes + monitor.writes
    assert reads > 100
    assert writes > 50


@pytest.mark.parametrize("name", sorted(set(VALUE_RULES) - set(OPEN_RULES)))
def test_a_broken_rule_is_noticed(name: str) -> None:
    assert noticed(VALUE_RULES[name], FIRST_SEEDS.get(name, 0))


def noticed(rule: ValueRule, first: int) -> str:
    kit = rule.kit()
    for seed in (first, *range(rule.seeds)):
        said = outcome(seed, kit, changes=rule.changes)
        if said:
            return said
    return ""
