"""A program that uses locks as it is told, line by line, and answers in lines of JSON.

take NAME               hold NAME: {"held": NAME, "token": .., "at": ..}; later perhaps {"lost": NAME, "at": ..}
join NAME NOTE          be a member of NAME for good: {"member": NAME}
drop NAME               release it: {"released": NAME} or {"lost": NAME}
valid NAME              {"valid": true or false}, first thing
turns NAME TASKS COUNT  let tasks take NAME so often each: {"turns": [[entered, left, token], ..]}
write NAME DATA         write the value of NAME: {"written": true}
stop NAME DATA          stop, and when woken send the same without a look at the hold: {"written": true or false}
count NAME              write 1, 2, 3 and so on: {"written": number} for each
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import coterie
from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import Data, SessionName, Write
from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
from coterie.cluster.client.engine import ClusterEngine
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import SessionLost, ValueSession
from coterie.locks.internals import engine_of
from coterie.locks.value import ValueRecord

if TYPE_CHECKING:
    from coterie import Held
    from coterie.cluster.client.participant import ParticipantHost


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class User:
    """What the program holds."""

    def __init__(self, coordinator: coterie.Coordinator) -> None:
        self._coordinator = coordinator
        self._held: dict[str, Held] = {}

    async def take(self, name: str) -> None:
        try:
            held = await self._coordinator.lock(name).acquire()
        except coterie.CoterieError as error:
            say(failed=name, error=type(error).__name__)
            return
        assert held is not None
        self._held[name] = held
        say(held=name, token=held.token, at=time.monotonic())

    async def join(self, name: str, note: str) -> None:
        held = await self._coordinator.lock(name, shared=True, note=note).acquire()
        assert held is not None
        self._held[name] = held
        say(member=name)

    async def drop(self, name: str) -> None:
        try:
            await self._held.pop(name).release()
        except coterie.LockLost:
            say(lost=name)
        else:
            say(released=name)

    async def valid(self, name: str) -> None:
        say(valid=self._held[name].valid)

    async def turns(self, name: str, tasks: str, count: str) -> None:
        found: list[tuple[float, float, int]] = []

        async def use() -> None:
            for _ in range(int(count)):
                async with self._coordinator.lock(name) as held:
                    entered = time.monotonic()
                    await asyncio.sleep(0.001)
                    assert held.valid
                    found.append((entered, time.monotonic(), held.token))

        await asyncio.gather(*(use() for _ in range(int(tasks))))
        say(turns=found)

    async def write(self, name: str, data: str) -> None:
        await self._held[name].write(data.encode())
        say(written=True)

    async def stop(self, name: str, data: str) -> None:
        engine, held = engine_of(self._coordinator), self._held[name]
        if isinstance(engine, ClusterEngine):
            late = StoredValue(held.token, 99, data.encode())
            await self._write_to_voters(engine.group.supply, name, late)
            return
        assert isinstance(engine, QueueEngine)
        bid = engine.group.supply.bids[name]
        assert isinstance(bid.session, ValueSession)
        store = bid.session.values
        assert store is not None
        record = ValueRecord(name, held.token, 99, time.time(), "late", data.encode())
        os.kill(os.getpid(), signal.SIGSTOP)
        # Up to here nothing was sent, and nothing has looked at a clock since.
        try:
            say(written=await store.write(bid.ticket, record, is_alone=False))
        except (coterie.CoterieError, SessionLost):
            say(written=False)

    async def _write_to_voters(self, host: ParticipantHost, name: str, late: StoredValue) -> None:
        sessions, number = host.participant.sessions, host.participant.bids[name].number
        frames = {
            uplink.voter: Data(
                SessionName(sessions.name, uplink.number, uplink.nonce),
                uplink.posted + 1,
                uplink.delivered,
                sessions.clock,
                system.now(),
                (Write(name, number, late),),
                sessions.number,
                sessions.known,
            )
            for uplink in sessions.uplinks
        }
        os.kill(os.getpid(), signal.SIGSTOP)
        for voter, frame in frames.items():
            host.links[voter].send(frame)
        await asyncio.sleep(0)
        say(written=host.participant.valid(name, system.now()))

    async def count(self, name: str) -> None:
        for number in itertools.count(1):
            await self._held[name].write(b"%d" % number)
            say(written=number)


async def main(url: str) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with coterie.connect(url) as coordinator:
        user = User(coordinator)
        say(ready=True)
        async for line in reader:
            verb, *arguments = line.decode().split()
            await getattr(user, verb)(*arguments)


asyncio.run(main(*sys.argv[1:]))
