"""A device that a search may move to: its arrays, and how much of its memory is left."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Rows

DeviceName: TypeAlias = Literal["cpu", "gpu"]

_RESERVE = 0.04  # of the memory is left to the driver, and to what falls between blocks
_CHUNK_MAX = 1 << 26  # beyond this many states at once, launching costs nothing any more
_CHUNK_SHARE = 4  # a chunk takes at most this part of the memory, and of what is left of it
_MOVE_BYTES = 256  # for each state of a chunk while one move is made from all of them
_ELEMENTS_MAX = 1 << 31  # of a matrix that CuPy takes columns from


class Gpu:
    """A graphics processor that CuPy computes on."""

    def __init__(self, xp: Any) -> None:
        """Take the device that is current for this namespace, which is CuPy or stands in for it."""
        self.xp = xp
        self._kept_free = int(_RESERVE * xp.cuda.runtime.memGetInfo()[1])

    def __str__(self) -> str:
        """Name it as its vendor does, with its memory."""
        runtime = self.xp.cuda.runtime
        name: bytes = runtime.getDeviceProperties(runtime.getDevice())["name"]
        return f"{name.decode()}, {runtime.memGetInfo()[1] / 2**30:.0f} GiB"

    def spare(self, released: int = 0) -> int:
        """Return how many bytes may still be taken, those that are about to be released included."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        pooled = self.xp.get_default_memory_pool().free_bytes()
        return max(0, int(free) + int(pooled) + released - self._kept_free)

    def chunk(self, rows: Rows) -> int:
        """Return how many states like these may be expanded at once: the more, the faster.

        It is a power of two, so that the order in which states are found, and with it the choice
        among counterexamples of the same length, does not follow each change in what is left.
        """
        height = len(rows)
        state_bytes = _MOVE_BYTES + 4 * height * rows.dtype.itemsize
        fitting = self.spare() // _CHUNK_SHARE // state_bytes
        most = max(1, min(_CHUNK_MAX, _ELEMENTS_MAX // height, fitting))
        return 1 << (most.bit_length() - 1)


def open_device(name: DeviceName) -> Gpu | None:
    """Return the device of this name, None for the processor itself.

    Raises:
        ConfigError: no such device is there, or what is needed to use it is not installed.
    """
    if name == "cpu":
        return None
    if name != "gpu":
        raise ConfigError(f"device must be cpu or gpu, got {name!r}")
    try:
        xp = importlib.import_module("cupy")
    except ImportError as error:
        raise ConfigError(f"device gpu needs CuPy: pip install 'coterie[gpu]' ({error})") from error
    try:
        count = xp.cuda.runtime.getDeviceCount()
    except xp.cuda.runtime.CUDARuntimeError as error:
        raise ConfigError(f"no GPU can be used here: {error}; leave out device gpu") from error
    if not count:
        raise ConfigError("there is no GPU on this machine: leave out device gpu")
    return Gpu(xp)
