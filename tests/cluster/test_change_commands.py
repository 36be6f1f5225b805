"""`coterie cluster` and `coterie serve --join`, on nodes that run in this event loop."""

from __future__ import annotations

import asyncio
import json
import math
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.configuration import (
    FORCED_LEAP,
    Configuration,
    Member,
    Part,
    Rule,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.votes import NEVER
from coterie.cli import run
from coterie.cli.cluster.change import Rest, how_to_go_on, step_words
from coterie.cluster.change import plan
from coterie.cluster.change.host import Change
from coterie.cluster.change.newcomer import identify
from coterie.cluster.change.plan import Newcomer
from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.change.survey import check_protocol, look
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.membership.config import NodeOptions, convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import Address, parse_address
from coterie.cluster.wire.voter_frames import Reach, Reached
from coterie.errors import (
    ChangeConflict,
    ConfigError,
    ProtocolError,
    Unavailable,
    UsageError,
)
from tests.cluster import virtual_time
from tests.cluster.changed_cluster import Fleet, change_until_joint, fleet
from tests.cluster.local_cluster import document, running, until, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("open_and_guarded")


@pytest.fixture(autouse=True)
def _no_frame_is_out_of_place(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def forced_number(said: str, voters: str) -> int:
    """Return the number of the configuration that a force has told of."""
    number, _, names = said.removeprefix("configuration ").partition(": ")
    assert names == f"{voters}\n"
    return int(number)


def test_voters_come_and_go_while_a_lock_is_held(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            spare = await made.join("d")
            assert not spare.voting.votes
            async with coterie.connect(made.url) as program, program.lock("held") as held:
                assert await made.command("replace", "b", made.at("d")) == 0
                out, err = capsys.readouterr()
                assert out == "configuration 3: a, c, d; b may be switched off\n"
                assert "configuration 2: joint" in err
                assert "failures borne: 1 now, 1 during the change, 1 afterwards" in err
                assert spare.voting.votes
                assert await made.command("set", "lease=2s", "-o", "json") == 0
                outcome = json.loads(capsys.readouterr().out)
                assert (outcome["number"], outcome["done"]) == (4, True)
                assert await made.command("remove", "c", "--yes", "--if-number", "4") == 0
                assert held.valid
            await until(lambda: made.nodes["b"].voting.membership.decided is not None, "b")
            # A program that knows the address of a removed node alone is passed on by it.
            async with (
                coterie.connect(made.url_at("b")) as stranger,
                stranger.lock("held") as after,
            ):
                assert after.token > held.token
            capsys.readouterr()
            assert await made.command("status", "-o", "json") == 0
            state = json.loads(capsys.readouterr().out)
            assert (state["number"], state["state"], state["lease"]) == (5, "settled", 2.0)
            assert [voter["name"] for voter in state["voters"]] == ["a", "d"]
            assert {spare["name"] for spare in state["spares"]} == {"b", "c"}
            assert {spare["state"] for spare in state["spares"]} == {"removed"}
            await made.join("e")
            await made.command("status", url=f"{made.url},{made.addresses['e']}")
            (row,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("e "))
            assert row.split()[2] == "spare"

    asyncio.run(main())


def test_a_spare_that_became_a_voter_starts_again_without_those_it_joined_by(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            identity = (await made.join("d")).voting.voter.identity
            await made.stop("d")
            assert (await made.join("d")).voting.voter.identity == identity
            assert await made.command("replace", "a", made.at("d")) == 0
            await made.stop("a")
            await made.stop("d")
            nowhere = f"coterie://127.0.0.1:{free_ports(1)[0]}"
            again = await made.join("d", nowhere)
            assert again.voting.votes
            async with coterie.connect(made.url_at("d")) as program, program.lock("x"):
                pass

    asyncio.run(main())


def test_voters_that_abstain_are_away_and_without_a_quorum_of_votes_nothing_is_well(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            assert await made.command("status") == 0
            assert "; 1 more failure is borne\n" in capsys.readouterr().err
            made.nodes["b"].voting.voter.abstains_until = math.inf
            assert await made.command("status") == 1
            assert "; 0 more failures are borne\n" in capsys.readouterr().err
            made.nodes["c"].voting.voter.abstains_until = math.inf
            assert await made.command("status") == 69
            assert capsys.readouterr().err.endswith("; no quorum votes\n")

    asyncio.run(main())


def test_a_lost_disk_is_replaced_under_the_same_name(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            assert await made.command("replace", "c") == 78
            assert "c has the disk of the voter c" in capsys.readouterr().err
            await made.stop("c", wipe=True)
            blank = await made.join("c")
            assert not blank.voting.votes
            assert await made.command("status") == 1
            out, err = capsys.readouterr()
            assert "spare: another disk than the voter's" in out
            assert "coterie cluster replace c" in err
            async with coterie.connect(made.url) as program, program.lock("held") as held:
                assert await made.command("replace", "c", "--dry-run") == 0
                assert not blank.voting.votes
                assert await made.command("replace", "c") == 0
                assert held.valid
            assert capsys.readouterr().out == "configuration 3: a, b, c\n"
            assert blank.voting.votes
            assert [member.seat for member in (await made.look()).configuration.members] == [
                1,
                2,
                4,
            ]

    asyncio.run(main())


def test_a_lost_disk_of_a_voter_that_was_removed_is_to_be_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("c", wipe=True)
            assert await made.command("remove", "c", "--yes") == 0
            blank = await made.start("c")
            blank.voting.learn((await made.look()).configuration)
            assert not blank.voting.votes

    asyncio.run(main())
    (record,) = [r for r in caplog.records if getattr(r, "event", "") == "node-not-voter"]
    assert "coterie cluster add c=ADDRESS" in record.getMessage()


def test_dead_newcomers_are_taken_back_and_the_hold_stays(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            await made.join("d")
            standing = await made.look()
            goal = plan.replace(standing.configuration, "a", await made.newcomer("d"))
            async with coterie.connect(made.url) as program, program.lock("held") as held:
                joint = await change_until_joint(standing, goal)
                await made.stop("d")
                assert await made.command("status") == 69
                assert "coterie cluster abort takes it back" in capsys.readouterr().err
                assert await made.command("set", "lease=5") == 75
                assert "another change is under way" in capsys.readouterr().err
                assert await made.command("finish", "--timeout", "500ms") == 69
                assert "d (" in capsys.readouterr().err
                assert await made.command("abort") == 0
                assert held.valid
            assert capsys.readouterr().out == (
                f"configuration {joint.number + 1}: a; d may be switched off\n"
            )
            assert await made.command("abort") == 64
            assert await made.command("finish") == 0

    asyncio.run(main())


def test_a_change_whose_old_voters_are_away_waits_for_them(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            await made.join("d")
            standing = await made.look()
            goal = plan.replace(standing.configuration, "a", await made.newcomer("d"))
            await change_until_joint(standing, goal)
            await until(lambda: made.nodes["d"].voting.votes, "the new voter")
            await made.stop("a")
            at_d = made.url_at("d")
            assert await made.command("finish", "--timeout", "500ms", url=at_d) == 69
            err = capsys.readouterr().err
            assert "no quorum of the voters of cluster 'test' has answered in 0.5 s: a: " in err
            assert "go on with coterie cluster finish" in err
            finished = asyncio.ensure_future(made.command("finish", url=at_d))
            await made.start("a")
            assert await finished == 0
            assert capsys.readouterr().out == "configuration 3: d; a may be switched off\n"

    asyncio.run(main())


def test_a_change_that_stops_says_what_is_known_and_what_can_be_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            standing = await made.look()
            for node in made.nodes.values():  # so the step is decided and cannot come into force
                node.voting.voter.abstains_until = math.inf
            decided: asyncio.Queue[Configuration] = asyncio.Queue()
            change = Change(
                standing.membership,
                standing.security,
                plan.remove(standing.configuration, ["c"]),
                decided.put_nowait,
            )
            rest = Rest("c is there", ", then coterie cluster add c=x:1")
            assert change.progress() == "waiting for an answer of a, b, c"
            assert how_to_go_on(change, rest) == "c is there"
            running = asyncio.ensure_future(change.run())
            assert not (await decided.get()).is_joint
            # A plain step cannot be taken back, and votes are given by no quorum.
            assert how_to_go_on(change, rest) == (
                "go on with coterie cluster finish, then coterie cluster add c=x:1"
            )
            for node in made.nodes.values():
                node.voting.voter.abstains_until = NEVER
            assert (await running).number == 2

    asyncio.run(main())


def test_a_step_of_another_changer_is_not_said_to_be_our_own() -> None:
    rule = Rule(2, (Part((1,), Settings(1)),))
    theirs = Configuration(rule, (Member(1, "a", "id", "a:7420"),), by="host:1/x")
    assert step_words(theirs, "host:1/x") == "configuration 2 is decided"
    assert step_words(theirs, "host:2/y") == "configuration 2 was decided by host:1/x"


def test_of_two_changes_at_once_one_is_made_and_the_other_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            standing = await made.look()
            changes = [
                Change(
                    standing.membership,
                    standing.security,
                    plan.change_settings(standing.configuration, {"lease": lease}),
                )
                for lease in ("4", "5")
            ]
            outcomes = await asyncio.gather(
                *(change.run() for change in changes), return_exceptions=True
            )
            (made_it,) = (each for each in outcomes if isinstance(each, Configuration))
            (told,) = (each for each in outcomes if isinstance(each, ChangeConflict))
            assert made_it.number == 2
            assert made_it.by in str(told)
            assert (await made.look()).configuration.settings.lease == made_it.settings.lease

    asyncio.run(main())


def test_what_would_end_badly_is_refused_before_the_first_step(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.join("d")
            made.addresses["nowhere"] = f"127.0.0.1:{free_ports(1)[0]}"
            made.addresses["e"] = made.addresses["d"]
            for status, message, arguments in (
                (69, "coterie serve --node nowhere --join", ["add", made.at("nowhere")]),
                (69, "this is node 'd' where 'e' was expected", ["add", made.at("e")]),
                (64, "bears 0 failures where it bears 1 now: add --yes", ["remove", "a"]),
                (75, "has configuration 1", ["add", made.at("d"), "--if-number", "7"]),
                (64, "got 'd'", ["add", "d"]),
                (64, "such as lease=20s", ["set", "lease"]),
                (64, "speaks protocol 8 at most", ["set", "protocol=9"]),
                (64, "there is nothing to take back", ["abort"]),
            ):
                assert await made.command(*arguments) == status, arguments
                assert message in capsys.readouterr().err
            await made.stop("c")
            assert await made.command("remove", "b", "--yes") == 69
            assert "no quorum of the voters that are to be answers" in capsys.readouterr().err
            await made.stop("b")
            assert await made.command("set", "lease=5") == 69
            assert "nothing can be decided: b: " in capsys.readouterr().err
            assert await made.command("finish") == 69
            assert "lost for good, go on with coterie cluster force --keep a" in (
                capsys.readouterr().err
            )
            assert (await made.look()).configuration.number == 1

    asyncio.run(main())


async def _one_call_only(target: str) -> asyncio.Server:
    """Let one caller through to a node, as a firewall does that knows the operator's machine."""
    calls = 0

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            writer.close()
            return
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while content := await source.read(65536):
                sink.write(content)
            sink.close()

        await asyncio.gather(pump(reader, back), pump(there, writer))

    return await asyncio.start_server(forward, "127.0.0.1", 0)


def test_a_newcomer_has_to_be_fit_and_reached_by_every_voter(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            await made.join("d")
            standing = await made.look()
            firewall = await _one_call_only(made.addresses["d"])
            host, port = firewall.sockets[0].getsockname()
            with pytest.raises(Unavailable, match=r"not every voter reaches d at .*: a: "):
                await identify(Newcomer("d", f"{host}:{port}"), standing)
            firewall.close()

            await made.join("e")
            diskless = NodeOptions(parse_address(f"127.0.0.1:{free_ports(1)[0]}"))
            config = msgspec.structs.replace(made.nodes["e"].config, nodes={"f": diskless})
            without = Node(config, "f")
            await without.start()
            try:
                with pytest.raises(ConfigError, match="f has no data directory"):
                    await identify(Newcomer("f", str(diskless.listen)), standing)
            finally:
                await without.stop()

            other = convert(document(1, data=str(tmp_path / "other")))
            async with running(other):
                with pytest.raises(ConfigError, match=r"a has the disk|a is no spare"):
                    await identify(
                        Newcomer("a", url_of(other).removeprefix("coterie://")), standing
                    )
            with pytest.raises(UsageError, match="speaks protocol 8 at most"):
                check_protocol(standing, 9)

    asyncio.run(main())


def test_orders_need_the_secret_of_operators_here_and_at_the_new_node(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTERIE_OPERATOR_SECRET_FILE", raising=False)
    path = tmp_path / "operators"
    path.write_text("only operators know this\n")

    async def main() -> None:
        async with fleet(tmp_path, 1, secret=path) as made:
            await made.join("d")
            assert await made.command("set", "lease=4") == 78
            assert "name its file in COTERIE_OPERATOR_SECRET_FILE" in capsys.readouterr().err
            monkeypatch.setenv("COTERIE_OPERATOR_SECRET_FILE", str(path))
            assert await made.command("add", made.at("d")) == 78
            err = capsys.readouterr().err
            assert "d has no operator secret, or another one: start it with COTERIE_OPER" in err
            await made.stop("d")
            await made.join("d")
            assert await made.command("add", made.at("d")) == 0
            assert capsys.readouterr().out == "configuration 2: a, d\n"

    asyncio.run(main())


def test_only_operators_have_a_node_call_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            standing = await made.look()
            (voter,) = standing.voters
            call = Reach(voter.name, voter.address)
            async with standing.command(voter) as orders:
                identity = made.nodes["a"].voting.voter.identity
                assert await orders.ask(call, Reached) == Reached(identity, "")
            async with standing.consult(voter) as questions:
                with pytest.raises(ProtocolError, match="closed the connection"):
                    await questions.ask(call, Reached)

    asyncio.run(main())


def test_a_cluster_without_a_number_is_not_changed(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 2, formed=False) as made:
            await made.start("a")
            assert await made.command("add", "d=127.0.0.1:1") == 69
            assert "node 'b' cannot be asked: connection refused" in capsys.readouterr().err
            assert await made.command("status") in (1, 69)
            assert "the voters cannot be changed yet: node 'b'" in capsys.readouterr().err

    asyncio.run(main())


def test_nodes_without_disks_are_told_to_have_some(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with running(config):
            assert await made.command("remove", "a", url=url_of(config)) == 78
            assert "no data directory, and every voter needs one" in capsys.readouterr().err
            assert await made.command("status", url=url_of(config)) == 1
            err = capsys.readouterr().err
            assert "the voters cannot be changed yet: node 'a' has no data directory" in err

    made, config = Fleet(tmp_path, 1), convert(document(1))
    asyncio.run(main())


def test_a_cluster_of_disks_from_an_earlier_version_is_formed_by_a_command(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        for name in "ab":
            (tmp_path / name).mkdir()
            (tmp_path / name / "bound").write_bytes(b"7 4f6a3a3d\n")
        async with fleet(tmp_path, 2, formed=False) as made:
            for name in "ab":
                # As it was written before directories had identities.
                (tmp_path / name / "bound").unlink()
                (tmp_path / name / "identity").write_text(f"{name * 32} old\n")
                await made.start(name)
            assert await made.command("remove", "b", "--yes") == 69
            assert "coterie cluster set protocol=8" in capsys.readouterr().err
            assert await made.command("set", "protocol=8") == 0
            assert capsys.readouterr().out == "configuration 1: a, b\n"

    asyncio.run(main())


def test_classic_algorithms_and_other_engines_have_fixed_members(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        config = convert(document(1, algorithm="ricart-agrawala"))
        node = Classic(config, "a", Program())
        await node.start()
        try:
            made = Fleet(tmp_path, 1)
            assert await made.command("remove", "a", url=url_of(config)) == 64
            assert "the nodes of a classic algorithm are fixed" in capsys.readouterr().err
            with pytest.raises(UsageError, match="the nodes of a classic algorithm are fixed"):
                await made.join("d", url_of(config))
        finally:
            await node.stop()

    asyncio.run(main())
    assert run(["cluster", "status", "--url", f"file:{tmp_path}"]) == 64
    assert "only a cluster has voters" in capsys.readouterr().err


def test_a_quorum_of_disks_that_is_lost_is_given_up_by_force(
    tmp_path: Path, capsys: Captured
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 4) as made:
            for name in "cd":
                await made.stop(name, wipe=True)
                await made.join(name)
            # Without c two of three were enough, but it cannot be decided to be without c.
            assert await made.command("replace", "c") == 69
            err = capsys.readouterr().err
            assert "a quorum of the disks of cluster 'test' is lost: c: its disk is not" in err
            assert "coterie cluster force --keep a,b\n" in err
            assert await made.command("finish") == 69
            assert await made.command("status") == 69
            assert "coterie cluster force --keep a,b\n" in capsys.readouterr().err
            assert await made.command("force", "--keep", "a", "--keep", "b", "--yes") == 0
            out, err = capsys.readouterr()
            assert forced_number(out, "a, b") % FORCED_LEAP == 1
            assert "c, d will be given up, a, b go on." in err

    asyncio.run(main())


def test_voters_that_do_not_answer_have_failed_already(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("c")
            assert await made.command("set", "hedge=0.5s") == 0
            out, err = capsys.readouterr()
            assert "failures borne: 0 now, 0 during the change, 0 afterwards" in err
            assert out == "configuration 2: a, b, c; c did not answer\n"
            assert await made.command("remove", "c") == 0  # no --yes: a and b were needed before
            assert capsys.readouterr().out == "configuration 3: a, b; c may be switched off\n"
            assert await made.command("remove", "a,b") == 64
            assert "at least one voter has to stay" in capsys.readouterr().err

    asyncio.run(main())


def test_force_goes_on_with_the_voters_that_are_left(tmp_path: Path, capsys: Captured) -> None:
    async def main() -> None:
        async with fleet(tmp_path, lease=1.0) as made:
            async with coterie.connect(made.url) as program, program.lock("x") as held:
                before = held.token
            assert await made.command("force", "--keep", "a", "--yes") == 64
            assert "b, c still answer: " in capsys.readouterr().err
            await made.stop("b")
            assert await made.command("force", "--keep", "a,b", "--yes") == 69
            assert "every voter that is kept has to answer: b: " in capsys.readouterr().err
            assert await made.command("force", "--keep", "a,c", "--yes") == 64
            assert "nothing to force: coterie cluster remove b\n" in capsys.readouterr().err
            await made.stop("c")
            assert await made.command("force", "--keep", "a", "--dry-run", "--timeout", "9s") == 0
            assert await made.command("force", "--keep", "a", "--timeout", "1s") == 64
            assert "--timeout is 2 s at least" in capsys.readouterr().err
            assert await made.command("force", "--keep", "a") == 64
            assert "add --yes" in capsys.readouterr().err
            assert await made.command("force", "--keep", "a", "--yes") == 0
            assert forced_number(capsys.readouterr().out, "a") % FORCED_LEAP == 1
            voter = made.nodes["a"].voting.voter
            assert voter.abstains()
            async with coterie.connect(made.url_at("a")) as program, program.lock("x") as held:
                assert held.token > max(
                    before, made.nodes["a"].voting.membership.configuration.floor
                )
            # A voter that was given up comes back with its old disk, and hears of it.
            await made.start("b")
            async with coterie.connect(made.url) as program, program.lock("x") as again:
                assert again.token > held.token
            assert await made.command("force", "--keep", "a", "--yes") == 64
            assert "are a quorum, so there is nothing to force\n" in capsys.readouterr().err

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--join", "a:7420", "--data", "x"], "give the node that joins a name"),
        (["--join", "a:7420", "--node", "d"], "needs a data directory"),
        (["--join", "a:7420", "--node", "d", "--new-cluster"], "--join takes the cluster as it is"),
        (["--listen", "a:7420", "--node", "d"], "--listen and --metrics need --join"),
    ],
)
def test_a_node_that_joins_needs_a_name_and_a_disk(
    arguments: list[str], message: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    monkeypatch.delenv("COTERIE_NODE", raising=False)
    assert run(["serve", *arguments]) == 64
    assert message in capsys.readouterr().err


WAITS = "node d waits until the cluster that it joins is formed"


def test_a_spare_waits_for_a_cluster_that_is_not_formed_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        made = Fleet(tmp_path, 2)
        try:
            joining = asyncio.ensure_future(made.join("d"))
            await until(lambda: WAITS in caplog.text, "its words, before any other node runs")
            assert "no node of the cluster can be reached: connection refused" in caplog.text
            await made.start("a")
            await until(
                lambda: f"{WAITS}: node 'b' cannot be asked: connection refused" in caplog.text,
                "its words",
            )
            assert not joining.done()
            await made.start("b")
            spare = await joining
            assert spare.voting.membership.configuration.number == 1
        finally:
            for name in list(made.nodes):
                await made.stop(name)

    asyncio.run(main())


def test_a_spare_does_not_wait_for_a_cluster_that_cannot_be_formed(tmp_path: Path) -> None:
    async def main() -> None:
        config = convert(document(1), tmp_path)
        async with running(config):
            place = Location("d", Address("127.0.0.1", free_ports(1)[0]), tmp_path / "d")
            with pytest.raises(ConfigError, match="node 'a' has no data directory"):
                await spare_config(place, make_visit(url_of(config)))

    asyncio.run(main())


def test_a_voter_that_missed_a_change_is_told_by_the_command_that_finishes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change was complete, so nothing was done, and one that had hung waited for a program to tell it."""

    async def ask_nobody(*_: object) -> None:
        """Leave out what a node does at its start, as one does that goes on."""

    monkeypatch.setattr("coterie.cluster.node.catch_up", ask_nobody)

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            assert await made.command("set", "lease=5s") == 0
            await made.start("b")
            assert (await made.look()).behind == ["b"]
            assert await made.command("finish", "--dry-run") == 0
            assert (await made.look()).behind == ["b"]
            capsys.readouterr()
            assert await made.command("finish") == 0
            assert capsys.readouterr().out == "configuration 2: a, b, c\n"
            assert (await made.look()).behind == []

    asyncio.run(main())


def test_a_voter_that_hangs_costs_a_look_no_more_than_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened its port, and answers nothing."""
    config = convert(document(3, data="data"), tmp_path)
    address = config.membership.members[2].address

    async def main() -> None:
        async with running(config) as nodes:
            await until(lambda: {node.voting.voter.number for node in nodes} == {1}, "forming")
            await nodes[2].stop()
            loop = asyncio.get_running_loop()
            with socket.create_server((address.host, address.port)):
                began = loop.time()
                standing = await look(make_visit(url_of(config)), 0.5)
                assert loop.time() - began < 3 * 0.5, "one for the addresses, one for the voters"
                assert standing.missing == "c: no answer"

    virtual_time.run(monkeypatch, main)
