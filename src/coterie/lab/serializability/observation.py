"""Which transaction read what from which, and which ones count.

A committed transaction counts. One of unknown outcome counts if one that counts has read from it:
then it must have committed, or the read was dirty. Otherwise it is left out, which never makes a
difference: strike a transaction from which none reads from a serial order, and the order stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import UsageError
from coterie.lab.serializability.lists import Lists
from coterie.lab.serializability.report import Anomaly, Dependency
from coterie.lab.serializability.sources import Sources, Write, shown
from coterie.transactions.history import (
    WRITES,
    History,
    HistoryAccess,
    HistoryTransaction,
    Key,
    Name,
    TransactionOutcome,
    Version,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Reading(NamedTuple):
    """A transaction read a key from another, or as it was in the beginning."""

    reader: int
    key: Key
    writer: int | None


@dataclass(frozen=True)
class Observation:
    """The transactions that count, numbered in the order in which they ended."""

    transactions: list[HistoryTransaction]
    readings: list[Reading]  # from others that count; no two are equal
    writers: dict[Key, list[int]]  # in their order
    versions: dict[Key, list[int]]  # writers from oldest to newest, where the history states that
    tails: dict[Key, list[int]]  # those behind all of `versions`, in any order: appends never seen
    dirty: list[Anomaly]  # reads that no order explains
    left_out: list[Name]  # of unknown outcome
    sources: Sources

    def written(self, writer: int, key: Key) -> str:
        """Show the value that a transaction left in a key."""
        return shown(self.sources.final(self.transactions[writer].name, key).value)


def observe(history: History) -> Observation:
    """Find out where everything that was read came from."""
    sources = Sources(history.transactions.values())
    reads = Reads(sources)
    counted = [
        t for t in history.transactions.values() if t.outcome is TransactionOutcome.COMMITTED
    ]
    names = {transaction.name for transaction in counted}
    for transaction in counted:  # grows on the way
        for writer in reads.examine(transaction):
            if writer.name not in names:  # its outcome is unknown: aborted ones are not given
                names.add(writer.name)
                counted.append(writer)
    counted.sort(key=lambda transaction: transaction.last)
    numbers: dict[Name | None, int] = {t.name: number for number, t in enumerate(counted)}
    writers = _writers(counted)
    versions = {
        key: oldest_first(key, writers[key], counted, sources)
        for key in sources.versioned
        if key in writers
    }
    tails = {}
    readings = [*reads.clean, *dict.fromkeys(reads.lists.readings())]
    for key in sources.lists:
        versions[key] = [numbers[name] for name in reads.lists.order(key)]
        seen = set(versions[key])
        tails[key] = [number for number in writers.get(key, ()) if number not in seen]
    return Observation(
        transactions=counted,
        readings=[
            Reading(numbers[reader], key, numbers.get(writer)) for reader, key, writer in readings
        ],
        writers=writers,
        versions=versions,
        tails=tails,
        dirty=[*reads.dirty, *reads.lists.dirty],
        left_out=[
            transaction.name
            for transaction in history.transactions.values()
            if transaction.outcome is TransactionOutcome.UNKNOWN and transaction.name not in names
        ],
        sources=sources,
    )


def _writers(counted: list[HistoryTransaction]) -> dict[Key, list[int]]:
    writers: dict[Key, list[int]] = {}
    for number, transaction in enumerate(counted):
        for key in {access.key: None for access in transaction.accesses if access.op in WRITES}:
            writers.setdefault(key, []).append(number)
    return writers


def oldest_first(
    key: Key, writers: list[int], counted: list[HistoryTransaction], sources: Sources
) -> list[int]:
    """Sort by version, of which each writer must have stated one."""
    stated: dict[Version, int] = {}
    for number in writers:
        access = sources.final(counted[number].name, key)
        if access.version is None:
            raise UsageError(
                f"line {access.line}: other writes of {key} state a version, this does not"
            )
        if access.version in stated:
            raise UsageError(
                f"line {access.line}: {counted[stated[access.version]].name} has written version"
                f" {shown(access.version)} of {key}, too"
            )
        stated[access.version] = number
    try:
        return [stated[version] for version in sorted(stated)]
    except TypeError:
        raise UsageError(
            f"the versions of {key} are numbers and lists, which have no order"
        ) from None


class Reads:
    """Sorts reads into those that an order of transactions may explain and those that none can."""

    def __init__(self, sources: Sources) -> None:
        """Begin without reads."""
        self.sources = sources
        self.clean: dict[tuple[Name, Key, Name | None], None] = {}  # reader, key, writer
        self.dirty: list[Anomaly] = []
        self.lists = Lists(sources)

    def examine(self, reader: HistoryTransaction) -> Iterator[HistoryTransaction]:
        """Yield the transactions from which one has read properly."""
        own: dict[Key, HistoryAccess] = {}
        appended: dict[Key, list[Any]] = {}
        for access in reader.accesses:
            if access.op == "write":
                own[access.key] = access
                continue
            if access.op == "append":
                appended.setdefault(access.key, []).append(identity(access.value))
                continue
            if self.sources.is_list(access):
                yield from self.lists.examine(reader, access, appended.get(access.key, []))
                continue
            if access.key in own:
                if identity(access.value) != identity(own[access.key].value):
                    self._complain("internal", reader, access, None)
                continue
            source = self.sources.of(access)
            if source is None and access.value is None:
                self.clean[reader.name, access.key, None] = None
            elif source is None:
                self._complain("garbage read", reader, access, None)
            elif source.owner is reader:
                self._complain("internal", reader, access, source)
            elif source.owner.outcome is TransactionOutcome.ABORTED:
                self._complain("G1a", reader, access, source)
            elif not self.sources.is_final(source):
                self._complain("G1b", reader, access, source)
            else:
                self.clean[reader.name, access.key, source.owner.name] = None
                yield source.owner

    def _complain(
        self, name: str, reader: HistoryTransaction, access: HistoryAccess, source: Write | None
    ) -> None:
        other = source is not None and source.owner is not reader
        involved = [source.owner.name, reader.name] if source and other else [reader.name]
        text = f"{reader.name} read {access.key} = {shown(access.value)}, {DIRTY[name][1]}"
        if source and other:
            text = text.replace("WRITER", str(source.owner.name))
        self.dirty.append(
            Anomaly(
                name=name,
                meaning=DIRTY[name][0],
                cycle=tuple(involved),
                dependencies=(Dependency(involved[0], reader.name, "wr", access.key, text),),
            )
        )


DIRTY = {
    "G1a": ("aborted read", "which WRITER wrote before it aborted"),
    "G1b": ("intermediate read", "which WRITER wrote and then replaced itself"),
    "garbage read": ("read of a value that was never written", "which was never written"),
    "internal": ("read that misses the transaction's own write", "not what it had written itself"),
}
