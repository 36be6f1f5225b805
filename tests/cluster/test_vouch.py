"""`coterie cluster vouch`: a lease with a typing error, and the word that no program runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.changer import POLL_SECONDS_MAX
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.change import plan
from coterie.cluster.change.host import Change
from coterie.cluster.change.vouch import check_vouch, vouch
from coterie.cluster.node import Node
from coterie.errors import Unavailable, UsageError
from coterie.process import Outbox
from tests.cluster import virtual_time
from tests.cluster.changed_cluster import Fleet, fleet
from tests.cluster.local_cluster import Program, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")

MISTYPED = 20_000 * 60.0  # minutes for seconds: two weeks


async def crashed(made: Fleet) -> None:
    """Start all nodes again as after a crash: what an orderly end has left is gone."""
    for name in list(made.addresses):
        await made.stop(name)
        (made.folder / name / "memory").unlink()
    for name in made.addresses:
        await made.start(name)


def test_a_lease_with_a_typing_error_is_undone_after_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All nodes abstained for two weeks, and no command helped."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            async with coterie.connect(made.url) as program, program.lock("x", timeout=20) as held:
                token = held.token
            assert await made.command("set", f"lease={MISTYPED:.0f}s", "--yes") == 0
            await crashed(made)
            assert await made.command("set", "lease=1s", "--timeout", "3s") == 69
            capsys.readouterr()
            assert await made.command("vouch", "--yes") == 0
            said = capsys.readouterr()
            assert said.out == "no lease is left at a, b, c\n"
            assert (
                "You vouch that every program that has used a lock of this cluster has ended"
                in said.err
            )
            assert await made.command("finish") == 0
            assert await made.command("status") == 0
            assert {node.voting.voter.abstention < 2 for node in made.nodes.values()} == {True}
            async with coterie.connect(made.url) as program, program.lock("x", timeout=20) as held:
                assert held.token > token

    asyncio.run(main())


@pytest.mark.real
def test_a_vouch_is_refused_while_a_program_runs_and_ends_its_lease_when_it_was_killed(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, lease=MISTYPED) as made:
            program = Program(f"{made.url}?witness=off", ("hold", "x"))
            try:
                token = int((await asyncio.to_thread(program.read))[1])
                known = [node.voting.voter for node in made.nodes.values()]
                standing = await made.look()
                with pytest.raises(UsageError, match="programs are connected and may hold locks: "):
                    await check_vouch(standing)
                # The nodes do not rest on what was seen before the order.
                with pytest.raises(Unavailable, match="a: programs are connected and may hold"):
                    await vouch(standing, standing.voters)
                assert all(voter.ballots["x"].owners for voter in known)
            finally:
                program.process.kill()
                await asyncio.to_thread(program.process.communicate)
            sinks = [node.voting.programs for node in made.nodes.values()]
            await until(lambda: not any(each.connected() for each in sinks), "the end of the line")
            assert all(voter.ballots["x"].owners for voter in known)
            assert await made.command("vouch", "--yes") == 0
            async with coterie.connect(made.url) as other, other.lock("x", timeout=20) as held:
                assert held.token > token

    asyncio.run(main())


def test_tokens_go_on_above_all_that_were_handed_out() -> None:
    voter = Voter(founding(Settings(3)))
    voter.start("a start", Outbox(1))
    voter.bound = 1 << 30
    voter.abstains_until = 100.0
    voter.end_abstention(Outbox(1))
    assert not voter.abstains()
    assert (voter.floor, voter.clock) == (voter.bound, voter.bound)


def test_a_vouch_does_not_make_up_for_an_empty_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says nothing of tokens, and the lost disk may have known of larger ones than any other."""

    async def main() -> None:
        async with fleet(tmp_path, 1, formed=False) as made:
            made.nodes["a"] = node = Node(made.config, "a")
            await node.start()
            assert await made.command("vouch", "--yes") == 69
            assert "a: its data directory is empty" in capsys.readouterr().err
            assert node.voting.voter.abstains()

    asyncio.run(main())


def test_a_change_with_a_lease_of_ten_minutes_waits_for_one_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 30 s on an idle cluster. Time is virtual, so what is counted is waiting alone."""

    async def main() -> None:
        async with fleet(tmp_path, lease=600.0) as made, coterie.connect(made.url):
            standing, loop = await made.look(), asyncio.get_running_loop()
            goal = plan.change_settings(standing.configuration, {"hedge": "100"})
            began = loop.time()
            reached = await Change(standing.membership, standing.security, goal).run()
            assert reached.number == 2
            # One, until the idle program has moved; the first question goes out with the connection.
            assert loop.time() - began < 2 * POLL_SECONDS_MAX

    virtual_time.run(monkeypatch, main)
