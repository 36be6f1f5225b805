"""How a program gets into a cluster: as a caller of its nodes, or as one of them."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from coterie.aio import to_the_end
from coterie.cluster.admin.connection import discover
from coterie.cluster.client.participant import Attending
from coterie.cluster.runtime import clock
from coterie.cluster.voter.node import Node
from coterie.cluster.wire.frames import decode_from_voter
from coterie.cluster.wire.handshake import Caller, Credentials, Identity, new_identity
from coterie.cluster.wire.link import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cluster.client.participant import Host
    from coterie.cluster.config import Config
    from coterie.cluster.membership import Address, Membership
    from coterie.cluster.wire.security import Security
    from coterie.process import ProcessId

FIRST_TRY_SECONDS_MAX = 0.25


class Access(ABC):
    """A way in."""

    def __init__(self) -> None:
        """Begin outside."""
        self._links: list[Links] = []  # of each participant

    async def enter(self, host: Host) -> Attending:
        """Make a participant on behalf of `host`, with a line to every voter."""
        await self._arrive()
        try:
            attending = self.enter_again(host)
            await self._links[0].settle()
        except BaseException:
            await to_the_end(self.leave())
            raise
        return attending

    @abstractmethod
    async def _arrive(self) -> None:
        """Do what comes before any participant."""

    @abstractmethod
    def enter_again(self, host: Host, lease: float | None = None) -> Attending:
        """Make a participant, with a lease of its own if one is given; its lines will come."""

    @abstractmethod
    async def leave(self) -> None:
        """Close all lines; what was sent before still leaves."""


def own_identity() -> Identity:
    """Draw an identity for this process, with a label by which people find it."""
    return new_identity(f"{socket.gethostname()}:{os.getpid()}")


class Links:
    """The links of one participant."""

    def __init__(self, membership: Membership, security: Security, identity: Identity) -> None:
        """Prepare to call the nodes."""
        self._membership = membership
        self._identity = identity
        self._credentials = Credentials(
            membership.cluster, membership.digest, security.secret_bytes()
        )
        self._tls = security.client_context()
        self._links: list[Link] = []

    def start(self, attending: Attending, voter: ProcessId, addresses: Sequence[Address]) -> None:
        """Call one voter, at any of these addresses, for as long as we run."""
        node = self._membership.members[voter - 1].name
        lease = self._membership.settings.lease
        link = Link(
            node,
            addresses,
            lambda: self._caller(node),
            self._tls,
            lease,
            connected=lambda welcome: attending.connected(voter, welcome.clock),
            receive=lambda frame: attending.receive(voter, decode_from_voter(frame)),
        )
        self._links.append(link)
        attending.join(voter, link)

    def _caller(self, node: str) -> Caller:
        error = clock.error_borne(self._membership.settings.lease)
        return Caller(self._credentials, "participant", self._identity, node, error)

    async def settle(self) -> None:
        """Give each link the time of one try, so that first requests know all voters' clocks."""
        try:
            async with asyncio.timeout(FIRST_TRY_SECONDS_MAX):
                for link in self._links:
                    await link.tried.wait()
        except TimeoutError:
            pass  # they go on trying

    async def stop(self) -> None:
        """Close them."""
        for link in self._links:
            await link.stop()
        self._links.clear()


class Visit(Access):
    """Access for a program that does not vote."""

    def __init__(self, addresses: Sequence[Address], cluster: str, security: Security) -> None:
        """Remember whom to call; everything else is learnt from the first who answers."""
        super().__init__()
        self._addresses = addresses
        self._cluster = cluster
        self.security = security
        self._membership: Membership

    async def learn(self) -> Membership:
        """Learn the configuration."""
        return await discover(self._addresses, self._cluster, self.security)

    async def _arrive(self) -> None:
        self._membership = await self.learn()

    def enter_again(self, host: Host, lease: float | None = None) -> Attending:
        """Call all voters on behalf of a participant."""
        membership, identity = self._membership, own_identity()
        home = random.randint(1, len(membership.members))
        attending = Attending(membership, identity, home, host, lease)
        links = Links(membership, self.security, identity)
        self._links.append(links)
        for voter, member in enumerate(membership.members, 1):
            links.start(attending, voter, self._ways(voter, member.address))
        return attending

    def _ways(self, voter: ProcessId, known: Address) -> list[Address]:
        """Try what the user wrote, in case nodes are seen at other addresses from here."""
        if len(self._addresses) != len(self._membership.members):
            return [known]
        return list(dict.fromkeys([self._addresses[voter - 1], known]))

    async def leave(self) -> None:
        """Close all links."""
        while self._links:
            await self._links.pop().stop()


class Seat(Access):
    """Access for a program that is itself a voting node."""

    def __init__(self, config: Config, node: str, *, new_cluster: bool) -> None:
        """Remember which node we are."""
        super().__init__()
        self._config = config
        self._node = Node(config, node, new_cluster=new_cluster)

    async def _arrive(self) -> None:
        await self._node.start()

    def enter_again(self, host: Host, lease: float | None = None) -> Attending:
        """Call the other voters on behalf of a participant."""
        membership, identity = self._config.membership, own_identity()
        own = membership.voter(self._node.name)
        attending = Attending(membership, identity, own, host, lease)
        links = Links(membership, self._config.security, identity)
        self._links.append(links)
        for voter, member in enumerate(membership.members, 1):
            if voter == own:
                attending.join_here(voter, self._node.voting)
            else:
                links.start(attending, voter, [member.address])
        return attending

    async def leave(self) -> None:
        """Close all links, and end the node when it has heard our goodbye."""
        while self._links:
            await self._links.pop().stop()
        await asyncio.sleep(0)
        await self._node.stop()
