"""Which voters to ask: all that can be counted on, or one quorum of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie.mutex.quorum.leased.settings import Settings
    from coterie.process import ProcessId


def whom_to_ask(
    settings: Settings,
    home: ProcessId,
    asked: Collection[ProcessId],
    suspects: Collection[ProcessId],
) -> list[ProcessId]:
    """Choose voters so that they and those asked already contain a quorum without suspects.

    If there is no such quorum, suspects are asked as well: they may be slow, or in grace. Nothing
    is ever taken back for a change of quorum, since requests at several quorums do no harm.
    """
    everyone = settings.quorums.members
    trusted = [voter for voter in everyone if voter not in suspects]
    if not settings.quorums.contains_quorum(trusted):
        trusted = list(everyone)
    if settings.policy == "all":
        return [voter for voter in trusted if voter not in asked]
    if not asked:
        favourite = settings.quorums.quorum_for(home)
        if favourite.issubset(trusted):
            return sorted(favourite)
    return _missing(settings, home, [voter for voter in trusted if voter in asked], trusted)


def _missing(
    settings: Settings, home: ProcessId, base: list[ProcessId], trusted: list[ProcessId]
) -> list[ProcessId]:
    """Add voters to `base`, from `home` on around the circle, until there is a quorum; no spare ones."""
    quorums = settings.quorums
    extra: list[ProcessId] = []
    for voter in sorted(trusted, key=lambda voter: (voter < home, voter)):
        if quorums.contains_quorum(base + extra):
            break
        if voter not in base:
            extra.append(voter)
    for voter in list(extra):
        rest = [other for other in extra if other != voter]
        if quorums.contains_quorum(base + rest):
            extra = rest
    return extra
