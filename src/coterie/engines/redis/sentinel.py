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
import ssl
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import exceptions

from coterie.engines.queue.nonsense import NONSENSE
from coterie.errors import ConfigError, Unavailable
from coterie.system.aio import to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis import asyncio as client

ANSWER_SECONDS_MAX = 1.0
UNKNOWN, SILENT = "it knows none of that name", "no answer"
REFUSED = "refused: "
PASSWORD = "sentinel-password"  # noqa: S105 - the name of a parameter
PASSWORD_VARIABLE = "COTERIE_SENTINEL_PASSWORD"  # noqa: S105 - likewise
FAILURES = (OSError, RuntimeError, exceptions.RedisError)


class PrimaryAddress(NamedTuple):
    """Where a server is."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SentinelView(NamedTuple):
    """What one sentinel says of the primary, or why it says nothing."""

    address: PrimaryAddress
    primary: PrimaryAddress | None = None
    replicas: int = 0
    sentinels: int = 0  # that watch the primary, itself among them
    quorum: int = (
        0  # of those who have to find the primary silent before another server is promoted
    )
    trouble: str = ""


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
        if isinstance(most, str) and most.startswith(REFUSED) and 2 * count > len(tasks):
            raise ConfigError(
                f"{self._shown}: {most}; the password of the sentinels is {PASSWORD}=… in the URL, or {PASSWORD_VARIABLE}"
            )
        said = ", ".join(f"{count} of {len(tasks)}: {each}" for each, count in votes.items())
        raise Unavailable(
            f"{self._shown}: no primary is named by a majority of the sentinels ({said})"
        )

    async def views(self) -> list[SentinelView]:
        """Ask each of them what it knows of the primary."""
        return await asyncio.gather(*(self._view(*each) for each in self._addresses))

    async def _ask(self, host: str, port: int) -> PrimaryAddress | str:
        """Ask one of them for the primary; return what is wrong where it names none."""
        found = await self._call(host, port, "GET-MASTER-ADDR-BY-NAME")
        if isinstance(found, str):
            return found
        try:
            return PrimaryAddress(found[0].decode(), int(found[1]))
        except NONSENSE:
            return SILENT

    async def _view(self, host: str, port: int) -> SentinelView:
        address = PrimaryAddress(host, port)
        found = await self._call(host, port, "MASTER")
        if isinstance(found, str):
            return SentinelView(address, trouble=UNKNOWN if "No such master" in found else found)
        try:
            # Pairs in the older protocol of Redis, a table in the newer one.
            facts = found if isinstance(found, dict) else dict(zip(*[iter(found)] * 2, strict=True))
            return SentinelView(
                address,
                PrimaryAddress(facts[b"ip"].decode(), int(facts[b"port"])),
                int(facts[b"num-slaves"]),
                int(facts[b"num-other-sentinels"]) + 1,
                int(facts[b"quorum"]),
                "it takes the server for dead" if b"_down" in facts[b"flags"] else "",
            )
        except NONSENSE:
            return SentinelView(address, trouble=SILENT)

    async def _call(self, host: str, port: int, question: str) -> Any:
        """Ask one of them something about the primary; return a text where it does not answer that."""
        made = self._connect(host, port)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                found = await made.execute_command(  # type: ignore[no-untyped-call]
                    "SENTINEL", question, self._name
                )
                return UNKNOWN if found is None else found
        except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
            return f"{REFUSED}{error}"
        except exceptions.ResponseError as error:
            return str(error)
        except (*FAILURES, *NONSENSE) as error:
            cause = error.__cause__ or error.__context__
            return f"TLS fails: {cause.reason}" if isinstance(cause, ssl.SSLError) else SILENT
        finally:
            # The others may have decided meanwhile, and a connection that is half closed would stay.
            with contextlib.suppress(*FAILURES, *NONSENSE):
                await to_the_end(made.aclose())
