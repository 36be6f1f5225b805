"""Whom a node believes that a program is dead: who was asked, about a program that is not connected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.frames import Data, Request, SessionName
from coterie.cluster.membership.config import convert
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.wire.frames import Hello
from coterie.cluster.wire.voter_frames import AskDeath, Deaths, decode_to_voter
from coterie.errors import ProtocolError
from tests.cluster.local_cluster import document, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE, ELSEWHERE = "machine 1 0 ", "another 1 0 "


class Program:
    """A program that has said of which processes it consists."""

    def __init__(self, voting: VoterHost, name: str, life: str) -> None:
        self.name, self.life = name, life
        self.got: list[Any] = []
        self._voting = voting
        self._hello = Hello(5, "", "", "participant", name, f"{name}:1", b"")
        self._number = voting.attach(self._hello, self)
        self.say(Data(SessionName(name, 1), 1, 0, 0, 0.0, (Request("x", 1, 5, 5),), life=life))

    def send(self, frame: Any) -> None:
        self.got.append(frame)

    def say(self, frame: msgspec.Struct) -> None:
        """Send a frame, as it is decoded on its way."""
        self._voting.receive(
            self._number, self.name, decode_to_voter(msgspec.msgpack.encode(frame))
        )

    def leave(self) -> None:
        self._voting.leave(self.name, self)

    def come_back(self) -> None:
        self._voting.attach(self._hello, self)

    def asked(self) -> list[str]:
        return [life for frame in self.got if isinstance(frame, AskDeath) for life in frame.lives]


class Nodes:
    """The other nodes of the cluster: what they were asked."""

    def __init__(self, dead: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self._dead = dead

    async def __call__(self, lives: Sequence[str], tell: Callable[[str, str], None]) -> None:
        self.asked += lives
        for life in lives:
            if life in self._dead:
                tell(life, "b")


def voter(nodes: Nodes, *, trusts_programs: bool = True) -> VoterHost:
    def fail(error: OSError) -> None:
        raise error

    voting = VoterHost(
        convert(document(1)).membership,
        "a",
        None,
        fail,
        reach=lambda *_: None,
        new_cluster=True,
        ask_nodes=nodes,
        trusts_programs=trusts_programs,
    )
    voting.start()
    return voting


def sessions(voting: VoterHost) -> list[str]:
    return sorted(voting.voter.sessions)


def test_a_program_of_its_machine_is_asked_and_believed() -> None:
    async def main() -> None:
        voting = voter(Nodes())
        dead = Program(voting, "dead", f"{HERE}5:7")
        near = Program(voting, "near", f"{HERE}6:7")
        far = Program(voting, "far", f"{ELSEWHERE}5:7")
        dead.leave()
        assert (near.asked(), far.asked()) == ([dead.life], [])
        near.say(Deaths((dead.life,)))
        assert sessions(voting) == ["far", "near"]
        assert voting.deaths is not None
        assert [(death.label, death.witness) for death in voting.deaths.seen] == [
            ("dead:1", "near:1")
        ]

    asyncio.run(main())


def test_one_that_comes_later_is_asked_too() -> None:
    async def main() -> None:
        voting = voter(Nodes())
        dead = Program(voting, "dead", f"{HERE}5:7")
        dead.leave()
        where = Program(voting, "where", HERE)
        assert where.asked() == [dead.life], "it has not named its own processes yet"
        where.say(Deaths((dead.life,)))
        assert sessions(voting) == ["where"]

    asyncio.run(main())


def test_no_word_ends_a_program_that_is_connected() -> None:
    async def main() -> None:
        voting = voter(Nodes())
        one = Program(voting, "one", f"{HERE}5:7")
        other = Program(voting, "other", f"{HERE}6:7")
        other.say(Deaths((one.life,)))
        assert sessions(voting) == ["one", "other"]
        one.leave()
        one.come_back()
        other.say(Deaths((one.life,)))
        assert sessions(voting) == ["one", "other"]

    asyncio.run(main())


def test_a_program_of_another_machine_is_not_believed() -> None:
    async def main() -> None:
        voting = voter(Nodes())
        one = Program(voting, "one", f"{HERE}5:7")
        far = Program(voting, "far", f"{ELSEWHERE}6:7")
        one.leave()
        far.say(Deaths((one.life,)))
        assert sessions(voting) == ["far", "one"]

    asyncio.run(main())


def test_where_programs_are_not_trusted_none_is_asked_or_believed() -> None:
    async def main() -> None:
        voting = voter(Nodes(), trusts_programs=False)
        one = Program(voting, "one", f"{HERE}5:7")
        near = Program(voting, "near", f"{HERE}6:7")
        one.leave()
        assert near.asked() == []
        with pytest.raises(ProtocolError, match="operator secret"):
            near.say(Deaths((one.life,)))
        assert sessions(voting) == ["near", "one"]

    asyncio.run(main())


@pytest.mark.parametrize("trusts_programs", [True, False])
def test_other_nodes_are_asked_and_believed(trusts_programs: bool) -> None:
    async def main() -> None:
        nodes = Nodes(dead=[f"{HERE}5:7"])
        voting = voter(nodes, trusts_programs=trusts_programs)
        for number in (5, 6):
            Program(voting, f"p{number}", f"{HERE}{number}:7").leave()
        Program(voting, "unknown", "").leave()
        Program(voting, "where", HERE).leave()
        await until(lambda: len(nodes.asked) == 2, "the nodes to be asked")
        assert nodes.asked == [f"{HERE}5:7", f"{HERE}6:7"]
        assert sessions(voting) == ["p6", "unknown", "where"]

    asyncio.run(main())


def test_a_program_that_is_no_operator_does_not_ask() -> None:
    async def main() -> None:
        one = Program(voter(Nodes()), "one", f"{HERE}5:7")
        with pytest.raises(ProtocolError):
            one.say(AskDeath((f"{HERE}6:7",)))

    asyncio.run(main())
