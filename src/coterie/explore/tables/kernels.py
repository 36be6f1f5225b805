"""The kernels of kernels.cu: what a device does in one go where NumPy needs several passes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.explore.tables.arrays import namespace

if TYPE_CHECKING:
    from coterie.explore.tables.arrays import Ids, Keys

_THREADS = 256  # of a block
_BLOCKS_MAX = 1 << 20


@functools.cache
def _module(xp: Any) -> Any:
    """Compile the kernels once per process; CuPy keeps what was compiled for the next one."""
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


def union(bits: Keys) -> int:
    """Unite sets of bits."""
    if isinstance(bits, np.ndarray):
        return int(np.bitwise_or.reduce(bits))
    xp = namespace(bits)
    united = xp.zeros(1, np.uint64)
    launch(xp, "unite", bits, united)
    return int(united[0])
