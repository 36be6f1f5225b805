"""How a program gets into a cluster: as a caller of its nodes, or as one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from coterie import system
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.membership.discovery import (
    DISCOVERY_SECONDS_MAX,
    OTHERS_SECONDS_MAX,
    ask_around,
    newest,
)
from coterie.cluster.runtime import clock
from coterie.cluster.wire.certificate import warn_of_own_certificate
from coterie.cluster.wire.handshake import Caller, Identity, new_identity
from coterie.cluster.wire.link import Link
from coterie.cluster.wire.listener import warn_of_exposed_files
from coterie.cluster.wire.places import Places
from coterie.cluster.wire.voter_frames import decode_from_voter
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.cluster.client.participant import Upcalls
    from coterie.cluster.membership.discovery import KnownMembership
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.link import VoterLink
    from coterie.cluster.wire.security import Security
    from coterie.cluster.wire.voter_frames import FromVoter
    from coterie.process import ProcessId

FIRST_TRY_SECONDS_MAX = 0.25


class Access(Protocol):
    """A way in."""

    async def open(self) -> Membership:
        """Get in, or raise `Unavailable`."""

    def enter(
        self, membership: Membership, upcalls: Upcalls, lease: float | None = None
    ) -> ParticipantHost:
        """Make a participant, with a lease of its own if one is given; its links will come up."""

    async def settle(self) -> None:
        """Wait until every link of every participant has been tried, for a short time at most."""

    async def close(self) -> None:
        """Close all links; what was sent before still leaves."""


def own_identity() -> Identity:
    """Draw an identity for this process, with a label by which people find it."""
    return new_identity(f"{system.host_name()}:{system.pid()}")


def _no_guess(_: Membership, __: ProcessId) -> Sequence[Address]:
    """Take it that a voter is where it is on record, or where it was met."""
    return ()


class Links:
    """The links of one participant to the voters, wherever each of them is found."""

    def __init__(
        self,
        security: Security,
        identity: Identity,
        places: Places,
        guess: Callable[[Membership, ProcessId], Sequence[Address]] = _no_guess,
    ) -> None:
        """Prepare to call the nodes; `guess` says where a voter may be that was not met yet."""
        self._identity = identity
        self._places = places
        self._guess = guess
        self._newest: Membership | None = None  # that has been heard of
        self._secret = security.secret_bytes()
        self._tls = security.client_context()
        self._links: dict[
            Link, None
        ] = {}  # those that are not stopped, in the order of their making

    def note(self, membership: Membership) -> None:
        """Note where the voters of a newer configuration are on record."""
        self._newest = membership

    def _ways(self, membership: Membership, voter: ProcessId) -> list[Address]:
        if self._newest is not None and voter in self._newest.seats:
            membership = self._newest
        member = membership.at(voter)
        taken = {each.address for each in membership.members if each.address != member.address}
        recorded = (*self._guess(membership, voter), member.address)
        return self._places.ways(member.name, membership.disk(voter), recorded, taken)

    def link(
        self,
        membership: Membership,
        voter: ProcessId,
        current: Callable[[], Membership],
        receive: Callable[[FromVoter], None],
        connected: Callable[[int], None],
    ) -> VoterLink:
        """Make the link to one voter."""
        node = membership.at(voter).name
        link = Link(
            node,
            lambda: self._ways(membership, voter),
            lambda disk: self._caller(current(), node, disk),
            self._tls,
            lambda: current().settings.lease,
            decode=decode_from_voter,
            receive=receive,
            connected=lambda welcome: connected(welcome.clock + clock.passed(link.delay_seconds)),
            stopped=lambda: self._drop(link),
            met=self._places.note,
        )
        self._links[link] = None
        return link

    def _drop(self, link: Link) -> None:
        """Forget a link that is stopped: its voter may vote no more, and others come."""
        self._links.pop(link, None)  # that of a participant which ends may be stopped twice

    def _caller(self, membership: Membership, node: str, disk: str) -> Caller:
        error = clock.error_borne(membership.settings.lease)
        credentials = membership.credentials(self._secret)
        return Caller(credentials, "participant", self._identity, node, error, disk=disk)

    async def tried(self) -> None:
        """Wait until each link has been up, or it is known why it is not."""
        for link in list(self._links):
            await link.tried.wait()

    async def stop(self) -> None:
        """Close them."""
        for link in list(self._links):
            await link.stop()


class AllLinks:
    """The links of all participants of one program."""

    def __init__(self) -> None:
        """Begin without participants."""
        self._links: list[Links] = []

    def add(self, links: Links) -> Links:
        """Take the links of one more participant."""
        self._links.append(links)
        return links

    async def settle(self) -> None:
        """Give each link the time of one try, so that first requests know all voters' clocks."""
        try:
            async with asyncio.timeout(FIRST_TRY_SECONDS_MAX):
                for links in self._links:
                    await links.tried()
        except TimeoutError:
            pass  # they go on trying

    async def stop(self) -> None:
        """Close them, those of the last participant first."""
        while self._links:
            await self._links.pop().stop()


