"""A node that has lost its disk: what it may have known is not given up, nor is it taken for itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.config import convert
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.mutex.quorum.leased.configuration import Member, founding
from coterie.mutex.quorum.leased.frames import Accept, Attempt, Prepare, Promise
from coterie.mutex.quorum.leased.saved import read_saved
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Outbox
from tests.cluster.local_cluster import document

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.mutex.quorum.leased.frames import Frame

ATTEMPT = Attempt(1, "changer")


class Line:
    """Notes what a voter sends."""

    def __init__(self) -> None:
        self.frames: list[msgspec.Struct] = []

    def send(self, frame: msgspec.Struct) -> None:
        self.frames.append(frame)


def test_it_promises_nothing_before_the_others_have_said_which_numbers_were_used(
    tmp_path: Path,
) -> None:
    """The promise would be on disk, and after a crash the disk would not seem to be empty."""

    async def main() -> None:
        config = convert(document(3), tmp_path)
        storage, line = Storage(tmp_path / "a"), Line()
        storage.open()
        voting = VoterHost(config.membership, "a", storage, lambda _: None, reach=lambda *_: None)
        voting.start()
        assert voting.recovers
        hello = Hello(PROTOCOL, "", "", "operator", "", "changer", b"")
        voting.enter(7, hello, line)
        voting.receive(7, "", Prepare(0, ATTEMPT))
        voting.receive(7, "", Accept(ATTEMPT, founding(config.membership.settings)))
        assert line.frames == []
        assert storage.load() == (b"", ())
        voting.end_recovery()
        voting.receive(7, "", Prepare(0, ATTEMPT))
        assert [type(frame) for frame in line.frames] == [Promise]
        voting.stop()
        storage.close()

    asyncio.run(main())


def test_what_the_others_have_said_is_on_disk_with_the_first_promise() -> None:
    """After a crash it does not ask again."""
    voter = Voter(founding(Settings(3)))
    voter.start("a start", Outbox(1))
    voter.raise_floor(1 << 50)
    out: Outbox[Frame] = Outbox(1)
    voter.receive(9, Prepare(0, ATTEMPT), out)
    assert out.to_save is not None
    assert read_saved(out.to_save).bound == 1 << 50


def test_the_timer_of_a_node_that_has_stood_aside_finds_nothing_to_do() -> None:
    voter = Voter(founding(Settings(3)))
    voter.identity = "a new disk"
    out: Outbox[Frame] = Outbox(1)
    out.saved = b"5"
    voter.start("a start", out)
    assert out.timers
    decided = voter.configuration
    assert decided is not None
    rule = msgspec.structs.replace(decided.rule, number=1)
    members = tuple(Member(seat, f"n{seat}", f"disk {seat}") for seat in (1, 2, 3))
    voter.adopt(msgspec.structs.replace(decided, rule=rule, members=members), Outbox(1))
    assert voter.number == -1
    voter.ring(VOTER, Outbox(1))
