"""What is at the other end: version, cluster, configuration, secret and identity, in one round trip.

The caller says hello, the node answers with a proof, the caller proves itself in turn and goes on
sending at once. Each proof covers everything said so far, the other's challenge included, and says
which end it is of: it cannot be replayed or reflected. The secret is asked for when a connection
opens; what follows is protected only by TLS.

Each end says which versions of the protocol it speaks, and the newest common one is spoken. Where the
two know configurations of different numbers, the one that is behind hears of the other afterwards. Both
have to be of one installation: numbers of another one say nothing about ours.

An identity is the digest of a random key that is shown to nodes alone. Any status report names
identities, and knowing one is not enough to speak in its name.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie import system
from coterie.cluster.wire.connection import CLOSED, FRAME_BYTES_MAX
from coterie.cluster.wire.frames import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Departure,
    Hello,
    Proof,
    Refusal,
    Role,
    Welcome,
    decode_hello,
    decode_proof,
    decode_welcome,
)
from coterie.cluster.wire.security import Discreet
from coterie.cluster.wire.trouble import ERRNO
from coterie.errors import ProtocolError
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.wire.connection import Connection

HANDSHAKE_SECONDS_MAX = 5.0
CHALLENGE_BYTES = 32
LABEL_LENGTH_MAX = 255
DEPARTURES: dict[Departure, str] = {
    "other-node": "it wants another node than this one, or goes by other rules",
    "other-disk": "it wants the voter of this name, which has another data directory than this node",
    "other-installation": "it belongs to another installation of the cluster",
    "other-secret": "its secret is another one than ours, or one of us has none",
    "elsewhere": "it has reached the node that it wants at another address",
}
OLDEST_FIELDS = 8  # of a hello and of a welcome, in the oldest protocol


class Identity(Discreet, frozen=True):
    """A name that no other start of any process has had, with the key to it."""

    hidden = frozenset({"key"})

    name: str
    key: bytes
    label: str


def new_identity(label: str) -> Identity:
    """Return an identity with a random key."""
    key = system.secret(32)
    return Identity(name_of(key), key, label)


def name_of(key: bytes) -> str:
    """Return the identity that a key opens."""
    return hashlib.sha256(key).hexdigest()[:32]


class Credentials(Discreet, frozen=True):
    """What both ends of a connection have to agree on."""

    hidden = frozenset({"secret", "operator"})

    cluster: str
    configuration: str
    secret: bytes = b""  # empty: none is asked for
    number: int = 0  # of the configuration
    protocol: int = OLDEST_PROTOCOL  # that the configuration asks for
    operator: bytes = b""  # the secret of operators; empty: none is asked for
    identity: str = ""  # of the cluster; empty: unknown, or not formed yet

    def prove(self, side: bytes, hello: Hello, welcome: Welcome) -> bytes:
        """Return the proof that this side knows the secret, bound to all that was said."""
        secret = self.operator if hello.role == "operator" else self.secret
        if not secret:
            return b""
        unproven = msgspec.structs.replace(welcome, proof=b"")
        said: tuple[object, ...] = (side, hello, unproven)
        if welcome.protocol == OLDEST_PROTOCOL:
            said = (side, _in_oldest_form(hello), _in_oldest_form(unproven))
        return hmac.digest(secret, msgspec.msgpack.encode(said), "sha256")

    def is_foreign(self, identity: str) -> bool:
        """Return whether both ends know the identity of their cluster, and it is not the same."""
        return bool(self.identity and identity) and identity != self.identity

    def objection(self, configuration: str, number: int) -> str | None:
        """Return an objection to another configuration of the same number, or None."""
        if number != self.number or configuration == self.configuration:
            return None
        if number:
            return (
                f"its configuration {number} is another one than ours: two clusters have the same"
                " name, or a data directory was set back"
            )
        return "the configurations differ: nodes, coterie and times must be the same everywhere"


def _in_oldest_form(said: Hello | Welcome) -> list[object]:
    """Return the tag and the fields that an end knows which speaks the oldest protocol."""
    whole: list[object] = msgspec.to_builtins(said, builtin_types=(bytes,))
    return whole[: OLDEST_FIELDS + 1]


class WrongNodeError(ProtocolError):
    """The node that answers is not the one that we want."""

    departure: ClassVar[Departure]  # that it is told


class OtherSecretError(WrongNodeError):
    """A node has another secret than we have, or one of the two has none."""

    departure = "other-secret"

    def __init__(self, role: Role, *, has_secret: bool) -> None:
        """Say which secret it is about; `has_secret` if we have one."""
        if role == "operator":
            text = (
                "this command needs the operator secret of the cluster, and ours is another one or"
                " none: see COTERIE_OPERATOR_SECRET_FILE"
            )
        else:
            text = "secret mismatch: the node has " + (
                "another secret than we have, or none"
                if has_secret
                else "one, and we have none: set COTERIE_SECRET_FILE"
            )
        super().__init__(text)


class OtherDiskError(WrongNodeError):
    """A node has another disk than the voter of its name, and will for some time."""

    departure = "other-disk"

    def __init__(self, node: str, disk: str) -> None:
        """Say what to do: which of the two disks is the one to keep is not known here."""
        self.node = node
        self.disk = disk
        super().__init__(
            f"node {node!r} has another data directory than the voter of that name: start it with"
            f" that one; if that is lost, coterie cluster replace {node} makes this one the voter"
        )


class OtherNodeError(WrongNodeError):
    """A node of our cluster answers, and is not the one that was called, or goes by other rules."""

    departure = "other-node"

    def __init__(self, reason: str, node: str, disk: str) -> None:
        """Say why, and which node it is."""
        self.node = node
        self.disk = disk
        super().__init__(reason)


class OtherInstallationError(WrongNodeError):
    """A node belongs to another cluster, which has the same name as ours."""

    departure = "other-installation"

    def __init__(self, node: str, cluster: str) -> None:
        """Say what may have happened."""
        self.node = legible(node)
        super().__init__(
            legible(
                f"node {node!r} belongs to another installation of cluster {cluster!r}: look at its"
                " address and its data directory"
            )
        )


class ElsewhereError(WrongNodeError):
    """The node was called at several addresses, and another connection to it is used."""

    departure = "elsewhere"

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the node answers at another address, too")


class SilentNodeError(ProtocolError):
    """A process takes connections where a node should be, and says nothing: it hangs, or is stopped."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("no answer to the handshake")


