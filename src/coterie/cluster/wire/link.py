"""A link to a node: a connection that is made again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coterie import system
from coterie.cluster.wire.calls import FIRST_PAUSE_SECONDS, CallRound
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.handshake import HANDSHAKE_SECONDS_MAX, OtherDiskError, OtherNodeError
from coterie.cluster.wire.trouble import explain_at
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import msgspec

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.frames import Welcome
    from coterie.cluster.wire.handshake import Caller

DIAL_SECONDS_MAX = 3.0
GREETING_SECONDS_MIN = 1.0  # for an answer to the handshake, if the lease is shorter
PAUSE_SECONDS_MAX = 1.0
CALLS_PER_LEASE = 8
LASTED_SECONDS = 1.0  # after a connection that has lasted this long, the first pause is short

Received = TypeVar("Received")

logger = logging.getLogger("coterie.cluster")


async def dial(address: Address, tls: ssl.SSLContext | None) -> Connection:
    """Open a connection; raises `OSError` if that is not possible, for whatever reason."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DIAL_SECONDS_MAX):
            _, connection = await loop.create_connection(
                Connection, address.host, address.port, ssl=tls
            )
    except UnicodeError:  # it cannot even be looked up
        raise OSError("no host can have that name") from None
    except ConnectionResetError:
        if tls is None:
            raise
        raise OSError("it hung up in the TLS handshake: it may not speak TLS") from None
    return connection


