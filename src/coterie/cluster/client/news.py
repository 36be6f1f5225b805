"""Configurations that voters have told a program of, until enough of them have told the same.

A node proves its configuration with the operator secret, which a program does not have. So a program
cannot tell a configuration that was decided from one that a single faulty node has made up, or another
program that listens at the address of a node. It follows a quorum of the voters that it knows: such a
quorum could grant one lock twice as well. Voters that have said nothing of it yet are told, with the
proof; they check it, adopt it, and tell all programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.process import ProcessId


class News:
    """What each voter has told last."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._told: dict[ProcessId, Configuration] = {}

    def take(self, voter: ProcessId, configuration: Configuration) -> bool:
        """Note what a voter tells; return whether it has not told the same before."""
        before = self._told.get(voter)
        if before is not None and configuration.number < before.number:
            return False  # it was on its way for longer
        self._told[voter] = configuration
        return before is None or not before.is_same(configuration)

    def confirmed(
        self, configuration: Configuration, known: Iterable[Configuration]
    ) -> Configuration | None:
        """Return a configuration as soon as a quorum has told it, of voters of one that is known.

        Of two parts that are joint either suffices: the old one decides what follows, and of the
        voters that go no quorum may be left to say it.
        """
        copies = {voter: told for voter, told in self._told.items() if told.is_same(configuration)}
        parts = (part for each in known for part in each.rule.parts)
        if not any(part.quorums.contains_quorum(list(copies)) for part in parts):
            return None
        # What is noted beside the decision may be forged by the one that lies. To know less of it is to
        # know what was true earlier, so it is the copy with the most open numbers and the lowest floor.
        return max(copies.values(), key=lambda copy: (len(copy.open), -copy.floor))

    def lacking(self, configuration: Configuration, voters: Iterable[ProcessId]) -> list[ProcessId]:
        """List the voters that have told neither this configuration nor a newer one."""
        return [
            voter
            for voter in voters
            if voter not in self._told or self._told[voter].number < configuration.number
        ]

    def forget(self, number: int) -> None:
        """Forget what is told about this number, which is known now, and about those before it."""
        self._told = {voter: told for voter, told in self._told.items() if told.number > number}
