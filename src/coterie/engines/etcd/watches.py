"""The watches of a session, over one stream to etcd.

A watch is on all entries of one process in the queue of one lock, and stays for a while: where
programs take turns, the entry next before ours is one of the same process each time. What a
watch has seen since it began is remembered, so a key that was there at a later revision than that, and whose
end it has not told, is still there. For anything else what waits looks at the server before it goes
on: a stream that breaks, or a watch that etcd cancels, makes everything that waits look again.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import grpc.aio

from coterie.engines.etcd.keys import after
from coterie.engines.etcd.messages import unwatch, watch, watched
from coterie.engines.queue.nonsense import sensible
from coterie.errors import ConfigError, CoterieError
from coterie.system.aio import first_done, is_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.engines.etcd.channel import EtcdChannel
    from coterie.engines.etcd.messages import KeyChange, Watched

RETRY_SECONDS = 0.1
MAIL = 1  # the number of the watch of our mail
KEPT_MAX = 64  # watches, as long as no more are waited for
IDLE_MAX = 2  # times in a row that a watch may say what is of no use
GONE_MAX = 4  # keys of one process for one lock whose end is remembered


class Gone(NamedTuple):
    """What is known of the end of a key."""

    revision: int  # of the deletion; 0: its watch is over, so look again
    # Its process joined again in the same revision: it does so only with an entry that was inside.
    passed_on: bool = False


class EntryWatch:
    """A watch of the entries of one process for one lock."""

    def __init__(self, number: int, begin: bytes) -> None:
        """Begin; etcd has not heard of it yet."""
        self.number = number
        self.begin = begin  # of the keys
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.since = math.inf  # the revision after which all that is gone is known here
        self.waits: list[KeyWait] = []
        self.idle = 0  # how many times in a row it has said what was of no use
        self.gone: dict[bytes, Gone] = {}  # the last few

    def start(self, revision: int) -> None:
        """Take note that nothing is missed from now on."""
        self.since = revision
        self.began.set_result(None)

    def hear(self, changes: Sequence[KeyChange]) -> None:
        """Take note of changes."""
        joined = {change.revision for change in changes if not change.deleted}
        self.idle = 0 if self.waits else self.idle + 1
        for change in changes:
            if change.deleted:
                gone = Gone(change.revision, change.revision in joined)
                self.gone[change.key] = gone
                for wait in self.waits:
                    if wait.key == change.key:
                        wait.end(gone)
        while len(self.gone) > GONE_MAX:
            self.since = max(self.since, self.gone.pop(next(iter(self.gone))).revision)

    def end(self) -> None:
        """Let all that wait look for themselves."""
        if not self.began.done():
            self.began.set_result(None)
        for wait in self.waits:
            wait.end(Gone(0))


class KeyWait:
    """A wait for the end of one key, which its watch may have seen already."""

    def __init__(self, entries: EntryWatch, key: bytes) -> None:
        """Begin to wait."""
        self.key = key
        self.ended: asyncio.Future[Gone] = asyncio.get_running_loop().create_future()
        self._entries = entries
        entries.waits.append(self)
        if key in entries.gone:
            self.end(entries.gone[key])

    async def since(self) -> float:
        """Return the revision after which the end of a key is not missed, once that is known."""
        await first_done((self._entries.began,), None)
        return self._entries.since

    def end(self, gone: Gone) -> None:
        """Wake the one that waits."""
        if not self.ended.done():
            self.ended.set_result(gone)

    def give_up(self) -> None:
        """Wait no longer; the watch stays for a while."""
        self.ended.cancel()
        self._entries.waits.remove(self)


class Watches:
    """All watches of a session."""

    def __init__(
        self,
        channel: EtcdChannel,
        mailbox: tuple[bytes, bytes],
        arrived: Callable[[KeyChange], None],
        connected: Callable[[], None],
        refused: Callable[[ConfigError], None],
    ) -> None:
        """Prepare.

        Args:
            channel: Where the stream goes.
            mailbox: The range of keys where our mail arrives.
            arrived: Takes each change there: a letter, or that one has gone.
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
        self._watches: dict[bytes, EntryWatch] = {}  # by what keys begin with, the last used last
        self._by_number: dict[int, EntryWatch] = {}
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
        for entries in list(self._watches.values()):
            self._forget(entries)

    async def until_deleted(self, key: bytes) -> KeyWait:
        """Begin to wait for the end of a key."""
        begin = key[: key.rindex(b".") + 1]
        entries = self._watches.pop(begin, None)
        if entries is None:
            entries = EntryWatch(next(self._numbers), begin)
            if self._requests is None:
                entries.end()
                await asyncio.sleep(RETRY_SECONDS)
                wait = KeyWait(entries, key)
                wait.end(Gone(0))
                return wait
            self._by_number[entries.number] = entries
            self._requests.put_nowait(watch(entries.number, begin, after(begin)))
        self._watches[begin] = entries
        if len(self._watches) > KEPT_MAX:
            oldest = next((each for each in self._watches.values() if not each.waits), None)
            if oldest is not None and oldest is not entries:
                self._forget(oldest)
        return KeyWait(entries, key)

    def _forget(self, entries: EntryWatch) -> None:
        """End a watch, here and at etcd."""
        del self._watches[entries.begin], self._by_number[entries.number]
        entries.end()
        if self._requests is not None:
            self._requests.put_nowait(unwatch(entries.number))

    async def _listen(self) -> None:
        stream = self._channel.stream("Watch/Watch")
        self._requests = asyncio.Queue()
        self._requests.put_nowait(watch(MAIL, *self._mailbox))
        # A write that is cancelled ends the whole stream, so only this task writes.
        writer = asyncio.ensure_future(_write(stream, self._requests))
        try:
            while True:
                answer = await _read(stream)
                if answer is None:
                    return
                with sensible(self._channel):
                    news = watched(answer)
                if not await self._hear(news):
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
            self._arrived(change)

    def _hear_key(self, news: Watched) -> None:
        entries = self._by_number.get(news.watch_id)
        if entries is None:
            return
        if news.cancelled:
            self._forget(entries)
        elif news.created:
            entries.start(news.revision)
        elif news.changes:
            entries.hear(news.changes)
            if entries.idle >= IDLE_MAX:
                self._forget(entries)


async def _read(stream: grpc.aio.StreamStreamCall[bytes, bytes]) -> bytes | None:
    """Return the next message; None if there are no more.

    A stream that was ended on this side says so by a cancellation, which is not one of this task.
    """
    try:
        answer = await stream.read()
    except asyncio.CancelledError:
        if is_cancelled():
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
