"""What servers and other programs write there that no correct one writes: an error of ours, and nothing else."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from coterie.engines.queue.server import Author
from coterie.errors import Unavailable
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

Given = ParamSpec("Given")
Result = TypeVar("Result")
SelfT = TypeVar("SelfT")

# What reading an answer raises, here and in clients, which trust their servers.
NONSENSE = (
    ArithmeticError,
    AttributeError,
    BufferError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
UNKNOWN = "unknown"
LATEST = 253_402_300_799.0  # seconds since 1970: the end of the year 9999

_decode_author = msgspec.msgpack.Decoder(Author).decode


@contextlib.contextmanager
def sensible(server: object) -> Iterator[None]:
    """Raise `Unavailable` for an answer that makes no sense: tasks that work beside others go on from that."""
    try:
        yield
    except NONSENSE as error:
        raise Unavailable(f"{server}: an answer makes no sense: {describe(error)}") from error


def sensibly(
    step: Callable[Concatenate[SelfT, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SelfT, Given], Coroutine[Any, Any, Result]]:
    """Make the same of a method that asks a server and reads its answer; its object is called like the server."""

    @functools.wraps(step)
    async def checked(self: SelfT, /, *positional: Given.args, **named: Given.kwargs) -> Result:
        with sensible(self):
            return await step(self, *positional, **named)

    return checked


def describe(error: Exception) -> str:
    """Describe what is wrong with an answer, in one line."""
    return legible(f"{type(error).__name__}: {error}")


def author_of(participant: str, process: str, since: float) -> Author:
    """Return the author of an entry; a time that no clock shows is left out."""
    return Author(participant, process, since if 0 <= since <= LATEST else 0.0)


def read_author(written: bytes | None) -> Author:
    """Read what an entry says of the process that made it; unknown where another program has written nonsense."""
    try:
        return author_of(*msgspec.structs.astuple(_decode_author(written or b"")))
    except NONSENSE:
        return Author(UNKNOWN, UNKNOWN, 0.0)
