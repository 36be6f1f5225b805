"""What a former start of a node has sent arrives after its successor was met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from coterie.cluster.membership.config import convert
from coterie.cluster.wire.frames import PROTOCOL, Hello, Receipt
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.peers import Handlers, Peer
from coterie.errors import ProtocolError
from coterie.lab.stack.campaign import run_seed
from tests.cluster.local_cluster import document
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.wire.connection import Connection


class Wire:
    """A connection of the peer, as far as letting it in needs one."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, frame: object) -> None:
        self.sent.append(frame)

    def use(self, receive: object) -> None:
        pass


def call(start: str, number: int) -> Hello:
    return Hello(PROTOCOL, "", "", "peer", start, "b", b"", number)


@in_loop
async def test_a_late_call_of_the_very_first_start_is_no_restart(tmp_path: Path) -> None:
    """Taken for one, it would number letters from 1 again, and the successor would drop them."""
    config = convert(document(2), tmp_path)
    restarts: list[int] = []

    def ignore(*_: object) -> None:
        pass

    def note(_: int, number: int) -> None:
        restarts.append(number)

    def caller(node: str) -> Caller:
        return Caller(config.membership.credentials(b""), "peer", new_identity("a"), node)

    peer = Peer(config.local_node("a"), 2, caller, Handlers(ignore, ignore, ignore, note, ignore))
    for start, number in (("first", 0), ("second", 1)):
        wire = Wire()
        peer.admit(cast("Connection", wire), call(start, number))
        assert wire.sent == [Receipt(0)]
    peer.send("", b"for the second")
    with pytest.raises(ProtocolError, match="a start of the peer that is over"):
        peer.admit(cast("Connection", Wire()), call("first", 0))
    assert restarts == [1]
    assert (peer.posted, peer.incarnation) == (1, 1)
    await peer.stop()


def test_a_seed_in_which_a_call_of_a_first_start_comes_late() -> None:
    outcome = run_seed(121, "store-lives")
    assert not outcome.violation, f"{outcome.command}: {outcome.text}"