class Visit:
    """Access for a program that does not vote."""

    def __init__(self, addresses: Sequence[Address], cluster: str, security: Security) -> None:
        """Remember the nodes to call; everything else is learnt from those that answer."""
        self.security = security
        self.addresses = addresses
        self.places = Places(addresses)
        self._cluster = cluster
        self._links = AllLinks()

    async def open(self) -> Membership:
        """Learn the configuration; raise `UsageError` if no program outside its nodes has locks."""
        warn_of_exposed_files(self.security)
        warn_of_own_certificate(self.security)
        membership = await self.learn()
        if membership.algorithm is not None:
            names = ", ".join(member.name for member in membership.members)
            raise UsageError(
                f"cluster {membership.cluster!r} runs {membership.algorithm.name}, which has no"
                f" programs outside its nodes: take part as one of {names}, with coterie.join or"
                " --node; if it elects a leader, follow that with coterie elect -l NAME"
            )
        return membership

    async def learn(self, limit: float = DISCOVERY_SECONDS_MAX) -> Membership:
        """Ask for the configuration, and enter nothing; wait for so many seconds at most."""
        return newest(await self.ask_around(limit=limit))

    async def ask_around(
        self, patience: float = OTHERS_SECONDS_MAX, limit: float = DISCOVERY_SECONDS_MAX
    ) -> list[KnownMembership]:
        """Ask the nodes what they know of their clusters; wait so long for those behind the first."""
        asked = self.addresses, self._cluster, self.security, patience, limit
        return self._noted(await ask_around(*asked))

    def _noted(self, answers: list[KnownMembership]) -> list[KnownMembership]:
        for answer in answers:
            if answer.address is not None:
                self.places.note(answer.address, answer.node, answer.disk)
        return answers

    async def _ask_again(self, known: Membership) -> list[KnownMembership]:
        """Ask once more, where the first answer has led nowhere, and wait for nodes that are far.

        A near one that knows an old configuration, a spare for example, would be the first each time.
        At the addresses of its voters there may be nodes with other disks by now, which know a later one,
        or nodes of another installation.
        """
        voters = [member.address for member in known.members]
        answers = await ask_around(
            list(dict.fromkeys([*self.addresses, *voters])),
            self._cluster,
            self.security,
            patience=DISCOVERY_SECONDS_MAX,
        )
        return self._noted(answers)

    def enter(
        self, membership: Membership, upcalls: Upcalls, lease: float | None = None
    ) -> ParticipantHost:
        """Make a participant that calls all voters, and asks the quorum of any of them first."""
        identity = own_identity()

        links = self._links.add(Links(self.security, identity, self.places, self._guess))
        home = system.random().choice(membership.seats)
        return ParticipantHost(
            membership, identity, home, links, upcalls, lease=lease, ask_again=self._ask_again
        )

    def ways(self, membership: Membership, voter: ProcessId) -> list[Address]:
        """List where to call a voter: where it was met, on record, or where the user says that nodes are."""
        member = membership.at(voter)
        taken = {each.address for each in membership.members if each.address != member.address}
        return self.places.ways(member.name, membership.disk(voter), [member.address], taken)

    def _guess(self, membership: Membership, voter: ProcessId) -> Sequence[Address]:
        """Try what the user wrote, in case nodes are seen at other addresses from here.

        If one of the addresses is that of a voter, the voters are seen as they see each other.
        """
        place = membership.seats.index(voter)
        if len(self.addresses) != len(membership.members):
            return ()
        if membership.decided is not None and any(
            member.address in self.addresses for member in membership.members
        ):
            return ()
        return (self.addresses[place],)

    async def settle(self) -> None:
        """Give each link the time of one try."""
        await self._links.settle()

    async def close(self) -> None:
        """Close all links."""
        await self._links.stop()
