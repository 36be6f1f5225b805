"""The watches of a session, over one stream to etcd.

What a watch says is a hint: what waits looks at the server before it goes on. So a stream that
breaks, or a watch that etcd cancels, only makes everything that waits look again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING

import grpc.aio

from coterie.engines.etcd.messages import unwatch, watch, watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.etcd.channel import Channel
    from coterie.engines.etcd.messages import Change, Watched

RETRY_SECONDS = 0.1
MAIL = 1  # the number of the watch of our mail


class KeyWatch:
    """A watch of one key, until it is deleted."""

    def __init__(self) -> None:
        """Begin; etcd has not heard of it yet."""
        loop = asyncio.get_running_loop()
        self.created: asyncio.Future[None] = loop.create_future()  # nothing is missed from here on
        self.ended: asyncio.Future[int] = (
            loop.create_future()
        )  # revision of the deletion; 0: look again

    def end(self, revision: int) -> None:
        """Wake the one that waits."""
        if not self.created.done():
            self.created.set_result(None)
        if not self.ended.done():
            self.ended.set_result(revision)


class Watches:
    """All watches of a session."""

    def __init__(
        self,
        channel: Channel,
        mailbox: tuple[bytes, bytes],
        arrived: Callable[[Change], None],
        connected: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            channel: Where the stream goes.
            mailbox: The range of keys where our mail arrives.
            arrived: Takes a letter.
            connected: Called when letters are heard of, from the first stream on and from each new
                one; what came before has to be looked up.
        """
        self._channel = channel
        self._mailbox = mailbox
        self._arrived = arrived
        self._connected = connected
        self._numbers = itertools.count(MAIL + 1)
        self._waiting: dict[int, KeyWatch] = {}
        self._stream: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self._writes = asyncio.Lock()  # a stream takes one message at a time

    async def run(self) -> None:
        """Keep a stream open until cancelled."""
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._listen()
            self._stream = None
            for waiting in self._waiting.values():
                waiting.end(0)
            self._waiting.clear()
            await asyncio.sleep(RETRY_SECONDS)

    async def until_deleted(self, key: bytes) -> KeyWatch:
        """Begin to watch a key from now on."""
        waiting = KeyWatch()
        number = next(self._numbers)
        stream = self._stream
        if stream is None:
            await asyncio.sleep(RETRY_SECONDS)
            waiting.end(0)
            return waiting
        self._waiting[number] = waiting
        waiting.ended.add_done_callback(lambda _: self._forget(number))
        await self._write(stream, watch(number, key, deletions_only=True))
        return waiting

    async def give_up(self, waiting: KeyWatch) -> None:
        """End a watch that is not needed any more."""
        for number, other in list(self._waiting.items()):
            if other is waiting:
                del self._waiting[number]
                if self._stream is not None:
                    await self._write(self._stream, unwatch(number))
        waiting.ended.cancel()

    def _forget(self, number: int) -> None:
        self._waiting.pop(number, None)

    async def _listen(self) -> None:
        stream = self._channel.stream("Watch/Watch")
        try:
            await self._write(stream, watch(MAIL, *self._mailbox))
            self._stream = stream
            while True:
                answer = await stream.read()
                if not isinstance(answer, bytes):
                    return
                await self._hear(stream, watched(answer))
        finally:
            stream.cancel()

    async def _hear(self, stream: grpc.aio.StreamStreamCall[bytes, bytes], news: Watched) -> None:
        if news.watch_id == MAIL:
            if news.created:
                self._connected()
            for change in news.changes:
                if not change.deleted:
                    self._arrived(change)
            return
        waiting = self._waiting.get(news.watch_id)
        if waiting is None:
            return
        if news.cancelled:
            waiting.end(0)
        elif news.changes:
            waiting.end(news.revision)
            await self._write(stream, unwatch(news.watch_id))
        elif news.created and not waiting.created.done():
            waiting.created.set_result(None)

    async def _write(self, stream: grpc.aio.StreamStreamCall[bytes, bytes], message: bytes) -> None:
        try:
            async with self._writes:
                await stream.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            stream.cancel()  # whatever waits for it hears of that from `run`
