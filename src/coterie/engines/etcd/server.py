"""etcd as a server of locks: who it is, and the sessions with it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.cas.session import CasSession
from coterie.engines.etcd import messages as api
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.etcd.steps import CALL_SECONDS_MAX, EtcdSteps
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import sensible
from coterie.engines.queue.observation import Observations
from coterie.engines.queue.server import ServerNode
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from coterie.engines.queue.server import SessionListener
    from coterie.engines.queue.url import ServerUrl

LEASE_SECONDS_MIN = 2  # the hint upon which others begin to count lasts that long


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on etcd."""
    parsed = parse_server_url(url, port=2379, parameters=(*TLS_PARAMETERS, WITNESS))
    if parsed.path:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: a path after the addresses means nothing, got {parsed.path!r}"
        )
    return QueueEngine(
        EtcdServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class EtcdServer:
    """A cluster of etcd."""

    lease_min = float(LEASE_SECONDS_MIN)

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is."""
        self.lease = url.lease_from(self.lease_min)
        self._url = url
        self._next = itertools.cycle(range(len(url.addresses)))
        self._observed: dict[str, Observations] = {}  # by participant

    def __str__(self) -> str:
        """Name the cluster for people."""
        return f"etcd at {self._url.shown}"

    async def open(self, participant: str, told: SessionListener, lease: float) -> CasSession:
        """Begin a session; what was seen of others in former ones stays true.

        Each begins with another member: one that is cut off from the others accepts connections,
        too, and would be asked in vain again and again.
        """
        first, addresses = next(self._next), self._url.addresses
        channel = EtcdChannel(self._url._replace(addresses=addresses[first:] + addresses[:first]))
        observed = self._observed.setdefault(participant, Observations())
        name = system.secret(8).hex()
        steps = EtcdSteps(channel, name, participant, lease)
        session = CasSession(str(self), name, steps, told, lease=lease, observed=observed)
        try:
            await channel.open(min(CALL_SECONDS_MAX, lease))
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask each member by itself; one that knows no leader can decide nothing."""
        members = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*map(_node, members)))


async def _node(url: ServerUrl) -> ServerNode:
    channel = EtcdChannel(url)
    try:
        await channel.open(CALL_SECONDS_MAX)
        answer = await channel.call("Maintenance/Status", b"", CALL_SECONDS_MAX)
        with sensible(channel):
            status = api.status(answer)
    except Unavailable as error:
        return ServerNode(url.shown, trouble=str(error).removeprefix(f"{channel}: "))
    finally:
        await channel.close()
    trouble = "" if status.leader else "it knows no leader"
    role = "leader" if status.leader == status.member else "follower"
    return ServerNode(url.shown, status.version, "" if trouble else role, trouble)
