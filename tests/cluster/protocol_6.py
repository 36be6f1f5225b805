"""Version 6 of the wire protocol and of the data directory, as the last software of it had them.

Nothing here changes with the package: the fields are copies, and the bytes were written by that
software. A version that is two older than ours needs no such file any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from coterie.cluster.wire.listener import stop_serving

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 6


class Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all that travels."""


class Hello(Frame, frozen=True):
    protocol: int
    cluster: str
    configuration: str
    role: Literal["participant", "peer", "admin"]
    identity: str
    label: str
    challenge: bytes
    incarnation: int = 0


class Welcome(Frame, frozen=True):
    node: str
    cluster: str
    configuration: str
    clock: int
    wall: float | None
    start: str
    challenge: bytes
    proof: bytes


class Proof(Frame, frozen=True):
    proof: bytes
    key: bytes


class Refusal(Frame, frozen=True):
    reason: str


class GetMembership(Frame, frozen=True):
    pass


class MembershipReply(Frame, frozen=True):
    shared: bytes


class Letter(Frame, frozen=True):
    seq: int
    lock: str
    content: bytes


class Receipt(Frame, frozen=True):
    seq: int


class SessionName(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    participant: str
    number: int
    nonce: str | None = None


class Request(Frame, frozen=True):
    lock: str
    number: int
    age: int
    stamp: int
    hold: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    shared: bool = False
    writer: int = 0


class Yield(Frame, frozen=True):
    lock: str
    number: int
    used: int


class Release(Frame, frozen=True):
    lock: str
    number: int
    used: int


class Raise(Frame, frozen=True):
    lock: str
    number: int
    token: int


class Grant(Frame, frozen=True):
    lock: str
    number: int
    low: int
    high: int
    more: bool


class Raised(Frame, frozen=True):
    lock: str
    number: int
    low: int
    high: int


class Inquire(Frame, frozen=True):
    lock: str
    number: int
    level: Annotated[int, msgspec.Meta(ge=0, le=2)]


class Data(Frame, frozen=True):
    session: SessionName
    seq: int
    ack: int
    clock: int
    time: float
    bodies: tuple[Request | Yield | Release | Raise, ...]


class Beat(Frame, frozen=True):
    session: SessionName
    ack: int
    clock: int
    time: float


class Probe(Frame, frozen=True):
    session: SessionName


class Term(Frame, frozen=True):
    session: SessionName
    lease: float


class Bye(Frame, frozen=True):
    session: SessionName


class Reply(Frame, frozen=True):
    session: SessionName
    seq: int
    ack: int
    clock: int
    echo: float
    grace: bool
    bodies: tuple[Grant | Raised | Inquire, ...]


class Ack(Frame, frozen=True):
    session: SessionName
    ack: int
    clock: int
    echo: float
    grace: bool


class Answer(Frame, frozen=True):
    session: SessionName
    alive: bool


class Nack(Frame, frozen=True):
    session: SessionName


class GetTokenBound(Frame, frozen=True):
    pass


class TokenBound(Frame, frozen=True):
    node: str
    bound: int


class FindOwners(Frame, frozen=True):
    question: int
    locks: Any
    search: bool


class GetStatus(Frame, frozen=True):
    locks: bool


class NodeStatus(Frame, frozen=True):
    figures: Any


class GetAbstention(Frame, frozen=True):
    pass


class Abstention(Frame, frozen=True):
    seconds: float
    reason: str


class Owners(Frame, frozen=True):
    question: int
    locks: Any
    labels: dict[str, str]


class AskOwner(Frame, frozen=True):
    route: int
    question: int
    locks: Any
    search: bool


class OwnerReport(Frame, frozen=True):
    route: int
    question: int
    identity: str
    locks: Any


class Membership(msgspec.Struct, frozen=True, array_like=True):
    cluster: str
    members: tuple[tuple[str, tuple[str, int]], ...]
    settings: Any
    algorithm: Any = None


decode = msgspec.msgpack.Decoder(
    Hello
    | Welcome
    | Proof
    | Refusal
    | GetMembership
    | MembershipReply
    | Letter
    | Receipt
    | Data
    | Beat
    | Probe
    | Term
    | Bye
    | Reply
    | Ack
    | Answer
    | Nack
    | GetTokenBound
    | TokenBound
    | FindOwners
    | GetStatus
    | NodeStatus
    | GetAbstention
    | Abstention
    | Owners
    | AskOwner
    | OwnerReport
).decode

SESSION = SessionName("p", 1, "n/1")
DIGEST = "4ab23f650e75f73f005f7db1ac041663"  # of cluster test: a, b, c, with a lease of 10 s
SECRET = b"secret of more than sixteen bytes"
HELLO = Hello(6, "test", DIGEST, "participant", "identity", "host:1", b"1" * 32)
WELCOME = Welcome("a", "test", DIGEST, 7, None, "start", b"2" * 32, b"")
PROOFS = {  # of these two, by that secret
    b"node": bytes.fromhex("a15e821a571b0982ace7c934e6b13355d96c8f39d17e0a839b97804a8fbdfe73"),
    b"caller": bytes.fromhex("d21239b7f30b9a0fee711b5cc3af11a792d71ba9084c186d1031ec1bc38f3d4f"),
}
BODIES_UP = (
    Request("x", 1, 5, 6, 1, True, 7),
    Yield("x", 1, 2),
    Release("x", 1, 2),
    Raise("x", 1, 9),
)
BODIES_DOWN = (Grant("x", 1, 5, 6, True), Raised("x", 1, 7, 8), Inquire("x", 1, 2))
SHARED = bytes.fromhex(
    "94a4746573749392a16192a93132372e302e302e31cd1cfd92a16292a93132372e302e302e31cd1cfe92a16392a9"
    "3132372e302e302e31cd1cff9e03a86d616a6f72697479a3616c6ccb4024000000000000cb3f747ae147ae147b"
    "cb3fd0000000000000cb4004000000000000cb4000000000000000cb4024000000000000ce00100000ce01000000"
    "c3cd0400cb0000000000000000c0"
)
BYTES: list[tuple[Frame, str]] = [  # to a voting node, from it, and between classic ones
    (
        HELLO,
        (
            "99a548656c6c6f06a474657374d9203461623233663635306537356637336630303566376462316163303431"
            "363633ab7061727469636970616e74a86964656e74697479a6686f73743a31c420313131313131313131313131"
            "313131313131313131313131313131313131313100"
        ),
    ),
    (
        WELCOME,
        (
            "99a757656c636f6d65a161a474657374d9203461623233663635306537356637336630303566376462316163"
            "30343136363307c0a57374617274c4203232323232323232323232323232323232323232323232323232323232"
            "323232c400"
        ),
    ),
    (Proof(b"proof", b"key"), "93a550726f6f66c40570726f6f66c4036b6579"),
    (Refusal("no"), "92a75265667573616ca26e6f"),
    (GetMembership(), "91ad4765744d656d62657273686970"),
    (MembershipReply(SHARED), "92af4d656d626572736869705265706c79c497" + SHARED.hex()),
    (Letter(3, "x", b"content"), "94a64c657474657203a178c407636f6e74656e74"),
    (Receipt(3), "92a75265636569707403"),
    (
        Data(SESSION, 1, 2, 3, 4.5, BODIES_UP),
        (
            "97a44461746193a17001a36e2f31010203cb40120000000000009498a752657175657374a17801050601c307"
            "94a55969656c64a178010294a752656c65617365a178010294a55261697365a1780109"
        ),
    ),
    (Beat(SESSION, 2, 3, 4.5), "95a44265617493a17001a36e2f310203cb4012000000000000"),
    (Probe(SESSION), "92a550726f626593a17001a36e2f31"),
    (Term(SESSION, 1.5), "93a45465726d93a17001a36e2f31cb3ff8000000000000"),
    (Bye(SESSION), "92a342796593a17001a36e2f31"),
    (
        Reply(SESSION, 1, 2, 3, 4.5, grace=False, bodies=BODIES_DOWN),
        (
            "98a55265706c7993a17001a36e2f31010203cb4012000000000000c29396a54772616e74a178010506c395a6"
            "526169736564a17801070894a7496e7175697265a1780102"
        ),
    ),
    (Ack(SESSION, 1, 2, 3.5, grace=True), "96a341636b93a17001a36e2f310102cb400c000000000000c3"),
    (Answer(SESSION, alive=True), "93a6416e7377657293a17001a36e2f31c3"),
    (Nack(SESSION), "92a44e61636b93a17001a36e2f31"),
    (GetTokenBound(), "91ad476574546f6b656e426f756e64"),
    (TokenBound("a", 17), "93aa546f6b656e426f756e64a16111"),
    (GetStatus(locks=True), "92a9476574537461747573c3"),
    (GetAbstention(), "91ad47657441627374656e74696f6e"),
    (Abstention(1.5, "why"), "93aa41627374656e74696f6ecb3ff8000000000000a3776879"),
    (FindOwners(1, [], search=False), "94aa46696e644f776e6572730190c2"),
]

# The data directory

BOUND = b"910185574791734 71f92af4\n"
MEMORY = bytes.fromhex(  # of a voter of that cluster: a session of p, whose request for x waits
    "95a4626f6f74d92034616232336636353065373566373366303035663764623161633034313636339e9e03a86d61"
    "6a6f72697479a3616c6ccb4024000000000000cb3f747ae147ae147bcb3fd0000000000000cb4004000000000000"
    "cb4000000000000000cb4024000000000000ce00100000ce01000000c3cd0400cb0000000000000000141111"
    "cb4026b37510b93f0881a1709a93a17001a773746172742f31040001909091a178cb3ff0000000000000cb3ff000"
    "0000000000c081a1789311909197a17001050600c2009080c2a5737461727401cb4026b37510b93f08cbfff00000"
    "0000000081a170a6686f73743a31cb3ff0000000000000"
)


class Settings(msgspec.Struct, frozen=True, array_like=True):
    voters: int  # and others, which are the same up to now


class Voter(msgspec.Struct, frozen=True, array_like=True):
    settings: Settings
    clock: int = 0
    bound: int = 0


class Memory(msgspec.Struct, frozen=True, array_like=True):
    boot: str
    configuration: str
    voter: Voter


def read_bound(content: bytes) -> int:
    """Read the file `bound`; raise `ValueError` if version 6 calls it damaged."""
    number, _, checksum = content.partition(b" ")
    if not number.isdigit() or checksum != b"%08x\n" % zlib.crc32(number):
        raise ValueError(f"damaged: {content!r}")
    return int(number)


def read_memory(content: bytes) -> Memory | None:
    """Read the file `memory`; None if version 6 finds it of no use."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.msgpack.decode(content, type=Memory)
    return None


class Veil:
    """A way to one node, on which each end looks to the other as if it were of version 6.

    Frames lose the fields that version 6 does not know. One of a kind or with a body that it does
    not know ends the connection, as it did there. Programs learn the addresses of veils only.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.strangers: list[str] = []  # the kinds that came and are unknown
        self.forms: dict[str, set[int]] = {}  # how many fields frames of each kind had before
        self.refuses = False
        self._target = target
        self._places: Mapping[int, int] = {}  # of veils, by the ports of their nodes
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    def show(self, places: Mapping[int, int]) -> None:
        """Name these ports to programs, in the place of those of the nodes."""
        self._places = places

    def cut(self) -> None:
        """Break the connections, and let in no others."""
        self.refuses = True
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_writer}
        for source, sink in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pass_on(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, msgspec.ValidationError):
            while True:
                length = int.from_bytes(await source.readexactly(4), "big")
                frame = self._cut_down(await source.readexactly(length))
                sink.write(len(frame).to_bytes(4, "big") + frame)
        sink.close()

    def _cut_down(self, frame: bytes) -> bytes:
        kind, *fields = msgspec.msgpack.decode(frame)
        self.forms.setdefault(kind, set()).add(len(fields))
        try:
            known = decode(frame)
        except msgspec.ValidationError:
            self.strangers.append(kind)
            raise
        if isinstance(known, MembershipReply):
            known = MembershipReply(self._relocate(known.shared))
        return msgspec.msgpack.encode(known)

    def _relocate(self, shared: bytes) -> bytes:
        membership = msgspec.msgpack.decode(shared, type=Membership)
        members = tuple(
            (name, (host, self._places.get(port, port)))
            for name, (host, port) in membership.members
        )
        return msgspec.msgpack.encode(msgspec.structs.replace(membership, members=members))

    async def stop(self) -> None:
        if self._server is not None:
            await stop_serving(self._server)
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
