"""A site of the store on real sockets: the process, its disk, and its links to the other sites."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.cluster.membership.config import Config, NodeOptions
from coterie.cluster.membership.membership import Choice, Member
from coterie.cluster.runtime.host import Host
from coterie.cluster.runtime.incarnation import count_start
from coterie.cluster.store.log import StoreLog
from coterie.cluster.wire.connection import FAULTS, FRAME_BYTES_MAX
from coterie.cluster.wire.peers import Handlers, Peers
from coterie.errors import ConfigError, ProtocolError, Unavailable
from coterie.process import encode, seat
from coterie.transactions.catalogue import scheme
from coterie.transactions.site.messages import Inquire
from coterie.transactions.site.site import Site, typed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie.cluster.wire.frames import ClassicMessage
    from coterie.process import Event, Outbox, ProcessId

STORE = "store"  # what letters between sites are about
RINGS_PER_LEASE = 4
CONTENT_BYTES_MAX = FRAME_BYTES_MAX - 1024  # the rest is for the letter around it
SEARCH_SECONDS = 0.05  # of waiting, before a site looks for a deadlock

logger = logging.getLogger("coterie.cluster")


def store_config(config: Config) -> Config:
    """Return the configuration of the store's own links: other addresses, and what sites share."""
    members, nodes = [], {}
    for member in config.membership.members:
        options = config.options(member.name)
        if options.store is None:
            raise ConfigError(
                f'node {member.name!r} has no site of the store: add store = "host:port" to'
                f" [nodes.{member.name}]"
            )
        members.append(Member(member.name, options.store))
        nodes[member.name] = NodeOptions(options.store, data=_folder(member.name, options))
    chosen = scheme(config.store.scheme)
    variant = chosen.variant(config.store.variant).name
    membership = msgspec.structs.replace(
        config.membership,
        members=tuple(members),
        algorithm=Choice(f"{STORE}/{chosen.name}", variant),
    )
    return msgspec.structs.replace(config, membership=membership, nodes=nodes)


def _folder(name: str, options: NodeOptions) -> Path:
    if options.data is None:
        raise ConfigError(
            f"node {name!r} has no data directory, and a site must not forget what it has"
            " promised: set data in the configuration"
        )
    return options.data / STORE


