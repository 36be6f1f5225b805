"""How a program gets into a cluster as one of its voting nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.cluster.client.access import AllLinks, Links, own_identity
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.node import Node
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.cluster.wire.places import Places
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.client.participant import Upcalls
    from coterie.cluster.membership.config import Config
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.voter.host import VoterHost
    from coterie.cluster.wire.handshake import Identity
    from coterie.cluster.wire.link import VoterLink
    from coterie.cluster.wire.voter_frames import FromVoter
    from coterie.errors import CoterieError
    from coterie.process import ProcessId
    from coterie.telemetry.text import Metric


def _log_suffices(_: CoterieError) -> None:
    """Take the end of a node whose program does not ask about it."""


class MemberAccess:
    """Access for a program that is itself a voting node."""

    def __init__(self, config: Config, node: str, *, new_cluster: bool) -> None:
        """Remember which node we are."""
        self._config = config
        self.node = Node(
            config, node, new_cluster=new_cluster, program=self._metrics, on_failure=self._fail
        )
        self.failed: Callable[[CoterieError], None] = _log_suffices
        self._links = AllLinks()
        self._places = Places([member.address for member in config.membership.members])
        self._programs: list[Upcalls] = []

    async def open(self) -> Membership:
        """Start the node."""
        await self.node.start()
        return self.node.voting.membership

    def enter(
        self, membership: Membership, upcalls: Upcalls, lease: float | None = None
    ) -> ParticipantHost:
        """Make a participant that calls the other voters, and asks the quorum of its own first."""
        self._programs.append(upcalls)
        identity = own_identity()
        links = self._links.add(Links(self._config.security, identity, self._places))
        all_links = _LinksOfNode(links, self.node, identity)
        names = [member.name for member in membership.members]
        home = membership.voter(self.node.name if self.node.name in names else names[0])
        return ParticipantHost(membership, identity, home, all_links, upcalls, lease=lease)

    def _fail(self, error: CoterieError) -> None:
        """Tell the program that its data directory is wrong.

        Of a disk that has failed the log tells: votes of the other nodes go on to count here.
        """
        if isinstance(error, ConfigError):
            self.failed(error)

    def _metrics(self) -> list[Metric]:
        """Collect the figures of the first participant: that with the lease of the cluster."""
        return self._programs[0].metrics() if self._programs else []

    async def settle(self) -> None:
        """Give each link the time of one try."""
        await self._links.settle()

    async def close(self) -> None:
        """Close all links, and end the node when it has heard our goodbye."""
        self._programs.clear()
        await self._links.stop()
        await asyncio.sleep(0)
        await self.node.stop()


class _LinksOfNode:
    """Links to the other voters, and the way to the voter of this very process."""

    def __init__(self, links: Links, node: Node, identity: Identity) -> None:
        self._links = links
        self._node = node
        self._identity = identity

    def note(self, membership: Membership) -> None:
        self._links.note(membership)

    def link(
        self,
        membership: Membership,
        voter: ProcessId,
        current: Callable[[], Membership],
        receive: Callable[[FromVoter], None],
        connected: Callable[[int], None],
    ) -> VoterLink:
        # While a disk is replaced under its name, two voters have that name.
        is_ours = membership.at(voter).name == self._node.name
        if not is_ours or membership.disk(voter) not in ("", self._node.voting.voter.identity):
            return self._links.link(membership, voter, current, receive, connected)
        return InsideLink(self._node.voting, self._identity, receive, connected)


class InsideLink:
    """The link between a participant and a voter of the same process: no socket, a turn of delay."""

    is_untried = False
    trouble = ""  # there is none between two parts of one process

    def __init__(
        self,
        voting: VoterHost,
        identity: Identity,
        receive: Callable[[FromVoter], None],
        connected: Callable[[int], None],
    ) -> None:
        """Attach the participant to the voter."""
        self._voting = voting
        self._identity = identity.name
        self._connected = connected
        self._loop = asyncio.get_running_loop()
        known = voting.membership.configuration.number
        hello = Hello(
            PROTOCOL,
            "",
            "",
            "participant",
            identity.name,
            identity.label,
            b"",
            newest=PROTOCOL,
            number=known,
        )
        self._back = _Back(receive, self._loop)
        self._number = voting.attach(hello, self._back)
        self.is_up = True

    def start(self) -> None:
        """Begin: the voter is there."""
        if self.is_up:
            self._connected(self._voting.clock())

    def insist_on(self, disk: str) -> None:
        """Leave the voter if it turns out to be another than was meant."""
        if self.is_up and self._voting.voter.identity != disk:
            self.trouble = "our own data directory is another than that of the voter"
            self.is_up = False
            self._voting.leave(self._identity, self._back)

    def send(self, frame: Any) -> None:
        """Send a frame."""
        if self.is_up:
            self._loop.call_soon(self._voting.receive, self._number, self._identity, frame)

    async def stop(self) -> None:
        """Leave the voter."""
        if self.is_up:
            self.is_up = False
            self._voting.leave(self._identity, self._back)


class _Back(NamedTuple):
    receive: Callable[[FromVoter], None]
    loop: asyncio.AbstractEventLoop

    def send(self, frame: Any) -> None:
        self.loop.call_soon(self.receive, frame)
