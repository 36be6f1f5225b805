"""The watches of a session, over one stream to etcd.

What a watch says is a hint: what waits looks at the server before it goes on. So a stream that
breaks, or a watch that etcd cancels, only makes everything that waits look again.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import grpc.aio

from coterie.engines.etcd.messages import unwatch, watch, watched
from coterie.errors import ConfigError, CoterieError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.etcd.channel import Channel
    from coterie.engines.etcd.messages import Change, Watched

RETRY_SECONDS = 0.1
MAIL = 1  # the number of the watch of our mail


class KeyWatch:
    """A watch of one key, until it is deleted."""

    def __init__(self, number: int) -> None:
        """Begin; etcd has not heard of it yet."""
        loop = asyncio.get_running_loop()
        self.number = number
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
        refused: Callable[[ConfigError], None],
    ) -> None:
        """Prepare.

        Args:
            channel: Where the stream goes.
            mailbox: The range of keys where our mail arrives.
            arrived: Takes a letter.
            connected: Called when letters are heard of, from the first stream on and from each new
                one; what came before has to be looked up.
            refused: Called when etcd refuses watches although we have just logged in.
        """
        self.trouble = ""  # what the last stream has ended with
        self._channel = channel
        self._mailbox = mailbox
        self._arrived = arrived
        self._connected = connected
        self._refused = refused
        self._refusals = 0  # in a row
        self._numbers = itertools.count(MAIL + 1)
        self._waiting: dict[int, KeyWatch] = {}
        self._requests: asyncio.Queue[bytes] | None = None  # to the present stream, if there is one

    async def run(self) -> None:
        """Keep a stream open until cancelled."""
        try:
            while True:
                try:
                    await self._listen()
                except grpc.aio.AioRpcError as error:
                    self.trouble = error.details() or error.code().name
                except ConfigError as error:
                    self._refused(error)
                    return
                except CoterieError as error:
                    self.trouble = str(error)
                self.wake_all()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self.wake_all()

    def wake_all(self) -> None:
        """Let everything that waits look for itself: its watch is over."""
        for waiting in self._waiting.values():
            waiting.end(0)
        self._waiting.clear()

    async def until_deleted(self, key: bytes) -> KeyWatch:
        """Begin to watch a key from now on."""
        waiting = KeyWatch(next(self._numbers))
        if self._requests is None:
            await asyncio.sleep(RETRY_SECONDS)
            waiting.end(0)
            return waiting
        self._waiting[waiting.number] = waiting
        self._requests.put_nowait(watch(waiting.number, key, deletions_only=True))
        return waiting

    def give_up(self, waiting: KeyWatch) -> None:
        """End a watch that is not needed any more."""
        waiting.ended.cancel()
        if self._waiting.pop(waiting.number, None) is not None and self._requests is not None:
            self._requests.put_nowait(unwatch(waiting.number))

    async def _listen(self) -> None:
        stream = self._channel.stream("Watch/Watch")
        self._requests = asyncio.Queue()
        self._requests.put_nowait(watch(MAIL, *self._mailbox))
        # A write that is cancelled ends the whole stream, so only this task writes.
        writer = asyncio.ensure_future(_write(stream, self._requests))
        try:
            while True:
                answer = await _read(stream)
                if answer is None or not await self._hear(watched(answer)):
                    return
        finally:
            self._requests = None
            writer.cancel()
            stream.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _hear(self, news: Watched) -> bool:
        """Take note of an answer; return False if the stream is of no use any more."""
        if news.created and news.cancelled:  # etcd gives one that it refuses no number that we know
            self._refusals += 1
            if self._refusals > 1:
                raise self._channel.refusal("a watch was refused")
            await self._channel.renew_login()
            return False
        if news.watch_id == MAIL:
            self._hear_mail(news)
            return not news.cancelled
        self._hear_key(news)
        return True

    def _hear_mail(self, news: Watched) -> None:
        if news.created:
            self._refusals = 0
            self._connected()
        for change in news.changes:
            if not change.deleted:
                self._arrived(change)

    def _hear_key(self, news: Watched) -> None:
        waiting = self._waiting.get(news.watch_id)
        if waiting is None:
            return
        if news.cancelled:
            del self._waiting[news.watch_id]
            waiting.end(0)
        elif news.changes:
            self._waiting.pop(news.watch_id)
            waiting.end(news.revision)
            if self._requests is not None:
                self._requests.put_nowait(unwatch(news.watch_id))
        elif news.created and not waiting.created.done():
            waiting.created.set_result(None)


async def _read(stream: grpc.aio.StreamStreamCall[bytes, bytes]) -> bytes | None:
    """Return the next message; None if there are no more.

    A stream that was ended on this side says so by a cancellation, which is not one of this task.
    """
    try:
        answer = await stream.read()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return None
    return answer if isinstance(answer, bytes) else None


async def _write(
    stream: grpc.aio.StreamStreamCall[bytes, bytes], requests: asyncio.Queue[bytes]
) -> None:
    try:
        while True:
            await stream.write(await requests.get())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        stream.cancel()  # the one that reads hears of it
