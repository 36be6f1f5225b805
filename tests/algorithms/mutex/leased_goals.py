"""Goals for changers of the leased lock, drawn for what a world is like at the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from random import Random

    from tests.algorithms.mutex.leased_kit import Kit

LEASES = (5.0, 10.0, 20.0, 60.0)
SIZE_MAX = 7
COTERIES = {
    2: ("majority", "singleton"),
    3: ("majority", "majority", "weighted:2,1,1", "singleton"),
    4: ("majority", "weighted:2,1,1,1", "grid"),
    5: ("majority", "weighted:3,1,1,1,1"),
    6: ("majority", "grid"),
    7: ("majority", "plane:2"),
}
TIMES: dict[str, tuple[Any, ...]] = {
    "rate_error": (0.05, 0.1, 0.2),
    "margin": (0.05, 0.5, 2.0),
    "hedge": (0.5, 1.0),
    "unwind": (2.0, 10.0),
    "interval": (1, 2, 16, 1024),
    "reserve": (0, 8, 1 << 20),
    "lazy": (False, True),
    "cached_max": (1, 16),
    "policy": ("all", "quorum"),
}
DELAYS = (15.0, 25.0)  # of locks whose holder has died, where they have one
KINDS = (
    "add",
    "remove",
    "replace",
    "replace all",
    "coterie",
    "lease",
    "times",
    "nothing",
    "several",
)


class Goals:
    """What operators come upon."""

    def __init__(self, kit: Kit, random: Random, identities: dict[int, str]) -> None:
        self.kit = kit
        self.random = random
        self.identities = identities

    def draw(
        self,
        seen: Any,
        newcomers: Sequence[int],
        lasting: Collection[int],
        kinds: Sequence[str] = KINDS,
    ) -> Any:
        """Draw a goal for one who has seen this configuration.

        Those that come may be newcomers; the voters that result have a quorum of lasting ones.
        """
        goal = self.kit.changer.Goal
        if seen.is_joint:
            part = seen.rule.parts[0]
            back = goal(seen.number, part, self.members(seen, part.seats), takes_back=True)
            return self.random.choice((goal(seen.number), back))
        if seen.number == 0:  # the first number only adds the identities of the disks
            part = seen.rule.parts[0]
            return goal(0, part, self.members(seen, part.seats))
        for _ in range(20):
            part = self._part(seen, newcomers, self.random.choice(kinds))
            if part.quorums.contains_quorum(lasting):
                return goal(seen.number, part, self.members(seen, part.seats))
        return goal(seen.number)

    def members(self, seen: Any, seats: Sequence[int]) -> tuple[Any, ...]:
        """Name the voters on these seats: those that are known as they are known."""
        member = self.kit.configuration.Member
        known = {each.seat: each for each in seen.members}
        return tuple(
            known.get(seat) or member(seat, f"v{seat}", self.identities[seat])
            for seat in sorted(seats)
        )

    def _part(self, seen: Any, newcomers: Sequence[int], kind: str) -> Any:
        present = seen.rule.parts[0]
        seats, settings = list(present.seats), present.settings
        coming = [seat for seat in newcomers if seat not in seats]
        self.random.shuffle(coming)
        changes: dict[str, Callable[[], None]] = {
            "add": lambda: seats.extend(coming[:1]),
            "remove": lambda: self._remove(seats),
            "replace": lambda: self._replace(seats, coming),
            "replace all": lambda: self._replace_all(seats, coming),
        }
        if kind == "several":
            for each in self.random.sample(sorted(changes), 2):
                changes[each]()
        elif kind in changes:
            changes[kind]()
        seats = sorted(set(seats))[:SIZE_MAX]
        coterie = settings.coterie
        if len(seats) != len(present.seats) or kind in ("coterie", "several"):
            coterie = self.random.choice(COTERIES.get(len(seats), ("majority",)))
        if kind == "lease" or (kind == "several" and self.random.random() < 0.5):
            settings = self._other_lease(settings)
        if kind == "times" or (kind == "several" and self.random.random() < 0.3):
            settings = self._other_times(settings)
        settings = replace(settings, voters=len(seats), coterie=coterie)
        return self.kit.configuration.Part(tuple(seats), settings)

    def _remove(self, seats: list[int]) -> None:
        if len(seats) > 1:
            seats.remove(self.random.choice(seats))

    def _replace(self, seats: list[int], coming: list[int]) -> None:
        if coming:
            seats[self.random.randrange(len(seats))] = coming[0]

    def _replace_all(self, seats: list[int], coming: list[int]) -> None:
        if coming:
            seats[:] = coming[: max(1, min(3, len(seats)))]

    def _other_times(self, settings: Any) -> Any:
        """Draw what may differ beside the lease; clocks are better than each of these rate errors."""
        drawn = {
            name: self.random.choice(values)
            for name, values in TIMES.items()
            if self.random.random() < 0.4
        }
        if settings.lock_delay:
            drawn["lock_delay"] = self.random.choice(DELAYS)
        return replace(settings, **drawn)

    def _other_lease(self, settings: Any) -> Any:
        lease = self.random.choice([each for each in LEASES if each != settings.lease])
        return replace(settings, lease=lease, heartbeat=lease / 4, hedge=min(2.0, lease / 5))
