"""A stand-in for CuPy on the host, stricter than CuPy: what would cross to or from a device raises.

Its arrays wrap those of NumPy. They mix with numbers and with each other alone, and come back by
`get` alone. Kernels are compiled for the host, where they go through their items from the last to
the first: the worst order for those whose answer must not depend on it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import operator
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

MEMORY = 1 << 33

SHIM = """
#define EACH(i, count) for (long long i = (count) - 1; i >= 0; --i)
#define __device__
#define __global__
#define __align__(bytes) alignas(bytes)
typedef unsigned long long word;
static word __umul64hi(word a, word b) { return (word)((unsigned __int128)a * b >> 64); }
static word atomicCAS(word *at, word old, word now) { word is = *at; if (is == old) *at = now; return is; }
static word atomicMin(word *at, word value) { word is = *at; if (value < is) *at = value; return is; }
static word atomicOr(word *at, word value) { word is = *at; *at |= value; return is; }
"""


class ndarray:  # noqa: N801 - as CuPy calls it
    """An array on the device that is not there."""

    __array_ufunc__ = None  # NumPy's operators leave the operation to ours, which refuses

    def __init__(self, here: np.ndarray[Any, Any]) -> None:
        self.here: np.ndarray[Any, np.dtype[Any]] = here

    def __array__(self, *_: object, **__: object) -> None:
        raise TypeError("an array of the device was used as one of the host")

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"the stand-in has no method {name}")
        return functools.partial(_call, getattr(self.here, name))

    @property
    def shape(self) -> Any:
        return self.here.shape

    @property
    def strides(self) -> Any:
        return self.here.strides

    @property
    def size(self) -> int:
        return self.here.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.here.dtype

    def get(self) -> np.ndarray[Any, Any]:
        return self.here.copy()

    def set(self, array: np.ndarray[Any, Any]) -> None:
        assert isinstance(array, np.ndarray)
        assert array.dtype == self.dtype, "a copy to the device changes no type"
        assert array.flags.c_contiguous
        self.here[...] = array

    def __len__(self) -> int:
        return len(self.here)

    def __int__(self) -> int:
        return int(self.here)

    def __index__(self) -> int:
        return operator.index(self.here)

    def __bool__(self) -> bool:
        return bool(self.here)

    def __getitem__(self, where: Any) -> Any:
        return _wrap(self.here[_plain(where)])

    def __setitem__(self, where: Any, what: Any) -> None:
        self.here[_plain(where)] = _plain(what)


METHODS = {
    "all",
    "any",
    "argmin",
    "astype",
    "copy",
    "max",
    "min",
    "reshape",
    "take",
    "tolist",
}


def _wrap(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wrap, value))
    return ndarray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _plain(value: Any) -> Any:
    """Take what may be an argument on the device: its arrays, and numbers, but no array of the host."""
    if isinstance(value, np.ndarray):
        raise TypeError("an array of the host was used as one of the device")
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    return value.here if isinstance(value, ndarray) else value


def _call(function: Any, *given: Any, **named: Any) -> Any:
    plain = {name: _plain(value) for name, value in named.items()}
    out = named.get("out")
    result = function(*map(_plain, given), **plain)
    return result if isinstance(result, list) else _wrap(result) if out is None else out


def _operator(function: Any) -> Any:
    return lambda *given: _call(function, *given)


for _name in "add sub mul and or xor rshift lshift lt le gt ge eq ne invert neg".split():  # noqa: SIM905
    _function = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", _operator(_function))
for _name in "add sub mul and or xor".split():  # noqa: SIM905
    _function = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__r{_name}__", _operator(lambda a, b, f=_function: f(b, a)))
    _inplace = getattr(operator, f"__i{_name}__")

    def _assign(self: ndarray, other: Any, _inplace: Any = _inplace) -> ndarray:
        self.here = _inplace(self.here, _plain(other))
        return self

    setattr(ndarray, f"__i{_name}__", _assign)

FUNCTIONS = ("arange", "concatenate", "cumsum", "flatnonzero", "isin", "minimum", "ones", "unique")


class StandIn:
    """What coterie uses of CuPy."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.memory = memory
        self.launched: list[str] = []
        self.cuda = self
        self.runtime = self
        self.taken = 0
        for name in FUNCTIONS:
            setattr(self, name, functools.partial(_call, getattr(np, name)))
        for name in ("empty", "full", "zeros"):
            setattr(self, name, functools.partial(self._allocate, getattr(np, name)))

    CUDARuntimeError = RuntimeError

    def getDeviceCount(self) -> int:  # noqa: N802
        return 1

    def getDevice(self) -> int:  # noqa: N802
        return 0

    def getDeviceProperties(self, _: int) -> dict[str, bytes]:  # noqa: N802
        return {"name": b"stand-in"}

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return self.memory - self.taken, self.memory

    def _allocate(self, function: Any, *given: Any) -> ndarray:
        """Make an array, and count its bytes while it lives; what is computed is not counted."""
        array = _call(function, *given)
        assert isinstance(array, ndarray)
        self._count(array.here.nbytes)
        weakref.finalize(array, self._count, -array.here.nbytes)
        return array

    def _count(self, more: int) -> None:
        self.taken += more

    def get_default_memory_pool(self) -> StandIn:
        return self

    def free_bytes(self) -> int:
        return 0

    def asarray(self, array: Any) -> Any:
        return array if isinstance(array, ndarray) else ndarray(np.array(array))

    def RawModule(self, code: str, options: tuple[str, ...]) -> Compiled:  # noqa: N802
        return Compiled(self, code)


class Compiled:
    """Kernels as functions of the host."""

    def __init__(self, device: StandIn, code: str) -> None:
        self._device = device
        self._library = ctypes.CDLL(str(_library(SHIM + code)))

    def get_function(self, name: str) -> Any:
        function = getattr(self._library, name)

        def run(blocks: tuple[int], threads: tuple[int], given: tuple[Any, ...]) -> None:
            assert 0 < blocks[0] < 1 << 31
            assert 0 < threads[0] <= 1024
            self._device.launched.append(name)
            function(*map(_argument, given))

        return run


def _argument(value: Any) -> Any:
    if isinstance(value, ndarray):
        assert value.here.flags.c_contiguous, "a kernel gets a pointer, and knows of no strides"
        return ctypes.c_void_p(value.here.ctypes.data)
    assert isinstance(value, np.int64 | np.uint64), (
        "CuPy takes the width of an argument from its type"
    )
    return (
        ctypes.c_int64(int(value)) if isinstance(value, np.int64) else ctypes.c_uint64(int(value))
    )


@functools.cache
def _library(code: str) -> Path:
    name = hashlib.sha256(code.encode()).hexdigest()
    folder = Path(tempfile.mkdtemp())
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(code)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library
