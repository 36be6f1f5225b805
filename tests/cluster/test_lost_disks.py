"""A node that has lost its disk: what it may have known is not given up, nor is it taken for itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.changer import Goal
from coterie.algorithms.mutex.quorum.leased.configuration import Member, Part, founding
from coterie.algorithms.mutex.quorum.leased.frames import Accept, Attempt, Prepare, Promise
from coterie.algorithms.mutex.quorum.leased.saved import read_saved
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.host import Change
from coterie.cluster.membership.config import convert
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.process import Outbox
from tests.cluster.local_cluster import document, running, started_again, until

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.algorithms.mutex.quorum.leased.frames import Frame
import pytest

pytestmark = pytest.mark.usefixtures("open_and_guarded")

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
        assert storage.load() == (b"", [])
        voting.end_recovery()
        assert voting.voter.abstains(), "votes of the lost disk may still count"
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


def test_a_node_that_missed_a_change_hears_of_it_when_it_starts(tmp_path: Path) -> None:
    """No program uses the cluster, so that none could tell it."""

    async def main() -> None:
        config = convert(document(3, data="data"), tmp_path)
        async with running(config) as nodes:
            await until(lambda: {node.voting.voter.number for node in nodes} == {1}, "forming")
            await nodes[2].stop()
            membership = nodes[0].voting.membership
            present = membership.configuration
            part = present.rule.parts[0]
            longer = msgspec.structs.replace(part.settings, lease=2 * part.settings.lease)
            goal = Goal(1, Part(part.seats, longer), present.members, present.protocol)
            await Change(membership, config.security, goal).run()
            await started_again(nodes, 2)
            await until(lambda: nodes[2].voting.voter.number == 2, "the node to catch up")

    asyncio.run(main())


def test_a_node_whose_disk_was_lost_while_the_cluster_was_formed_learns_that_it_does_not_vote(
    tmp_path: Path,
) -> None:
    """Number 1 names the disk that had accepted it, and no program or changer calls another one.

    Forming waits for a command here, as the others have disks of an earlier version.
    """

    async def main() -> None:
        config = convert(document(3, data="data"), tmp_path)
        for name in "ac":
            (tmp_path / "data" / name).mkdir(parents=True)
            (tmp_path / "data" / name / "lock").touch()
        async with running(config) as nodes:
            goal = await forming_goal(config.membership, config.security)
            of_lost_disk = [
                msgspec.structs.replace(member, identity="lost") if member.name == "b" else member
                for member in goal.members
            ]
            goal = msgspec.structs.replace(goal, members=tuple(of_lost_disk))
            await Change(config.membership, config.security, goal).run()
            await until(lambda: nodes[1].voting.voter.number != 0, "b to hear of number 1")
            assert nodes[1].voting.voter.configuration is None, "another disk votes in its name"
            assert nodes[1].voting.membership.configuration.number == 1
            assert {nodes[place].voting.voter.number for place in (0, 2)} == {1}

    asyncio.run(main())
