"""Configurations, and frames about them, with absurd values: from programs, operators and nodes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie import system
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Attempt,
    Close,
    NewConfiguration,
    Prepare,
    Query,
)
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import CONFIGURATIONS_MAX, check_decided
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.cluster.wire.voter_frames import Impose, Reach, decode_to_voter
from coterie.errors import ProtocolError
from tests.cluster.absurd import absurd
from tests.cluster.local_cluster import document

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTEMPT = Attempt(1, "changer")


def decided(number: int = 1) -> Configuration:
    """Return a sound configuration of three voters that leaves the one before it open."""
    settings = convert(document(3)).membership.settings
    part = Part((1, 2, 3), settings)
    members = tuple(Member(seat, f"n{seat}", f"disk {seat}", f"n{seat}:7420") for seat in (1, 2, 3))
    rules = Rule(number, (part,)), Rule(number - 1, (part,))
    return Configuration(rules[0], members, 5, rules[1:], PROTOCOL, "changer")


def decoded(value: msgspec.Struct, kind: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


def test_a_configuration_that_nothing_can_have_decided_is_refused_or_harmless() -> None:
    membership = convert(document(3)).membership
    check_decided(decided())
    refused = 0
    for lie in absurd(decided()):
        try:
            learnt = decoded(lie, Configuration)
            check_decided(learnt)
        except (ProtocolError, msgspec.ValidationError):
            refused += 1
            continue
        after = membership.after(learnt)
        assert [after.at(seat).name for seat in after.seats]
        assert learnt.rule.meets(learnt.rule)
        participant(learnt, after.seats[0])
    assert refused > 100


@pytest.mark.parametrize(
    "changes",
    [{"floor": (1 << 63) - 1}, {"rule": Rule(CONFIGURATIONS_MAX + 1, decided().rule.parts)}],
)
def test_numbers_that_no_cluster_reaches_are_refused(changes: dict[str, Any]) -> None:
    """They could not be taken back: numbers and tokens only grow."""
    with pytest.raises(ProtocolError, match="makes no sense"):
        check_decided(msgspec.structs.replace(decided(), **changes))


def test_two_voters_of_one_part_cannot_have_one_name() -> None:
    """In the joint step they can, while a disk is replaced under its name."""
    members = decided().members
    twins = (members[0], msgspec.structs.replace(members[1], name="n1"), members[2])
    with pytest.raises(ProtocolError, match="makes no sense"):
        check_decided(msgspec.structs.replace(decided(), members=twins))
    old, settings = decided().rule.parts[0], decided().settings
    rule = Rule(1, (old, Part((1, 2, 4), settings)))
    new = Member(4, "n3", "a new disk", "n3:7420")
    check_decided(msgspec.structs.replace(decided(), rule=rule, members=(*members, new)))


def test_two_voters_of_one_part_cannot_have_one_disk() -> None:
    """Where no identity is known, nothing speaks against it."""
    first, second, third = decided().members
    twins = (first, msgspec.structs.replace(second, identity=first.identity), third)
    with pytest.raises(ProtocolError, match="makes no sense"):
        check_decided(msgspec.structs.replace(decided(), members=twins))
    unknown = tuple(msgspec.structs.replace(each, identity="") for each in decided().members)
    check_decided(msgspec.structs.replace(decided(), members=unknown))


class Line:
    """Takes what a voter sends."""

    def send(self, frame: msgspec.Struct) -> None:
        """Have it encoded, as it would leave."""
        msgspec.msgpack.encode(frame)


def voter() -> VoterHost:
    def reach(name: str, address: str, done: Any) -> None:
        """Call no node."""

    def fail(error: OSError) -> None:
        raise error

    membership = convert(document(3)).membership
    voting = VoterHost(membership, "a", None, fail, reach=reach, new_cluster=True)
    voting.start()
    for number, role in ((1, "operator"), (2, "participant")):
        hello = Hello(6, "", "", role, role, role, b"", newest=PROTOCOL)  # type: ignore[arg-type]
        voting.enter(number, hello, Line())
    return voting


def questions() -> Iterator[msgspec.Struct]:
    truths = (
        NewConfiguration(decided()),
        Prepare(0, ATTEMPT),
        Accept(ATTEMPT, decided()),
        Close(0),
        Impose(decided()),
        Reach("b", "b:7420"),
    )
    return (lie for truth in truths for lie in (truth, *absurd(truth)))


def test_no_value_in_a_frame_about_configurations_makes_a_voter_stumble() -> None:
    async def main() -> None:
        refused = 0
        for lie in questions():
            voting = voter()
            for number, identity in ((1, ""), (2, "participant")):
                try:
                    voting.receive(number, identity, decode_to_voter(msgspec.msgpack.encode(lie)))
                except (ProtocolError, msgspec.ValidationError, msgspec.DecodeError):
                    refused += 1
            assert voting.voter.clock < 1 << 60
            voting.receive(1, "", Query())
            voting.stop()
        assert refused > 500

    asyncio.run(main())


def test_one_attempt_with_the_last_round_leaves_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last round grows with the time of day, so a changer gets past it a moment later."""
    at = time.time()
    monkeypatch.setattr(system, "wall", lambda: at)

    async def main() -> None:
        voting = voter()
        last = next(
            shift
            for shift in range(64)
            if refuses(voting, Prepare(0, Attempt(1 << shift, "changer")))
        )
        assert last < 48, "it is not all of the rounds that there are"
        low, high = 1 << (last - 1), 1 << last
        while high - low > 1:
            middle = (low + high) // 2
            if refuses(voter(), Prepare(0, Attempt(middle, "changer"))):
                high = middle
            else:
                low = middle
        assert not refuses(voting, Prepare(0, Attempt(low, "a broken changer")))
        assert refuses(voting, Prepare(0, Attempt(low + 1, "changer")))
        monkeypatch.setattr(system, "wall", lambda: at + 0.01)
        assert not refuses(voting, Prepare(0, Attempt(low + 1, "changer")))

    asyncio.run(main())


def refuses(voting: VoterHost, frame: Prepare) -> bool:
    try:
        voting.receive(1, "", frame)
    except ProtocolError:
        return True
    return False