class VoterLink(Protocol):
    """The way to a voter: a link, or the voter in this very process."""

    @property
    def is_up(self) -> bool:
        """Whether frames can be sent now."""

    @property
    def trouble(self) -> str:
        """Why not."""

    @property
    def is_untried(self) -> bool:
        """Whether the first call has not come to an end yet."""

    def start(self) -> None:
        """Begin to call the voter."""

    def insist_on(self, disk: str) -> None:
        """Have no voter at the other end but one with this disk."""

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame."""

    async def stop(self) -> None:
        """Call the voter no more."""


class Link:
    """Keeps a connection to one node, at the address where it answers first."""

    def __init__(
        self,
        node: str,
        addresses: Callable[[], Sequence[Address]],
        caller: Callable[[str], Caller],
        tls: ssl.SSLContext | None,
        lease: Callable[[], float],
        *,
        decode: Callable[[memoryview], Received],
        receive: Callable[[Received], None],
        connected: Callable[[Welcome], None],
        disconnected: Callable[[], None] | None = None,
        stopped: Callable[[], None] | None = None,
        met: Callable[[Address, str, str], None] | None = None,
    ) -> None:
        """Prepare; a node that does not answer for a lease is called again, several times in each.

        Args:
            node: The name of the node.
            addresses: Lists where it may be found; called for each turn of calls.
            caller: Makes our end of the handshake, for each call, by the disk that is meant.
            tls: How to encrypt; None: not at all.
            lease: Reads the lease of the cluster, which may change.
            decode: Reads a frame.
            receive: Takes each frame that was read.
            connected: Called when a connection is up.
            disconnected: Called when a connection is lost.
            stopped: Called at the end of `stop`.
            met: Called with each address that answers, and the name and the disk of the node there.
        """
        self.node = node
        self.trouble = "not tried yet"  # why there is no connection; empty if there is one
        self._logged = ""  # of that
        self.delay_seconds = 0.0  # of a frame to or from the node, as the latest handshake tells
        self.tried = asyncio.Event()  # it has been up, it is known why not, or it was stopped
        self._decode: Callable[[memoryview], Any] = decode
        self._receive: Callable[[Any], None] = receive
        self._connected = connected
        self._disconnected = disconnected
        self._stopped = stopped
        self._met = met
        self._addresses = addresses
        self._caller = caller
        self._tls = tls
        self._lease = lease
        self._unanswered_since: float | None = None
        self._sent = system.now()
        self._connection: Connection | None = None
        self._disk = self._met_disk = ""  # of the node that is wanted, empty: any; and that was met
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    @property
    def is_untried(self) -> bool:
        """Whether the first call has not come to an end yet."""
        return not self.tried.is_set()

    def start(self) -> None:
        """Begin to call."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"link {self.node}")

    def insist_on(self, disk: str) -> None:
        """Have no node at the other end but one with this disk.

        Another under the same name is another voter, which knows nothing of what the one that is
        meant has given and promised.
        """
        self._disk = disk
        if self._connection is not None and self._met_disk != disk:
            self._connection.abort(str(OtherDiskError(self.node, self._met_disk)))

    def give_up(self) -> None:
        """Call the node no more, because it will not have us."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """End the connection; what was sent before still leaves."""
        self.tried.set()
        connection = self._connection
        if connection is not None:
            connection.close("we have ended")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if connection is not None:
            await connection.wait_closed()
        if self._stopped is not None:
            self._stopped()

    def send(self, frame: msgspec.Struct) -> None:
        """Send, if there is a connection; sessions send again what got lost."""
        connection = self._connection
        if connection is None:
            return
        now = system.now()
        if self._unanswered_since is None:
            self._unanswered_since = now
        elif self._is_silent(now):
            # sometimes: a connection gives no answer for a lease
            connection.abort(f"no answer for {self._lease():g} s")
            return
        self._sent = now
        connection.send(frame)

    def _is_silent(self, now: float) -> bool:
        """Return True if the node has let a lease pass without an answer.

        A session that waits for one sends again and again; after a long break the count starts over.
        """
        lease = self._lease()
        if now - self._sent > lease:
            self._unanswered_since = now
        return self._unanswered_since is not None and now - self._unanswered_since > lease

    def abort(self, reason: str) -> None:
        """Break the connection, if there is one; it is made again."""
        if self._connection is not None:
            self._connection.abort(reason)

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = system.now()
            if await self._call_all():
                # sometimes: another disk answers than the one that is meant
                pause = self._longest_pause()  # only a command of an operator makes it right
            if system.now() - began > LASTED_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause * system.random().uniform(0.5, 1))
            pause = min(2 * pause, self._longest_pause())

    def _longest_pause(self) -> float:
        return min(PAUSE_SECONDS_MAX, self._lease() / CALLS_PER_LEASE)

    async def _call_all(self) -> bool:
        """Call once where the node may be, and work with the connection until it ends.

        Return whether the node was found with another disk in the end.
        """
        addresses = list(dict.fromkeys(self._addresses()))
        wrong: dict[Address, Exception] = {}

        def fail(address: Address, error: Exception) -> None:
            wrong[address] = error
            if self.is_untried:
                self._note(addresses, wrong)

        reached = await CallRound(self._call, fail).run(addresses)
        if reached is not None:
            wrong = {reached: wrong[reached]}  # why it is reached no more
        self._note(addresses, wrong)
        self._log_trouble()
        return any(isinstance(error, OtherDiskError) for error in wrong.values())

    async def _call(self, address: Address, calls: CallRound) -> None:
        connection = await dial(address, self._tls)
        try:
            welcome = await self._greet(connection, address, calls)
        except BaseException as error:
            if isinstance(error, OtherNodeError | OtherDiskError):
                self._note_place(address, error.node, error.disk)
            connection.abort("the handshake failed")
            await connection.wait_closed()
            raise
        calls.settle()
        # In the turn in which the node has let us in: what it sends next is no part of the handshake.
        await self._use(connection, welcome)

    async def _greet(self, connection: Connection, address: Address, calls: CallRound) -> Welcome:
        began = system.now()
        # A machine that went down with the hello in its memory never answers, and is back before the
        # longest handshake is over: the voter must not be missed for many leases.
        patience = min(max(GREETING_SECONDS_MIN, self._lease()), HANDSHAKE_SECONDS_MAX)
        caller, wanted = self._caller(self._disk), partial(calls.takes, address)
        welcome = await caller.greet(connection, patience, wanted)
        self._note_place(address, welcome.node, welcome.disk)
        self.delay_seconds = (system.now() - began) / 2
        self._meet(welcome.disk)
        return welcome

    def _note_place(self, address: Address, node: str, disk: str) -> None:
        if self._met is not None:
            self._met(address, node, disk)

    def _meet(self, disk: str) -> None:
        if self._disk and disk != self._disk:  # that has come to be known during the handshake
            raise OtherDiskError(self.node, disk)
        self._met_disk = disk

    async def _use(self, connection: Connection, welcome: Welcome) -> None:
        """Work with a connection until it ends."""
        over: asyncio.Queue[str] = asyncio.Queue()
        connection.use(self._take, over.put_nowait)
        if connection.closed:
            raise ProtocolError("the connection was closed at once")
        self._connection = connection
        self._unanswered_since = None
        self.trouble = self._logged = ""
        logger.info("link to %(peer)s is up", {"peer": self.node}, extra={"event": "link-up"})
        try:
            self._connected(welcome)
            self.tried.set()
            reason = await over.get()
        except ProtocolError as error:  # `connected` has refused the node
            connection.abort(str(error))
            raise
        finally:
            self._connection = None
            if self._disconnected is not None:
                self._disconnected()
        raise ProtocolError(reason)

    def _take(self, frame: memoryview) -> None:
        self._unanswered_since = None
        self._receive(self._decode(frame))

    def _note(self, addresses: Iterable[Address], wrong: Mapping[Address, Exception]) -> None:
        """Keep why the node is not reached, in the order of its addresses."""
        self.trouble = "; ".join(
            explain_at(each, wrong[each]) for each in addresses if each in wrong
        )
        self.tried.set()

    def _log_trouble(self) -> None:
        """Log why the node is not reached when all addresses were tried, unless it is no news."""
        if self.trouble != self._logged:
            self._logged = self.trouble
            logger.warning(
                "link to %(peer)s is down: %(reason)s",
                {"peer": self.node, "reason": self.trouble},
                extra={"event": "link-down"},
            )