class Caller:
    """The end that opens a connection."""

    def __init__(
        self,
        credentials: Credentials,
        role: Role,
        identity: Identity,
        node: str | None,
        clock_error: float = math.inf,
        *,
        incarnation: int = 0,
        disk: str = "",
    ) -> None:
        """Prepare to call; `node` is the name that the other end has to have.

        The time of day of a node without a disk may be off from ours by `clock_error` seconds. A
        peer names its `incarnation`, the number of its start. `disk` is the identity of the disk
        that the node has to have; empty: any.
        """
        self._credentials = credentials
        self._identity = identity
        self._node = node
        self._clock_error = clock_error
        self._disk = disk
        self._called_at = system.wall()
        self.hello = Hello(
            OLDEST_PROTOCOL,
            credentials.cluster,
            credentials.configuration,
            role,
            identity.name,
            identity.label,
            system.secret(CHALLENGE_BYTES),
            incarnation,
            PROTOCOL,
            credentials.number,
            credentials.identity,
        )

    async def greet(
        self,
        connection: Connection,
        patience: float = HANDSHAKE_SECONDS_MAX,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Welcome:
        """Say hello and check the answer; raise `ProtocolError` if either end refuses the other.

        It is `OtherInstallationError` if the node is of another cluster, `OtherNodeError` if it is not the
        one that was called, and `OtherDiskError` if all is well but the disk. Just before our proof `wanted`
        is asked; if the node has been reached otherwise meanwhile, it is `ElsewhereError`.
        """
        answer: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        encrypted = connection.transport.get_extra_info("ssl_object") is not None
        connection.use(
            lambda frame: self._check(connection, frame, answer, wanted),
            lambda reason: _fail(answer, f"{reason}{_hint(reason, encrypted=encrypted)}"),
        )
        connection.send(self.hello)
        try:
            async with asyncio.timeout(patience):
                return await answer
        except TimeoutError:
            raise SilentNodeError from None
        except asyncio.CancelledError:
            if not wanted():  # the node need not log that a caller has left
                connection.send(Refusal(ElsewhereError.departure))
                connection.flush()
            raise

    def _check(
        self,
        connection: Connection,
        frame: memoryview,
        answer: asyncio.Future[Welcome],
        wanted: Callable[[], bool],
    ) -> None:
        welcome = decode_welcome(frame)
        if answer.cancelled():
            return  # the caller has given up, and closes the connection
        if answer.done():
            raise ProtocolError("two answers to one hello")
        if isinstance(welcome, Refusal):
            _fail(answer, legible(f"refused: {welcome.reason}"))
            return
        error = self._error(welcome) or (None if wanted() else ElsewhereError())
        if error is not None:
            # Before our proof, so that the node does not serve us for nothing. It is to know why, as
            # callers that want another disk are no sign of a wrong secret.
            if welcome.protocol > OLDEST_PROTOCOL:
                connection.send(Refusal(error.departure))
            answer.set_exception(error)
            return
        proof = self._credentials.prove(b"caller", self.hello, welcome)
        connection.send(Proof(proof, self._identity.key))
        connection.frame_bytes_max = FRAME_BYTES_MAX
        answer.set_result(welcome)

    def _error(self, welcome: Welcome) -> WrongNodeError | None:
        expected = self._credentials.prove(b"node", self.hello, welcome)
        if not hmac.compare_digest(welcome.proof, expected):
            return OtherSecretError(self.hello.role, has_secret=bool(self._credentials.secret))
        if self._credentials.is_foreign(welcome.cluster_identity):
            return OtherInstallationError(welcome.node, welcome.cluster)
        reason = self._objection(welcome)
        if reason:
            return OtherNodeError(reason, welcome.node, welcome.disk)
        if self._disk and welcome.disk != self._disk:
            return OtherDiskError(welcome.node, welcome.disk)
        return None

    def _objection(self, welcome: Welcome) -> str | None:
        mine = self._credentials
        if self._node is not None and welcome.node != self._node:
            return legible(f"this is node {welcome.node!r} where {self._node!r} was expected")
        if mine.protocol > welcome.protocol:
            return (
                f"it speaks protocol {welcome.protocol} at most, and the cluster asks for protocol"
                f" {mine.protocol} now: run a newer version of coterie there"
            )
        if mine.configuration:
            reason = mine.objection(welcome.configuration, welcome.number)
            if reason:
                return reason
        return self._objection_to_time(welcome.wall)

    def _objection_to_time(self, wall: float | None) -> str | None:
        """7: numbers of a node without a disk rest on its time of day, which it read on the way."""
        if wall is None:
            return None
        away = max(self._called_at - wall, wall - system.wall())
        if away <= self._clock_error:
            return None
        return (
            f"its time of day is {away:.1f} s away from ours, and it has no data directory:"
            f" at most {self._clock_error:g} s are allowed then"
        )


class Greeter:
    """The end that is called."""

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        node: str,
        start: str,
        number: Callable[[], int],
        admit: Callable[[Connection, Hello], None],
        *,
        diskless: bool = False,
        disk: Callable[[], str] = str,
    ) -> None:
        """Let in callers that prove themselves: `admit` takes over their connections.

        `credentials` are those of the moment, as the configuration may change.
        `start` is another word for each start of the node, `number` reads Lamport's clock, a node
        that is `diskless` shows its time of day, and another one the identity of its `disk`.
        """
        self._credentials = credentials
        self._node = node
        self._number = number
        self._diskless = diskless
        self._disk = disk
        self._start = start
        self._admit = admit

    def greet(self, connection: Connection) -> None:
        """Wait for a hello; a caller that sends none in time is cut off."""
        loop = asyncio.get_running_loop()
        patience = loop.call_later(HANDSHAKE_SECONDS_MAX, self._lose_patience, connection)
        connection.use(
            lambda frame: self._answer(connection, frame, patience), lambda _: patience.cancel()
        )

    def _answer(
        self, connection: Connection, frame: memoryview, patience: asyncio.TimerHandle
    ) -> None:
        hello = decode_hello(frame)
        reason = self._objection(hello)
        if reason:
            connection.send(Refusal(reason))
            raise ProtocolError(reason)
        mine = self._credentials()
        challenge = system.secret(CHALLENGE_BYTES)
        welcome = Welcome(
            self._node,
            mine.cluster,
            mine.configuration,
            self._number(),
            system.wall() if self._diskless else None,
            self._start,
            challenge,
            b"",
            _common_protocol(hello),
            mine.number,
            self._disk(),
            mine.identity,
        )
        proof = mine.prove(b"node", hello, welcome)
        connection.send(msgspec.structs.replace(welcome, proof=proof))

        def conclude(frame: memoryview) -> None:
            if not self._concludes(decode_proof(frame), hello, welcome):
                connection.close(DEPARTURES["elsewhere"])
                return
            patience.cancel()
            connection.frame_bytes_max = FRAME_BYTES_MAX
            self._admit(connection, hello)

        def give_up(_: str) -> None:
            patience.cancel()
            if connection.hung_up:
                # A caller checks our proof before it shows its own, and leaves if it is wrong, or if
                # we are not the node, with the disk, that it wants. An earlier version does not say which.
                why = "it has ended, or did not wait for our answer"
                if welcome.protocol == OLDEST_PROTOCOL:
                    why = (
                        "it wants another node, or this one with another data directory, or its secret is"
                        " another one; its own log says which"
                    )
                connection.complain(f"{hello.label!r} hung up after our proof: {why}")

        connection.use(conclude, give_up)

    def _lose_patience(self, connection: Connection) -> None:
        reason = f"no handshake in {HANDSHAKE_SECONDS_MAX:g} s"
        connection.complain(reason)
        connection.abort(reason)

    def _objection(self, hello: Hello) -> str | None:
        mine = self._credentials()
        oldest, newest = max(OLDEST_PROTOCOL, mine.protocol), hello.highest
        if hello.protocol > PROTOCOL or newest < oldest:
            where = "at the caller" if newest < oldest else "on this node"
            return (
                f"the caller speaks {_versions(hello.protocol, newest)} and this node"
                f" {_versions(oldest, PROTOCOL)}: run a newer version of coterie {where}"
            )
        reason = _objection_to_cluster(hello, mine)
        if reason:
            return reason
        if len(hello.challenge) != CHALLENGE_BYTES:
            return f"a challenge must have {CHALLENGE_BYTES} bytes, got {len(hello.challenge)}"
        if len(hello.label) > LABEL_LENGTH_MAX or not hello.label.isprintable():
            return f"a label must be printable and have {LABEL_LENGTH_MAX} characters at most"
        return None

    def _concludes(self, proof: Proof | Refusal, hello: Hello, welcome: Welcome) -> bool:
        """Return whether the caller has proven itself, and not reached this node at another address, too.

        Raises `ProtocolError` if something is wrong.
        """
        if isinstance(proof, Refusal):
            if proof.reason == ElsewhereError.departure:
                return False
            known = (words for kind, words in DEPARTURES.items() if kind == proof.reason)
            why = next(known, "it does not say why")
            raise ProtocolError(f"{hello.label!r} leaves without a proof: {why}")
        expected = self._credentials().prove(b"caller", hello, welcome)
        if not hmac.compare_digest(proof.proof, expected):
            raise ProtocolError(f"{hello.label!r} does not know the secret")
        if hello.role in ("participant", "peer") and name_of(proof.key) != hello.identity:
            raise ProtocolError(f"{hello.label!r} claims an identity that is not its own")
        return True


