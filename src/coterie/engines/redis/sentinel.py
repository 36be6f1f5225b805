"""Which server the sentinels take for the primary.

A program uses the primary that a majority of the sentinels of its URL name, and asks them again before each renewal: its
lease counts from the sending of that question.

Why no hold outlasts a failover. A holder at the old primary has last renewed after a majority had named the old one. The first
program that begins a session at the new primary does so after a majority has named the new one. Some sentinel has answered both; it
answered the holder first, since it goes back to the old primary only by another failover. The new primary is closed for the
longest lease from that session on, like any other run of a server, and the lease of the holder began before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from redis import exceptions

from coterie.engines.queue.nonsense import NONSENSE
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis import asyncio as client

ANSWER_SECONDS_MAX = 1.0
UNKNOWN, SILENT = "it knows none of that name", "no answer"
FAILURES = (OSError, RuntimeError, exceptions.RedisError)


class PrimaryAddress(NamedTuple):
    """Where a server is."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Sentinels:
    """The sentinels of a URL."""

    def __init__(
        self,
        shown: str,
        addresses: Sequence[tuple[str, int]],
        name: str,
        connect: Callable[[str, int], client.Redis],
    ) -> None:
        """Prepare.

        Args:
            shown: The sentinels, for people.
            addresses: Where they are.
            name: By which they know the primary.
            connect: Makes a client of one of them.
        """
        self._shown = shown
        self._addresses = addresses
        self._name = name
        self._connect = connect

    async def primary(self) -> PrimaryAddress:
        """Return the server that a majority names; raises `Unavailable` if none is."""
        tasks = [asyncio.ensure_future(self._ask(*each)) for each in self._addresses]
        votes: Counter[PrimaryAddress | str] = Counter()
        try:
            for answer in asyncio.as_completed(tasks):
                named = await answer
                votes[named] += 1
                if 2 * votes[named] > len(tasks) and isinstance(named, PrimaryAddress):
                    return named
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        (most, count), *_ = votes.most_common(1)
        if most == UNKNOWN and 2 * count > len(tasks):
            raise ConfigError(f"{self._shown}: the sentinels know no primary {self._name!r}")
        said = ", ".join(f"{count} of {len(tasks)}: {each}" for each, count in votes.items())
        raise Unavailable(
            f"{self._shown}: no primary is named by a majority of the sentinels ({said})"
        )

    async def _ask(self, host: str, port: int) -> PrimaryAddress | str:
        """Ask one of them; return what is wrong where it names none."""
        made = self._connect(host, port)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                found = await made.execute_command(  # type: ignore[no-untyped-call]
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name
                )
                if found is None:
                    return UNKNOWN
                return PrimaryAddress(found[0].decode(), int(found[1]))
        except exceptions.ResponseError as error:  # such as a lack of a password
            return str(error)
        except (*FAILURES, *NONSENSE):
            return SILENT
        finally:
            with contextlib.suppress(*FAILURES, *NONSENSE):
                await made.aclose()