class StoreNode:
    """One site. All sites have to run for everything to be read and written."""

    def __init__(
        self,
        config: Config,
        name: str,
        hear: Callable[[Event], None],
        on_failure: Callable[[Unavailable], None],
    ) -> None:
        """Take the data directory, and prepare to go on from what is in it.

        `hear` is told what the site tells its users; `on_failure` is called if the disk fails.
        """
        self._config = store_config(config)
        membership = self._config.membership
        self.name = name
        self.me = membership.voter(name)
        self.size = len(membership.members)
        self.sent = 0  # messages to other sites
        self.lost: set[ProcessId] = set()  # sites that are away for long
        self.has_ended = False
        self._on_failure = on_failure
        self._doubted: set[str] = set()
        self._has_asked = False  # what has become of a transaction: it may be in doubt
        self._peers = Peers(
            self._config.local_node(name),
            Handlers(
                letter=self._deliver,
                lost=self._lose,
                met=lambda _: None,
                restarted=self._meet_again,
                refused=self._note_refusal,
            ),
            "a store is used at its sites only: run one, by coterie.join_store",
        )
        self.site = self._new_site()
        self._seat = seat(self.site)
        self.log, self._incarnation = self._open_log()
        self._host = Host(
            self._seat,
            self._send,
            hear,
            me=self.me,
            storage=self.log,
            log=self.log,
            on_disk_failure=self._fail,
        )

    def _open_log(self) -> tuple[StoreLog, int]:
        """Take the directory; return its log and the number of this start."""
        data = self._config.options(self.name).data
        assert data is not None, "every site has a directory"
        log = StoreLog(data)
        try:
            log.belong_to([member.name for member in self._config.membership.members])
            return log, count_start(data)
        except BaseException:
            log.close()
            raise

    def _new_site(self) -> Site:
        choice, lease = self._config.store, self._config.membership.settings.lease
        scheduler = scheme(choice.scheme).build(choice.variant, self.me, self.size)
        site: Site = typed(Site, type(scheduler))(
            self.me,
            self.size,
            scheduler,
            patience=lease / RINGS_PER_LEASE,
            search_after=min(SEARCH_SECONDS, lease / 2),
        )
        return site

    def number(self, name: str) -> ProcessId:
        """Return the number of the site of a node."""
        return self._config.membership.voter(name)

    async def start(self) -> None:
        """Go on from what is on disk, call the others, and listen."""
        try:
            self._host.start(self._incarnation)
            await self._peers.start(self._incarnation)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End; what is in doubt is settled after the next start."""
        self._host.step(self._do, self.site.write_overdue)
        self._host.stop()
        self.has_ended = True
        await self._peers.stop()
        self.log.close()

    def do(self, verb: Callable[[Outbox[Any]], None]) -> None:
        """Let a user make a request: one step of the site, whose answer may wait for the disk."""
        if self.has_ended:
            raise Unavailable(f"the site of node {self.name!r} has ended")
        self._host.step(self._do, verb)

    def _do(self, verb: Callable[[Outbox[Any]], None], out: Outbox[Any]) -> None:
        verb(out)
        self._seat.settle(out)

    def sync(self) -> None:
        """Write what waits for the disk now, and hear what waits for that."""
        self._host.sync()

    # Links

    def _lose(self, peer: ProcessId) -> None:
        logger.warning(
            "site %(peer)s is lost to site %(site)s",
            {"peer": self._peers[peer].name, "site": self.name},
            extra={"event": "site-lost"},
        )
        self.lost.add(peer)

    def _meet_again(self, peer: ProcessId, incarnation: int) -> None:
        """Go on with a site that was restarted: it has what it promised on disk."""
        logger.warning(
            "site %(peer)s has returned to site %(site)s: start %(start)d",
            {"peer": self._peers[peer].name, "site": self.name, "start": incarnation},
            extra={"event": "site-returned"},
        )

    def _note_refusal(self, reason: str) -> None:
        logger.error(
            "site %(site)s is refused: %(reason)s",
            {"site": self.name, "reason": reason},
            extra={"event": "site-refused"},
        )

    def _send(self, peer: ProcessId, message: Any) -> None:
        """Send, unless the peer is away for long: sites ask again for what gets lost.

        Whatever users can make large is bounded before; so what is too large here is a crowd of
        thousands that wait for each other, which is asked about again when it has become smaller.
        """
        self.sent += 1
        if type(message) is Inquire:
            self._has_asked = True
        link = self._peers[peer]
        if peer in self.lost:
            if not link.is_up:
                return
            self.lost.remove(peer)
        content = encode(message)
        if len(content) > CONTENT_BYTES_MAX:  # it would end the link, and each one after it
            logger.error(
                "site %(site)s cannot send %(bytes)s bytes at once",
                {"site": self.name, "bytes": f"{len(content):,}"},
                extra={"event": "message-too-large"},
            )
            return
        link.send(STORE, content)

    def _deliver(self, peer: ProcessId, letter: ClassicMessage) -> None:
        """Take a letter; a faulty one ends the connection over which it came, and nothing else."""
        try:
            self._host.deliver(peer, letter.content)
        except FAULTS:
            raise
        except Exception as error:
            logger.exception(
                "site %(site)s cannot take what site %(peer)s has sent",
                {"site": self.name, "peer": self._peers[peer].name},
                extra={"event": "message-failed"},
            )
            raise ProtocolError(f"a message that makes no sense here: {error!r}") from error
        if self._has_asked:
            self._report_doubt()

    # Disk

    def _fail(self, error: OSError) -> None:
        logger.critical(
            "site %(site)s takes no more part: it cannot write its log: %(reason)s",
            {"site": self.name, "reason": error},
            extra={"event": "site-failed"},
        )
        self.has_ended = True
        failure = Unavailable(f"the site of node {self.name!r}: {error}")
        # Later, when the request whose step has failed is known as one that waits.
        asyncio.get_running_loop().call_soon(self._on_failure, failure)

    # What people should know

    def _report_doubt(self) -> None:
        """Log once whatever stays in doubt while its coordinator does not answer.

        A site that is in doubt for so long has asked about it, so there is nothing to find before.
        """
        doubted = self.site.in_doubt(rings=2)
        self._has_asked = bool(doubted)
        if doubted == self._doubted:
            return
        for name in sorted(doubted - self._doubted):
            logger.warning(
                "site %(site)s is in doubt about transaction %(transaction)s",
                {"site": self.name, "transaction": name},
                extra={"event": "transaction-in-doubt"},
            )
        self._doubted = doubted
