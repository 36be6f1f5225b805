"""The kernels of kernels.cu: what a device does in one go where NumPy needs several passes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Ids, Positions, Rows

_THREADS = 256  # of a block
_BLOCKS_MAX = 1 << 20
_TILE = 16  # items that one thread looks at

NO_ARRAY: Any = np.uint64(0)  # a null pointer


@functools.cache
def _module(xp: Any) -> Any:
    """Compile the kernels once per process; CuPy keeps what was compiled for the next one."""
    from pathlib import Path  # noqa: PLC0415 - a search on the host does without

    source = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    return xp.RawModule(code=source, options=("--std=c++14",))


@functools.cache
def _function(xp: Any, name: str) -> Any:
    return _module(xp).get_function(name)


def launch(xp: Any, name: str, items: Any, *arguments: Any) -> None:
    """Run a kernel on each item of an array: it gets the array, its length and the arguments."""
    count = len(items)
    if count:
        blocks = min(-(-count // _THREADS), _BLOCKS_MAX)
        arguments = (items, np.int64(count), *arguments)
        _function(xp, name)((blocks,), (_THREADS,), arguments)


def sized(items: Ids) -> tuple[Any, np.int64]:
    """Return an array with the size of its items, as kernels take numbers of any type."""
    return items, np.int64(items.dtype.itemsize)


def nonzero(xp: Any, items: Ids, table: Any = NO_ARRAY) -> tuple[Positions, Ids]:
    """Return where items are not 0, and what they are; with a table, what stands there for them."""
    tiles = -(-len(items) // _TILE)
    arguments = (np.int64(_TILE), *sized(items), np.int64(len(items)), table)
    counts = xp.empty(tiles, np.int32)
    launch(xp, "tally", counts, *arguments)
    ends = xp.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if tiles else 0
    positions, values = xp.empty(total, np.int64), xp.empty(total, np.int32)
    if total:
        launch(xp, "gather_tiles", ends, *arguments, positions, values)
    return positions, values


def columns(xp: Any, rows: Rows, chosen: Positions) -> Rows:
    """Return the chosen columns of a matrix, of which columns may have been cut off."""
    copy: Rows = xp.empty((len(rows), len(chosen)), rows.dtype)
    size, pitch = rows.dtype.itemsize, rows.strides[0] // rows.dtype.itemsize
    shape = (np.int64(size), np.int64(pitch), np.int64(len(rows)))
    launch(xp, "copy_columns", chosen, rows[0], *shape, copy)
    return copy


def union(xp: Any, table: Any, items: Ids) -> int:
    """Unite the sets of bits that stand in a table for these items."""
    united = xp.zeros(1, np.uint64)
    launch(xp, "unite", items, table, united)
    return int(united[0])
