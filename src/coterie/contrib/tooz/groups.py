"""Groups as tooz has them: they are created, joined under an id, and have members with capabilities.

Which groups there are is the value of one lock. A member holds two locks: that of its group in shared mode, with its
id as note, as `c.members` does; and one of its own, alone, so that no two members have one id. The value of the
second is what the member can do: up to 64 KiB, where a note is text of up to 255 bytes that cannot be changed.

Nothing joins a group that is being deleted: who deletes holds the group's lock alone while it changes the list, and
who joins reads the list once it shares that lock.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import tooz
from tooz import coordination, utils

from coterie.contrib.tooz.names import (
    GROUPS,
    as_bytes,
    as_text,
    group_lock,
    leader_lock,
    member_lock,
)
from coterie.errors import LockLost, MisuseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.contrib.tooz.open_coordinator import OpenCoordinator
    from coterie.contrib.tooz.thread_hold import ThreadHold
    from coterie.locks.value import Value
    from coterie.sync import Held

BUSY_SECONDS_MAX = 10.0  # for locks that others hold for a moment


class GroupList:
    """The list of all groups, in the hands of one program."""

    def __init__(self, held: Held) -> None:
        """Stand for what the lock that is held has as its value."""
        self._held = held

    def read(self) -> list[bytes]:
        """Return the groups that were created."""
        with values_needed():
            return _listed(self._held.read())

    def write(self, groups: list[bytes]) -> None:
        """Replace the list."""
        self._held.write(msgspec.json.encode([as_text(group) for group in groups]))


class JoinedGroup(NamedTuple):
    """What a member holds."""

    own: ThreadHold  # the lock of its id
    seat: ThreadHold  # that of the group, in shared mode

    @property
    def valid(self) -> bool:
        """Whether it belongs to its group now."""
        return self.own.valid and self.seat.valid


class Groups:
    """All groups, and what this member holds of them. For one thread at a time."""

    def __init__(self, coordinator: OpenCoordinator, me: bytes) -> None:
        """Begin without a group."""
        self._open = coordinator
        self._me = me
        self._joined: dict[bytes, JoinedGroup] = {}
        self._seen: dict[bytes, set[bytes]] = {}  # the members at the last look

    def create(self, group: bytes) -> None:
        """Add a group."""
        with self._list_alone() as listed:
            groups = listed.read()
            if group in groups:
                raise coordination.GroupAlreadyExist(group)
            listed.write([*groups, group])

    def delete(self, group: bytes) -> None:
        """Remove a group without members."""
        with self._list_alone() as listed:
            groups = listed.read()
            if group not in groups:
                raise coordination.GroupNotCreated(group)
            alone = self._open.take(group_lock(group), timeout=0)
            if alone is None:
                raise coordination.GroupNotEmpty(group)
            try:
                listed.write([each for each in groups if each != group])
            finally:
                self._open.give_back(alone)

    def all(self) -> list[bytes]:
        """List the groups that were created."""
        with values_needed():
            return _listed(self._open.c.read(GROUPS))

    def join(self, group: bytes, capabilities: Any) -> None:
        """Become a member of a group."""
        self._check(group)
        before = self._joined.get(group)
        if before is not None and not before.valid:
            self._end(group)
        own = self._open.take(member_lock(group, self._me), timeout=0)
        if own is None:
            raise coordination.MemberAlreadyExist(group, self._me)
        try:
            # Before the others see the member: the value may be that of one with the same id that was killed.
            own.held.write(utils.dumps(capabilities))
            seat = self._take(group_lock(group), shared=True, note=as_text(self._me))
        except BaseException:
            self._open.give_back(own)
            raise
        self._joined[group] = JoinedGroup(own, seat)
        try:
            self._check(group)
        except BaseException:
            self._end(group)
            raise

    def leave(self, group: bytes) -> None:
        """Be a member no longer."""
        if group in self._joined:
            was_valid = self._joined[group].valid
            self._end(group)
            if was_valid:
                return
        if self._me in self.members(group):
            raise tooz.NotImplemented(
                f"{self._me!r} has joined {group!r} by another coordinator, and only that can leave"
            )
        raise coordination.MemberNotJoined(group, self._me)

    def members(self, group: bytes) -> set[bytes]:
        """Return the ids of all members."""
        self._check(group)
        c = self._open.c
        found = {as_bytes(party.note) for party in c.holders(group_lock(group)) if party.note}
        # A member that is busy may be slow to tell its note. It is gone when the lock of its id is free.
        missing = self._seen.get(group, set()) - found
        found |= {member for member in missing if c.locked(member_lock(group, member))}
        self._seen[group] = found
        return found

    def capabilities(self, group: bytes, member: bytes) -> Any:
        """Return what a member has said it can do."""
        if member not in self.members(group):
            raise coordination.MemberNotJoined(group, member)
        return self._capabilities(group, member)

    def all_capabilities(self, group: bytes) -> dict[bytes, Any]:
        """Return what each member has said it can do."""
        return {member: self._capabilities(group, member) for member in self.members(group)}

    def update(self, group: bytes, capabilities: Any) -> None:
        """Replace what this member has said it can do."""
        self._check(group)
        joined = self._joined.get(group)
        if joined is None or not joined.valid:
            raise coordination.MemberNotJoined(group, self._me)
        joined.own.held.write(utils.dumps(capabilities))

    def leader(self, group: bytes) -> bytes | None:
        """Return the id of the leader."""
        found = [party.note for party in self._open.c.holders(leader_lock(group)) if party.note]
        return as_bytes(found[0]) if found else None

    def _capabilities(self, group: bytes, member: bytes) -> Any:
        value = self._open.c.read(member_lock(group, member))
        return None if value is None else utils.loads(value.data)

    def _check(self, group: bytes) -> None:
        if group not in self.all():
            raise coordination.GroupNotCreated(group)

    @contextlib.contextmanager
    def _list_alone(self) -> Iterator[GroupList]:
        """Keep others from the list of groups, to change it."""
        hold = self._take(GROUPS)
        try:
            yield GroupList(hold.held)
        finally:
            self._open.give_back(hold)

    def _take(self, name: str, *, shared: bool = False, note: str = "") -> ThreadHold:
        hold = self._open.take(name, timeout=BUSY_SECONDS_MAX, shared=shared, note=note)
        if hold is None:
            raise coordination.OperationTimedOut(f"{name} was not free for {BUSY_SECONDS_MAX:g} s")
        return hold

    def _end(self, group: bytes) -> None:
        """Give back what this member holds of a group; its capabilities go before the lock that guards them."""
        joined = self._joined.pop(group)
        try:
            self._open.give_back(joined.seat)
            # If it is lost, the next member with this id writes its own.
            with contextlib.suppress(LockLost, MisuseError):
                joined.own.held.delete()
        finally:
            self._open.give_back(joined.own)


@contextlib.contextmanager
def values_needed() -> Iterator[None]:
    """Refuse groups where an engine keeps no values, as a cluster of our own nodes."""
    try:
        yield
    except UsageError as error:
        raise tooz.NotImplemented(str(error)) from error


def _listed(value: Value | None) -> list[bytes]:
    if value is None:
        return []
    return [as_bytes(text) for text in msgspec.json.decode(value.data, type=list[str])]
