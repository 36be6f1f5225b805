"""What must plainly stand before what although the order of versions is not stated.

A transaction follows those from which it reads. One that reads a version of a key and writes the
key itself replaces that version, so every other reader of the version stands before it; two that
do so to the same version have lost an update. Readers of a key as it was in the beginning stand
before all that write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie.lab.serializability.observation import Reading
    from coterie.transactions.history import Key


def certain_pairs(
    size: int, readings: Sequence[Reading], writers: Mapping[Key, Sequence[int]]
) -> tuple[int, list[tuple[int, int]]]:
    """Return pairs of nodes in their order, of which there are as many as reads and writes.

    Nodes beyond the transactions' are fences, one for each key: all that read the key as it was in
    the beginning stand before its fence and all that write it behind. Returns the number of nodes.
    """
    pairs = [(writer, reader) for reader, _, writer in readings if writer is not None]
    fences: dict[Key, int] = {}
    writing = {key: set(numbers) for key, numbers in writers.items()}
    for (key, writer), readers in _readers(readings).items():
        replacing = {reader: None for reader in readers if reader in writing[key]}
        pairs += around(readers, list(replacing))
        if writer is None:
            fence = fences.setdefault(key, size + len(fences))
            pairs += [(reader, fence) for reader in readers]
            pairs += [(fence, other) for other in writers[key] if other not in replacing]
    return size + len(fences), pairs


def _readers(readings: Iterable[Reading]) -> dict[tuple[Key, int | None], list[int]]:
    readers: dict[tuple[Key, int | None], list[int]] = {}
    for reader, key, writer in readings:
        readers.setdefault((key, writer), []).append(reader)
    return readers


def around(readers: Sequence[int], replacing: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Put the readers of a version before the transactions that replaced it."""
    for successor in replacing[:2]:  # two already make a cycle
        yield from ((reader, successor) for reader in readers if reader != successor)


def likely_versions(
    readings: Iterable[Reading], writers: Mapping[Key, Sequence[int]]
) -> dict[Key, list[int]]:
    """Order the versions of each key as its writers ended, but each behind the one it has read."""
    read_from = {(reader, key): writer for reader, key, writer in readings if writer is not None}
    return {key: _chained(key, numbers, read_from) for key, numbers in writers.items()}


def _chained(
    key: Key, numbers: Sequence[int], read_from: Mapping[tuple[int, Key], int]
) -> list[int]:
    placed: dict[int, None] = {}
    for number in numbers:
        chain: dict[int, None] = {}
        writer: int | None = number
        while writer is not None and writer not in placed and writer not in chain:
            chain[writer] = None
            writer = read_from.get((writer, key))
        placed.update(dict.fromkeys(reversed(chain)))
    return list(placed)
