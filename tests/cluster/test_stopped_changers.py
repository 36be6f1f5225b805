"""A change whose changer stops after its n-th message, on sockets: another one ends it.

What was sent has left, and the connections break, as after SIGKILL. Nodes and programs share this
process, and time is virtual.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from coterie import locks
from coterie.cluster.change import host, plan
from coterie.cluster.change.host import Change
from coterie.cluster.change.newcomer import identify
from coterie.cluster.change.plan import Newcomer
from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.change.survey import KnownConfiguration, look
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.link import Link
from coterie.errors import ChangeConflict
from tests.cluster.local_cluster import document, running, until, url_of
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import msgspec

    from coterie.algorithms.mutex.quorum.leased.changer import Goal

SAMPLE = (1, 4, 6, 9, 13, 18, 24, 31, 40)  # of some 60 messages


class Limit:
    """How many messages a changer has left; at the last it stops."""

    def __init__(self, messages: int) -> None:
        self.reached = asyncio.Event()
        self._left = messages

    def take(self) -> bool:
        if not self._left:
            return False
        self._left -= 1
        if not self._left:
            self.reached.set()
        return True


def limited(limit: Limit) -> type[Link]:
    """Make links over which no more than so many messages leave."""

    class Limited(Link):
        def send(self, frame: msgspec.Struct) -> None:
            if self.is_up and limit.take():
                super().send(frame)

    return Limited


class Ground:
    """Three voters, a spare, a program that holds a lock, and one that takes another in turns."""

    def __init__(self, url: str, addresses: dict[str, str]) -> None:
        self.url = url
        self.entries = 0
        self._addresses = addresses

    async def standing(self) -> KnownConfiguration:
        return await look(make_visit(self.url))

    async def replacement(self, standing: KnownConfiguration) -> Goal:
        """Put the node that does not vote in the place of the voter beside it."""
        names = {voter.name for voter in standing.voters}
        old, new = ("c", "d") if "c" in names else ("d", "c")
        newcomer = await identify(Newcomer(new, self._addresses[new]), standing)
        return plan.replace(standing.configuration, old, newcomer)

    async def use(self, coordinator: locks.Coordinator) -> None:
        last = 0
        while True:
            async with coordinator.lock("busy") as held:
                assert held.token > last
                last = held.token
                self.entries += 1
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def ground(folder: Path) -> AsyncIterator[Ground]:
    config = convert(document(3, data="data"), folder)
    url = url_of(config)
    addresses = {member.name: str(member.address) for member in config.membership.members}
    addresses["d"] = f"127.0.0.1:{free_ports(1)[0]}"
    made = Ground(url, addresses)
    async with running(config) as nodes:
        await until(lambda: all(node.voting.voter.number for node in nodes), "the first number")
        place = Location("d", parse_address(addresses["d"]), folder / "data" / "d")
        spare = Node(await spare_config(place, make_visit(url)), "d")
        await spare.start()
        try:
            async with locks.connect(url) as program, locks.connect(url) as holder:
                using = asyncio.create_task(made.use(program))
                async with holder.lock("held") as held:
                    yield made
                    assert held.valid
                using.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await using
        finally:
            await spare.stop()


async def stop_after(messages: int, made: Ground, patch: pytest.MonkeyPatch) -> bool:
    """Begin a change, stop it after so many messages; return whether it had as many."""
    standing = await made.standing()
    goal = await made.replacement(standing)
    limit = Limit(messages)
    with patch.context() as patched:
        patched.setattr(host, "Link", limited(limit))
        change = asyncio.create_task(Change(standing.membership, standing.security, goal).run())
        stop = asyncio.create_task(limit.reached.wait())
        await asyncio.wait((change, stop), return_when=asyncio.FIRST_COMPLETED)
        was_reached = not change.done()
        for task in (change, stop):
            task.cancel()
        await asyncio.gather(change, stop, return_exceptions=True)
    return was_reached


async def end(made: Ground, *, takes_back: bool) -> None:
    """End what is found, forwards or backwards; nothing is left open, and locks are granted."""
    standing = await made.standing()
    present = standing.configuration
    back = takes_back and present.is_joint
    goal = plan.abort(present) if back else plan.finish(present)
    # The voters may have accepted the last step already: then that is ended, and not taken back.
    with contextlib.suppress(ChangeConflict):
        await Change(standing.membership, standing.security, goal).run()
    reached = (await made.standing()).configuration
    assert not reached.open
    assert not reached.is_joint
    entries = made.entries
    await until(lambda: made.entries > entries, "the next entry")


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_second_changer_ends_what_one_has_left_after_any_of_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, takes_back: bool
) -> None:
    async def main() -> None:
        async with ground(tmp_path) as made:
            for messages in SAMPLE:
                assert await stop_after(messages, made, monkeypatch)
                await end(made, takes_back=takes_back)

    run(monkeypatch, main)