def _objection_to_cluster(hello: Hello, mine: Credentials) -> str | None:
    """Return an objection to the cluster or the configuration that a caller takes for granted."""
    if hello.cluster not in ("", mine.cluster):
        wanted = legible(hello.cluster)
        return f"the caller wants cluster {wanted!r}, and this is cluster {mine.cluster!r}"
    if hello.role == "admin" and hello.number > 0:
        # A caller that only asks judges the answer itself, and can say what it has found: another
        # installation, whatever its number is, or another configuration of the same number.
        return None
    if mine.is_foreign(hello.cluster_identity):
        return f"the caller belongs to another installation of cluster {mine.cluster!r}"
    unknown = hello.role in ("admin", "operator") and hello.configuration == ""
    return None if unknown else mine.objection(hello.configuration, hello.number)


def _versions(oldest: int, newest: int) -> str:
    return f"protocols {oldest} to {newest}" if newest > oldest else f"protocol {newest}"


def _common_protocol(hello: Hello) -> int:
    """Return the newest protocol that both ends speak."""
    return min(PROTOCOL, hello.highest)


def _fail(answer: asyncio.Future[Welcome], reason: str) -> None:
    if not answer.done():
        answer.set_exception(ProtocolError(reason))


def _hint(reason: str, *, encrypted: bool) -> str:
    """Say what may be behind the end of a connection of which the other end has said nothing."""
    if encrypted and (reason == CLOSED or ERRNO.search(reason)):
        return "; it may not accept our certificate"
    return "; it may ask for TLS" if reason == CLOSED else ""
