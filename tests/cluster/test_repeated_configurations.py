"""A configuration that a node knows already: programs send it again and again, and it costs little."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member
from coterie.algorithms.mutex.quorum.leased.frames import Beat, NewConfiguration, Query, SessionName
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import Membership
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.frames import PROTOCOL, Hello
from tests.cluster.local_cluster import document
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from coterie.cluster.voter.programs import FrameSink


PROGRAMS = 20


class Sink:
    """Takes what a voter sends."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()

    def send(self, frame: msgspec.Struct) -> None:
        self.received[type(frame).__name__] += 1


class CountedSinks(dict[int, "FrameSink"]):
    """The programs of a voter, which count how often one is looked up."""

    lookups = 0

    def get(self, *arguments: Any) -> Any:
        self.lookups += 1
        return super().get(*arguments)


def decided(membership: Membership, identity: str, number: int) -> Configuration:
    names = [member.name for member in membership.members]
    members = tuple(
        Member(seat, name, identity if seat == 1 else f"disk {name}", f"127.0.0.1:{seat}")
        for seat, name in enumerate(names, 1)
    )
    founded = membership.configuration
    rule = msgspec.structs.replace(founded.rule, number=number)
    return msgspec.structs.replace(
        founded, rule=rule, members=members, protocol=PROTOCOL, last_seat=len(members)
    )


def test_a_configuration_that_is_not_new_is_compared_with_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    after = Membership.after

    def counted(membership: Membership, configuration: Configuration) -> Membership:
        made.append(configuration.number)
        return after(membership, configuration)

    async def main() -> None:
        config = convert(document(3), tmp_path)
        storage = Storage(tmp_path / "a")
        storage.open()
        voting = VoterHost(
            config.membership,
            "a",
            storage,
            lambda _: None,
            reach=lambda *_: None,
            new_cluster=True,
        )
        voting.start()
        lines = [Sink() for _ in range(PROGRAMS)]
        for place, line in enumerate(lines):
            hello = Hello(PROTOCOL, "", "", "participant", f"p{place}", f"p{place}", b"")
            voting.attach(msgspec.structs.replace(hello, newest=PROTOCOL), line)
        first, second = (decided(config.membership, voting.voter.identity, n) for n in (1, 2))
        voting.learn(first)
        assert voting.voter.number == 1
        monkeypatch.setattr(Membership, "after", counted)
        voting.programs.sinks = counted_sinks = CountedSinks(voting.programs.sinks)
        for number in range(1, PROGRAMS + 1):
            voting.receive(number, f"p{number - 1}", NewConfiguration(first))
            voting.receive(number, f"p{number - 1}", Query())
        assert made == []
        assert counted_sinks.lookups == PROGRAMS  # for the answers
        # A newer one still goes to all programs.
        voting.learn(second)
        assert voting.membership.configuration.number == 2
        assert set(made) == {2}
        assert [line.received["NewConfiguration"] for line in lines] == [2] * PROGRAMS
        voting.stop()
        storage.close()

    asyncio.run(main())


def test_a_program_that_goes_by_an_earlier_number_hears_of_the_newer_once_in_a_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for new voters that it cannot reach, and is served meanwhile."""

    async def main() -> None:
        config = convert(document(3), tmp_path)
        storage, line = Storage(tmp_path / "a"), Sink()
        storage.open()
        voting = VoterHost(
            config.membership,
            "a",
            storage,
            lambda _: None,
            reach=lambda *_: None,
            new_cluster=True,
        )
        voting.start()
        first, second = (decided(config.membership, storage.identity, n) for n in (1, 2))
        voting.learn(first)
        hello = Hello(PROTOCOL, "", "", "participant", "p", "p", b"", newest=PROTOCOL, number=1)
        program = voting.attach(hello, line)
        voting.learn(msgspec.structs.replace(second, open=(first.rule,)))

        def beat(known: int) -> None:
            time = asyncio.get_running_loop().time()
            voting.receive(program, "p", Beat(SessionName("p", 1), 0, 0, time, 1, known))

        for known in (1, 1, 1, 2):
            beat(known)
        assert line.received == {"NewConfiguration": 1, "Ack": 4}
        await asyncio.sleep(second.settings.heartbeat)
        for _ in range(3):
            beat(1)
        assert line.received == {"NewConfiguration": 2, "Ack": 7}
        voting.enter(program, hello, line)  # over another connection, as it may not have come
        beat(1)
        assert line.received["NewConfiguration"] == 3
        voting.stop()
        storage.close()

    run(monkeypatch, main)
