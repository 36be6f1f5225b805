"""A key that etcd removes soon after its program has died: the hint upon which others begin to count.

It goes with a lease of etcd, kept alive over a stream, which writes nothing to any disk. No promise rests on it. Where etcd
takes a living program for dead, that is challenged, and answers; where etcd takes a dead one for alive, its locks are
freed late.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING

import grpc.aio

from coterie import system
from coterie.engines.etcd import keys
from coterie.engines.etcd import messages as api
from coterie.engines.queue.nonsense import sensible
from coterie.errors import CoterieError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.etcd.channel import EtcdChannel

PER_LEASE = 5  # of the session: so the hint is gone early, and counting takes most of the time
SECONDS_MIN = 1  # etcd makes 2 of it, if it is set up as it comes
BEATS_PER_LEASE = 3
RETRY_SECONDS = 0.5


class Presence:
    """Keeps the hint of one session."""

    def __init__(self, channel: EtcdChannel, session: str, lease: float) -> None:
        """Prepare; `begin` asks for a lease of etcd, and `run` keeps it."""
        self.lease = 0  # of etcd; 0: it has ended
        self._channel = channel
        self._session = keys.session(session)
        self._seconds = max(SECONDS_MIN, math.ceil(lease / PER_LEASE))
        self._over = asyncio.Event()

    async def begin(self, limit: float) -> None:
        """Ask for a lease, by a number of our own choice: one that is used again would keep what another one had."""
        number = int.from_bytes(system.secret(8)) >> 1 or 1
        request = api.number(1, self._seconds) + api.number(2, number)
        answer = await self._channel.call("Lease/LeaseGrant", request, limit)
        with sensible(self._channel):
            granted = api.lease(answer)
            if granted.seconds <= 0:
                raise ValueError("a lease of no time")
        self.lease, self._seconds = granted.id, granted.seconds

    def put(self) -> bytes:
        """Encode the PutRequest of the hint."""
        return api.put(self._session + keys.HINT, b"", self.lease)

    def renew(self) -> None:
        """Begin another lease: the hint is not there any more."""
        self.lease = 0
        self._over.set()

    async def run(self) -> None:
        """Keep the hint, with one lease after the other."""
        while True:
            with contextlib.suppress(
                grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError, CoterieError
            ):
                if not self.lease:
                    await self._begin_again()
                await self._keep()
            await asyncio.sleep(RETRY_SECONDS)

    async def _begin_again(self) -> None:
        await self.begin(self._seconds)
        request = api.transaction([api.exists(self._session)], [api.chunk(2, self.put())])
        await self._channel.call("KV/Txn", request, self._seconds)
        self._over.clear()

    async def _keep(self) -> None:
        """Keep the lease alive over one stream, as long as both last."""
        stream = self._channel.stream("Lease/LeaseKeepAlive")
        try:
            while self.lease:
                await self._beat(stream)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._seconds / BEATS_PER_LEASE):
                        await self._over.wait()
        finally:
            stream.cancel()

    async def _beat(self, stream: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        async with asyncio.timeout(self._seconds / BEATS_PER_LEASE):
            await stream.write(api.number(1, self.lease))
            answer = await stream.read()
        if not isinstance(answer, bytes):
            raise Unavailable(f"{self._channel}: a stream has ended")
        with sensible(self._channel):
            if api.lease(answer).seconds <= 0:
                self.renew()

    async def end(self, limit: float) -> None:
        """End the lease, with the letters of ours that were not read."""
        if self.lease:
            await self._channel.call("Lease/LeaseRevoke", api.number(1, self.lease), limit)
