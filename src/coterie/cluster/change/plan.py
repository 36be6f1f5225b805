"""From a configuration and what an operator wants to a goal, its steps, and what they mean.

Nothing here asks a node: what is refused here is refused whatever the nodes would say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from coterie.algorithms.mutex.quorum.leased.changer import Goal
from coterie.algorithms.mutex.quorum.leased.configuration import (
    FORCED_LEAP,
    Configuration,
    Member,
    Part,
    Rule,
)
from coterie.algorithms.mutex.quorum.leased.settings import Policy, Settings
from coterie.cluster.membership.config import ASK_ALL_VOTERS_MAX
from coterie.cluster.membership.membership import check_times
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.frames import OLDEST_PROTOCOL
from coterie.coteries import parse_coterie
from coterie.coteries.votes import Votes
from coterie.errors import ChangeConflict, ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from coterie.coteries import Coterie

MAJORITY = "majority"
WEIGHTED = "weighted:"
TIMES = ("lease", "rate-error", "margin", "heartbeat", "hedge", "lock-delay")
KEYS = (*TIMES, "coterie", "policy", "votes.NAME", "address.NAME", "protocol")
ADDRESS = "address"
FORCED_BY = "coterie cluster force"


class Newcomer(msgspec.Struct, frozen=True):
    """A node that is to become a voter."""

    name: str
    address: str
    identity: str = ""  # of its disk
    votes: int = 1


class ChangePlan(msgspec.Struct, frozen=True):
    """What a change will do."""

    goal: Goal
    steps: tuple[str, ...]  # in words; none: all is as it is wanted already
    before: (
        int  # how many more may fail, whichever they are, and a quorum is left; -1: there is none
    )
    during: int
    after: int
    leaving: tuple[str, ...] = ()  # nodes that may be switched off at the end


# Goals


def add(present: Configuration, newcomers: Sequence[Newcomer]) -> Goal:
    """Return the goal with more voters."""
    part = _settled(present)
    members = {member.name: member for member in present.members}
    for newcomer in newcomers:
        if newcomer.name in members:
            raise UsageError(
                f"{newcomer.name} is a voter already; if its disk was lost, make its new one the"
                f" voter with coterie cluster replace {newcomer.name}"
            )
        _refuse_taken_address(newcomer, members.values())
        _refuse_taken_disk(newcomer, members.values())
        if newcomer.votes < 1:
            raise UsageError(f"--votes must be at least 1, got {newcomer.votes}")
        seat = next_seat(present) + len(members) - len(present.members)
        members[newcomer.name] = _member(seat, newcomer)
    votes = _votes(part)
    votes |= {members[newcomer.name].seat: newcomer.votes for newcomer in newcomers}
    return _goal(present, tuple(members.values()), _counted(part, votes), votes)


def remove(present: Configuration, names: Sequence[str]) -> Goal:
    """Return the goal without some voters."""
    part = _settled(present)
    gone = {member_named(present, name).seat for name in names}
    members = tuple(member for member in present.members if member.seat not in gone)
    if not members:
        raise UsageError("at least one voter has to stay: to end a cluster, stop its nodes")
    votes = {seat: votes for seat, votes in _votes(part).items() if seat not in gone}
    return _goal(present, members, _counted(part, votes), votes)


def replace(present: Configuration, name: str, newcomer: Newcomer) -> Goal:
    """Return the goal with a node in the place of another one, whose votes it gets.

    It has another name: two voters of one name would stand side by side in the joint step.
    """
    part = _settled(present)
    old = member_named(present, name)
    others = {member.name: member for member in present.members if member.seat != old.seat}
    if newcomer.name == name or newcomer.name in others:
        raise UsageError(f"{newcomer.name} is a voter already: give the new node another name")
    _refuse_taken_address(newcomer, others.values())
    new = _member(next_seat(present), newcomer)
    seats = tuple(new.seat if seat == old.seat else seat for seat in part.seats)
    members = tuple(sorted((*others.values(), new), key=lambda member: member.seat))
    return Goal(present.number, Part(seats, part.settings), members, present.protocol)


def change_settings(present: Configuration, values: Mapping[str, str]) -> Goal:
    """Return the goal with other times, votes, coterie, addresses or protocol; what was derived follows."""
    part = _settled(present)
    if "protocol" in values:
        return _with_protocol(present, part, values)
    chosen = {key: text for key, text in values.items() if key not in ("coterie", "policy")}
    given = {key: _number(key, chosen.pop(key)) for key in TIMES if key in chosen}
    members = _moved(present, addresses_in(values))
    chosen = {key: text for key, text in chosen.items() if not key.startswith(f"{ADDRESS}.")}
    votes = _votes(part)
    for key, text in chosen.items():
        prefix, _, name = key.partition(".")
        if prefix != "votes":
            raise UsageError(f"unknown setting {key!r}; choose from: {', '.join(KEYS)}")
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{key} must be a whole number from 1 on, got {text!r}")
        votes[member_named(present, name).seat] = int(text)
    coterie = values.get("coterie", part.settings.coterie)
    if chosen:
        if not _counts(coterie):
            raise UsageError(
                f"votes do not go with the coterie {coterie}: add coterie={MAJORITY} to the command"
            )
        coterie = _written(votes.values())
    settings = _timed(msgspec.structs.replace(part.settings, coterie=coterie), given)
    settings = _sized(settings, part.settings, values.get("policy"))
    return Goal(present.number, Part(part.seats, settings), members, present.protocol)


def addresses_in(values: Mapping[str, str]) -> dict[str, str]:
    """Return the new addresses among settings, by the names of the voters."""
    keys = {key: key.partition(".") for key in values}
    return {
        name: str(parse_address(values[key]))
        for key, (prefix, _, name) in keys.items()
        if prefix == ADDRESS
    }


def _moved(present: Configuration, addresses: Mapping[str, str]) -> tuple[Member, ...]:
    """Return the voters with their disks, some of them at other addresses.

    Which voters there are stays the same, so their quorums do, and no rule of the protocol looks at an
    address: the step is decided like a change of times.
    """
    for name in addresses:
        member_named(present, name)
    members = tuple(
        msgspec.structs.replace(each, address=addresses.get(each.name, each.address))
        for each in present.members
    )
    owners: dict[str, str] = {}
    for each in members:
        other = owners.setdefault(each.address, each.name)
        if other != each.name:
            raise UsageError(f"{each.address} would be the address of {other} and of {each.name}")
    return members


def finish(present: Configuration) -> Goal:
    """Return the goal that whatever is under way comes to its end."""
    return Goal(present.number)


def abort(present: Configuration) -> Goal:
    """Return the goal that a joint step is taken back; its new voters are not needed for it."""
    if not present.is_joint:
        under_way = "has been decided and can only be finished" if present.open else "is complete"
        raise UsageError(
            f"there is nothing to take back: configuration {present.number} {under_way}"
        )
    part = present.rule.parts[0]
    members = tuple(member for member in present.members if member.seat in part.seats)
    return Goal(present.number, part, members, present.protocol, takes_back=True)


def force(newest: Configuration, kept: Sequence[str], floor: int, leaps: int = 1) -> Configuration:
    """Return a configuration of the voters that are left, which no quorum has decided.

    Two operators that force at the same time draw different numbers of leaps, so that the two
    configurations are leaps apart: the later one is followed, by voters that abstain first (19.11).
    """
    members = tuple(sorted({member_named(newest, name) for name in kept}, key=lambda m: m.seat))
    seats = tuple(member.seat for member in members)
    part = newest.rule.parts[0]
    votes = {seat: _votes(part).get(seat, 1) for seat in seats}
    coterie = _counted(part, votes) if _counts(part.settings.coterie) else MAJORITY
    settings = msgspec.structs.replace(part.settings, voters=len(seats), coterie=coterie)
    rule = Rule(newest.number + leaps * FORCED_LEAP, (Part(seats, settings),))
    # Numbers that lost voters may have decided may have given seats; they are leapt over as well. Two
    # operators that force at the same time must not give one seat to two voters afterwards.
    last_seat = next_seat(newest) - 1 + leaps * FORCED_LEAP
    floor = max(floor, newest.floor)
    return Configuration(
        rule,
        members,
        floor,
        (),
        newest.protocol,
        FORCED_BY,
        last_seat,
        newest.cluster_identity,
    )


def next_seat(present: Configuration) -> int:
    """Return a number that no voter has had before."""
    seats = {member.seat for member in present.members} | present.all_seats()
    return max(present.last_seat, *seats) + 1


def member_named(present: Configuration, name: str) -> Member:
    """Return the voter of that name."""
    found = next((member for member in present.members if member.name == name), None)
    if found is None:
        names = ", ".join(member.name for member in present.members)
        raise UsageError(f"no voter is called {name!r}; the voters are: {names}")
    return found


def votes_of(present: Configuration, seat: int) -> int:
    """Return the votes of a voter; 1 where quorums are not counted."""
    return _votes(present.rule.parts[0]).get(seat, 1)


def _settled(present: Configuration) -> Part:
    """Return the one part of a configuration; refuse to change one that stands between two."""
    if present.is_joint:
        by = f", begun by {present.by}" if present.by else ""
        raise ChangeConflict(
            f"another change is under way{by}: configuration {present.number} is joint; end it with"
            " coterie cluster finish, or take it back with coterie cluster abort"
        )
    return present.rule.parts[0]


def _member(seat: int, newcomer: Newcomer) -> Member:
    return Member(seat, newcomer.name, newcomer.identity, newcomer.address)


def _refuse_taken_address(newcomer: Newcomer, members: Iterable[Member]) -> None:
    taken = next((each.name for each in members if each.address == newcomer.address), None)
    if taken is not None:
        raise UsageError(f"{newcomer.address} is the address of the voter {taken}")


def _refuse_taken_disk(newcomer: Newcomer, members: Iterable[Member]) -> None:
    """Two addresses may lead to one node, and its votes would count twice."""
    disks = {each.identity: each.name for each in members if each.identity}
    if newcomer.identity in disks:
        raise UsageError(
            f"{newcomer.name} has the disk of {disks[newcomer.identity]}: each voter has one of its"
            " own"
        )


def _goal(
    present: Configuration, members: Sequence[Member], coterie: str, votes: Mapping[int, int]
) -> Goal:
    part = present.rule.parts[0]
    seats = tuple(votes)
    resized = msgspec.structs.replace(part.settings, voters=len(seats), coterie=coterie)
    settings = _sized(resized, part.settings, None)
    in_order = tuple(sorted(members, key=lambda member: member.seat))
    return Goal(present.number, Part(seats, settings), in_order, present.protocol)


def _with_protocol(present: Configuration, part: Part, values: Mapping[str, str]) -> Goal:
    if len(values) > 1:
        raise UsageError(
            "the protocol is changed alone, as it cannot be taken back: use one command for it and"
            " another for the rest"
        )
    text, spoken = values["protocol"], protocol_of(present)
    if not text.isdecimal() or int(text) < spoken:
        raise UsageError(
            f"protocol must be a number from {spoken} on, which is in use, got {text!r}:"
            " there is no way back"
        )
    return Goal(present.number, part, present.members, int(text))


def protocol_of(present: Configuration) -> int:
    """Return the protocol that is in use; number 0 names none, and was there before the second."""
    return max(present.protocol, OLDEST_PROTOCOL)


# Settings


def _votes(part: Part) -> dict[int, int]:
    """Return the votes of each seat, in the order of the part; 1 where quorums are not counted."""
    quorums = part.quorums
    counted = quorums.votes if isinstance(quorums, Votes) and _counts(part.settings.coterie) else {}
    return {seat: counted.get(seat, 1) for seat in part.seats}


def _counts(coterie: str) -> bool:
    return coterie == MAJORITY or coterie.startswith(WEIGHTED)


def _written(votes: Iterable[int]) -> str:
    counts = list(votes)
    if set(counts) == {1}:
        return MAJORITY
    return WEIGHTED + ",".join(map(str, counts))


def _counted(part: Part, votes: Mapping[int, int]) -> str:
    """Return the coterie of another set of voters: counted if it was, else the one of that name."""
    coterie = part.settings.coterie
    if _counts(coterie):
        return _written(votes.values())
    if set(votes.values()) != {1}:
        raise UsageError(f"votes do not go with the coterie {coterie}")
    return coterie


def _timed(settings: Settings, given: Mapping[str, float]) -> Settings:
    """Return the settings with these times; those that were derived from the lease are so again."""
    lease = given.get("lease", settings.lease)

    def derived(key: str, value: float, share: float) -> float:
        follows = value == settings.lease / share
        return given.get(key, lease / share if follows else value)

    return msgspec.structs.replace(
        settings,
        lease=lease,
        rate_error=given.get("rate-error", settings.rate_error),
        margin=given.get("margin", settings.margin),
        heartbeat=derived("heartbeat", settings.heartbeat, 4),
        hedge=derived("hedge", settings.hedge, 5),
        unwind=lease,
        lock_delay=given.get("lock-delay", settings.lock_delay),
    )


def _sized(settings: Settings, before: Settings, policy: str | None) -> Settings:
    """Return checked settings, with the policy that is chosen, or that the number of voters suggests."""
    if policy is not None and policy not in get_args(Policy):
        raise UsageError(f"policy must be one of {', '.join(get_args(Policy))}, got {policy!r}")
    was_usual = before.policy == _usual_policy(before)
    chosen = policy or (_usual_policy(settings) if was_usual else before.policy)
    whole = msgspec.structs.replace(settings, policy=chosen)
    check_times(whole)
    try:
        parse_coterie(whole.coterie, whole.voters)
    except ConfigError as error:
        raise ConfigError(
            f"the coterie {whole.coterie} does not fit {whole.voters} voters: {error}; choose one"
            f" that does first, such as coterie cluster set coterie={MAJORITY}"
        ) from None
    return whole


def _usual_policy(settings: Settings) -> Policy:
    few = settings.voters <= ASK_ALL_VOTERS_MAX
    return "all" if few and _counts(settings.coterie) else "quorum"


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key} must be a number, got {text!r}") from None


# What a goal means


def make_plan(present: Configuration, goal: Goal, gone: Collection[int] = ()) -> ChangePlan:
    """Say which steps lead to a goal, and how many failures are borne on the way.

    The seats that are `gone` do not answer, so their failures have happened already.
    """
    before = min(failures_borne(part.quorums, gone) for part in present.rule.parts)
    part = goal.part or present.rule.parts[-1]
    after = failures_borne(part.quorums, gone)
    members = goal.members if goal.part else present.members
    staying = {member.seat for member in members if member.seat in part.seats}
    leaving = tuple(each.name for each in present.members if each.seat not in staying)
    return ChangePlan(
        goal, tuple(_steps(present, goal)), before, min(before, after), after, leaving
    )


def expected(present: Configuration, goal: Goal) -> Configuration:
    """Return what a change will come to, if no other comes in between."""
    assert goal.part is not None, "the goal has voters of its own"
    is_direct = Rule(present.number + 1, (goal.part,)).meets(present.rule)
    rule = Rule(present.number + (1 if is_direct else 2), (goal.part,))
    return Configuration(
        rule,
        goal.members,
        protocol=goal.protocol,
        last_seat=next_seat(present) - 1,
        cluster_identity=present.cluster_identity,
    )


def _steps(present: Configuration, goal: Goal) -> Iterable[str]:
    number = present.number
    if goal.takes_back:
        yield f"configuration {number + 1}: back to {_names(goal.members)}"
        return
    if present.open:
        earlier = ", ".join(str(rule.number) for rule in present.open)
        yield f"configuration {number} comes into force, and {earlier} to its end"
    if goal.part is None:
        if present.is_joint:
            seats = present.rule.parts[1].seats
            new = [member for member in present.members if member.seat in seats]
            yield f"configuration {number + 1}: {_names(new)}"
        return
    wanted = (present.rule.parts, present.members, present.protocol)
    if ((goal.part,), goal.members, goal.protocol) == wanted:
        return
    direct = Rule(number + 1, (goal.part,))
    if not direct.meets(present.rule):
        number += 1
        yield f"configuration {number}: joint, a quorum of the old and one of the new voters"
    yield f"configuration {number + 1}: {_names(goal.members)}{_differences(present, goal)}"


def _names(members: Iterable[Member]) -> str:
    return ", ".join(member.name for member in members)


def _differences(present: Configuration, goal: Goal) -> str:
    """Name the settings that change."""
    assert goal.part is not None, "the goal has settings of its own"
    old, new = present.settings, goal.part.settings
    changed = [
        f"{name.replace('_', '-')} {getattr(old, name)} -> {getattr(new, name)}"
        for name in old.__struct_fields__
        if name not in ("voters", "unwind") and getattr(old, name) != getattr(new, name)
    ]
    old_addresses = {member.seat: member.address for member in present.members}
    changed += [
        f"address of {member.name} {old_addresses[member.seat]} -> {member.address}"
        for member in goal.members
        if old_addresses.get(member.seat, member.address) != member.address
    ]
    if goal.protocol != present.protocol:
        changed.append(f"protocol {protocol_of(present)} -> {goal.protocol}")
    return f"; {', '.join(changed)}" if changed else ""


def failures_borne(quorums: Coterie, gone: Collection[int] = ()) -> int:
    """Return how many more members may fail, whichever they are; -1 if no quorum is left now."""
    if isinstance(quorums, Votes):
        votes = sorted(
            (v for member, v in quorums.votes.items() if member not in gone), reverse=True
        )
        left, failures = sum(votes), -1
        for each in (*votes, 0):
            if left < quorums.threshold:
                break
            failures += 1
            left -= each
        return failures
    live = [quorum for quorum in quorums.quorums if quorum.isdisjoint(gone)]
    failures = 0
    while not _can_be_hit(live, failures):
        failures += 1
    return failures - 1


def _can_be_hit(quorums: Sequence[frozenset[int]], members: int) -> bool:
    """Return whether so many members can be chosen that every quorum has one of them."""
    if not quorums:
        return True
    if members == 0:
        return False
    shortest = min(quorums, key=len)
    return any(
        _can_be_hit([quorum for quorum in quorums if member not in quorum], members - 1)
        for member in shortest
    )
