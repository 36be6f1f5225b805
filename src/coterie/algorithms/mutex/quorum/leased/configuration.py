"""Numbered configurations: who votes, by which rule votes are counted, and which numbers are open.

A vote belongs to a voter and a lock, whatever the configuration. Only counting depends on it: every
participant counts all its votes by the rule of one number at a time, and only moves up. For two
numbers in use, either every quorum of the one meets every quorum of the other, or the older one is
finished: no participant counts by it, now or later, and the tokens that it could have used lie at or
below the floor of the newer one. Section 19 (docs/protocol/changes.md) has the argument.

Number 0 is what the file of a cluster says. Each later one is decided by the voters of the one
before it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta

from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.coteries import Coterie, parse_coterie, unanimous
from coterie.coteries.joint import Joint, is_blocking, meet, seated

if TYPE_CHECKING:
    from coterie.process import ProcessId

SEATS_MAX = 1024  # of voters, in one configuration
OPEN_MAX = 64  # numbers that are not finished
FORCED_LEAP = 1 << 16  # of a number that was not decided, over all that may have been

Text: TypeAlias = Annotated[str, Meta(max_length=512)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
SeatNumber: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 48)]  # each force leaps far


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A voter as people and other nodes find it; the protocol only passes this on."""

    seat: SeatNumber  # its process number; given once, and never to another voter
    name: Text = ""
    identity: Text = ""  # of its disk
    address: Text = ""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Voters, and the rules that they share."""

    seats: Annotated[tuple[SeatNumber, ...], Meta(min_length=1, max_length=SEATS_MAX)]
    settings: Settings  # its coterie is one of places 1 and up, in the order of the seats

    @property
    def quorums(self) -> Coterie:
        """The coterie, of the seats."""
        return _seated(self.seats, self.settings.coterie)


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """How votes are counted in one number: by one part, or by a quorum of both the old and the new."""

    number: Count
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=2)]

    @property
    def settings(self) -> Settings:
        """Times and policy; while there are two parts those of the old one."""
        return self.parts[0].settings

    @property
    def seats(self) -> tuple[ProcessId, ...]:
        """The voters, in order."""
        return self.quorums.members

    @property
    def quorums(self) -> Coterie:
        """The coterie, of the seats."""
        first = self.parts[0]
        if len(self.parts) == 1:
            return _seated(first.seats, first.settings.coterie)
        return _joint(
            first.seats, first.settings.coterie, self.parts[1].seats, self.parts[1].settings.coterie
        )

    def meets(self, other: Rule) -> bool:
        """Return whether any quorum of this rule has a voter in common with any of the other.

        A quorum of two parts contains one of each, so it suffices that one part meets one. Where
        this says no although all quorums meet, a step more is taken than is needed.
        """
        return any(meet(one.quorums, two.quorums) for one in self.parts for two in other.parts)

    def is_blocked_by(self, voters: list[ProcessId]) -> bool:
        """Return whether every quorum contains one of these voters."""
        return is_blocking(self.quorums, voters)


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """A rule with its number, and what has become of the numbers before it."""

    rule: Rule
    members: Annotated[tuple[Member, ...], Meta(max_length=2 * SEATS_MAX)] = ()
    # No token above the floor can ever be used by a number that is neither this one nor open, so
    # entries under this one use tokens above it.
    floor: Count = 0
    # Earlier numbers that were not known to be finished when this was proposed, or noted since.
    open: Annotated[tuple[Rule, ...], Meta(max_length=OPEN_MAX)] = ()
    protocol: Count = 0  # the version whose meaning the messages have
    by: Text = ""  # the changer that proposed it; for reports
    # No earlier configuration had a seat above it. A seat is never given a second time: a participant
    # that was away would take votes of the voter that had it for votes of the one that has it now.
    last_seat: Count = 0
    # Of the cluster: the name of the changer that formed it, which no other changer has. It tells two
    # installations apart whose clusters have the same name. Empty: the file, which forms nothing.
    cluster_identity: Text = ""
    # That a holder of the operator secret vouches for all of the above; the protocol only passes it on.
    proof: Annotated[bytes, Meta(max_length=64)] = b""

    def __str__(self) -> str:
        """Write the number and the voters: 3: 1,2,4; while joint, those of both parts."""
        parts = [",".join(map(str, part.seats)) for part in self.rule.parts]
        still_open = "".join(f", {rule.number} open" for rule in self.open)
        return f"{self.number}: {' and '.join(parts)}{still_open}"

    @property
    def number(self) -> int:
        """The number."""
        return self.rule.number

    @property
    def settings(self) -> Settings:
        """Times and policy."""
        return self.rule.parts[0].settings

    @property
    def seats(self) -> tuple[ProcessId, ...]:
        """The voters, in order."""
        return self.rule.seats

    @property
    def quorums(self) -> Coterie:
        """The coterie, of the seats."""
        return self.rule.quorums

    @property
    def is_joint(self) -> bool:
        """Whether it stands between two others."""
        return len(self.rule.parts) > 1

    @property
    def deciders(self) -> Coterie:
        """The voters that decide the next number, with their quorums.

        While two parts are joint the old one decides, so that a step whose new voters are dead can
        be taken back without them. Of number 0 all have to: the file does not say which disks are
        meant, so one that was lost could have promised something.
        """
        first = self.rule.parts[0]
        return unanimous(first.seats) if self.number == 0 else first.quorums

    def rule_of(self, number: int) -> Rule | None:
        """Return the rule of this number, or of one that is open."""
        if number == self.number:
            return self.rule
        return next((rule for rule in self.open if rule.number == number), None)

    def all_seats(self) -> set[ProcessId]:
        """Return the voters of this number and of all that are open."""
        return {seat for rule in (self.rule, *self.open) for seat in rule.seats}

    def is_same(self, other: Configuration) -> bool:
        """Return whether both are the same decision, whatever was noted since."""
        return (self.rule, self.members, self.protocol, self.cluster_identity) == (
            other.rule,
            other.members,
            other.protocol,
            other.cluster_identity,
        )

    def is_foreign(self, other: Configuration) -> bool:
        """Return whether another configuration belongs to another installation than this one.

        Numbers of two installations have nothing to do with each other, so the higher one is not newer.
        Number 0 is the file, which tells nothing of installations and decides nothing. A cluster that was
        formed without an identity gets one with its next number, and is known by its disks until then.
        """
        if self.number == 0 or other.number == 0:
            return False
        if not self.cluster_identity:
            disks = {member.identity for member in self.members}
            return bool(disks) and disks.isdisjoint(member.identity for member in other.members)
        return other.cluster_identity != self.cluster_identity

    def noted(self, other: Configuration) -> Configuration:
        """Return the same decision with all that either knows of earlier numbers.

        That a number is finished stays true, so this needs no decision of its own.
        """
        known = {rule.number for rule in other.open}
        still_open = tuple(rule for rule in self.open if rule.number in known)
        merged = self._with_notes(still_open, max(self.floor, other.floor))
        for whole in (self, other):  # either may say all of it, with a proof that covers it
            if msgspec.structs.replace(whole, proof=b"") == merged:
                return whole
        return merged

    def without(self, number: int, floor: int) -> Configuration:
        """Return it with the note that a number is finished, whose tokens lie at or below the floor."""
        still_open = tuple(rule for rule in self.open if rule.number != number)
        return self._with_notes(still_open, max(self.floor, floor))

    def _with_notes(self, still_open: tuple[Rule, ...], floor: int) -> Configuration:
        return msgspec.structs.replace(self, open=still_open, floor=floor, proof=b"")


def founding(settings: Settings) -> Configuration:
    """Return number 0: voters 1 and up."""
    part = Part(tuple(range(1, settings.voters + 1)), settings)
    return Configuration(Rule(0, (part,)))


@functools.lru_cache(maxsize=256)
def _seated(seats: tuple[ProcessId, ...], coterie: str) -> Coterie:
    """Parse once: values hold the text, which encodes in a few bytes whatever the coterie."""
    return seated(parse_coterie(coterie, len(seats)), seats)


@functools.lru_cache(maxsize=256)
def _joint(
    old: tuple[ProcessId, ...], by: str, new: tuple[ProcessId, ...], then_by: str
) -> Coterie:
    return Joint(_seated(old, by), _seated(new, then_by))
