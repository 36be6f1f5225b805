"""Two installations of one name: their numbers, disks and addresses have nothing to do with each other."""

from __future__ import annotations

import asyncio
import math
import shutil
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.changer import CHANGER, Changer, Goal
from coterie.algorithms.mutex.quorum.leased.configuration import (
    FORCED_LEAP,
    Configuration,
    Member,
    founding,
)
from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.succession import follows
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cli import run
from coterie.cluster.change import force as forcing
from coterie.cluster.change import plan
from coterie.cluster.change.force import check_force, force
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.host import Change
from coterie.cluster.change.operation import check_quorum
from coterie.cluster.change.survey import look, patience_of
from coterie.cluster.client.access import Visit
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.discovery import KnownMembership, is_served, newest
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.voter.recovery import RIVALS_SECONDS, _ask_others, _check_installation
from coterie.cluster.wire.security import Security
from coterie.errors import ConfigError, CoterieError, NoQuorum, ProtocolError, UsageError
from coterie.process import Outbox
from tests.cluster import virtual_time
from tests.cluster.changed_cluster import Fleet, fleet
from tests.cluster.local_cluster import LEASE, document, until
from tests.cluster.virtual_time import passing

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.algorithms.mutex.quorum.leased.frames import Frame
    from coterie.cluster.membership.membership import Membership


# The values


def configuration(identity: str, number: int = 1) -> Configuration:
    first = founding(Settings(3))
    rule = msgspec.structs.replace(first.rule, number=number)
    return msgspec.structs.replace(first, rule=rule, cluster_identity=identity)


def test_a_voter_adopts_nothing_of_another_installation_whatever_its_number_is() -> None:
    voter = Voter(configuration("ours"))
    voter.start("a start", Outbox(1))
    voter.adopt(configuration("theirs", 7), Outbox(1))
    assert voter.number == 1
    voter.adopt(configuration("", 7), Outbox(1))
    assert voter.number == 1
    voter.adopt(configuration("ours", 2), Outbox(1))
    assert voter.number == 2


def test_no_successor_is_of_another_installation() -> None:
    present = configuration("ours")
    for identity, ours in (("ours", True), ("theirs", False), ("", False)):
        successor = msgspec.structs.replace(configuration(identity, 2), open=(present.rule,))
        assert follows(successor, present) is ours


def answer(node: str, identity: str, number: int, disks: str) -> KnownMembership:
    """Make what a node says whose disk has its own name, in a configuration of these disks."""
    made = convert(document(3)).membership
    members = tuple(
        Member(seat, name, disk, f"127.0.0.1:{7420 + seat}")
        for seat, (name, disk) in enumerate(zip("abc", disks.split(), strict=True), 1)
    )
    decided = msgspec.structs.replace(configuration(identity, number), members=members)
    return KnownMembership(node[0], node, made.after(decided))


def test_a_program_follows_the_installation_of_which_a_quorum_answers() -> None:
    old = answer("c1", "first", 3, "a1 b1 c1")
    new = [answer(node, "second", 1, "a2 b2 c2") for node in ("a2", "b2")]
    for answers in ([old, *new], [*new, old]):
        assert newest(answers).configuration.cluster_identity == "second"
    alone = [old, answer("a1", "first", 4, "a1 b1 c1")]
    assert newest(alone).configuration.number == 4
    assert newest([*alone, new[0]]).configuration.cluster_identity == "first"


def test_a_program_follows_its_own_installation_though_a_quorum_of_another_one_answers() -> None:
    """All voters of the first were replaced, and their addresses given to the second."""
    new = [answer(node, "second", 1, "a2 b2 c2") for node in ("a2", "b2", "c2")]
    old = answer("d1", "first", 3, "d1 e1 f1")
    assert newest([*new, old]).configuration.cluster_identity == "second"
    assert newest([*new, old], "first").configuration.number == 3
    assert newest(new, "first").configuration.cluster_identity == "second"


def test_a_cluster_that_was_formed_without_an_identity_is_known_by_its_disks() -> None:
    """It followed any configuration with a higher number, and programs any other cluster."""
    old = [answer(node, "", 3, "a1 b1 c1") for node in ("a1", "b1")]
    other = answer("c2", "second", 7, "a2 b2 c2")
    assert newest([other, *old]).configuration.number == 3
    present = old[0].membership.configuration
    assert present.is_foreign(other.membership.configuration)
    successor = answer("d1", "the changer", 4, "a1 b1 d1").membership.configuration
    assert not present.is_foreign(successor)
    voter = Voter(present)
    voter.start("a start", Outbox(1))
    voter.adopt(other.membership.configuration, Outbox(1))
    assert voter.number == 3
    voter.adopt(successor, Outbox(1))
    assert voter.number == 4


def test_an_installation_is_served_by_a_quorum_of_its_own_disks() -> None:
    one = answer("a1", "first", 1, "a1 b1 c1")
    assert not is_served([])
    assert not is_served([one, answer("b2", "second", 1, "a2 b2 c2")])
    assert not is_served([one, answer("b2", "first", 1, "a1 b1 c1")])
    assert is_served([one, answer("b1", "first", 1, "a1 b1 c1")])


# On nodes


async def raised(made: Fleet, number: int) -> None:
    """Change a cluster until its configuration has this number."""
    for lease in range(4, 4 + number):
        if min(node.voting.voter.number for node in made.nodes.values()) >= number:
            return
        assert await made.command("set", f"lease={lease}", "--yes") == 0


def numbers(made: Fleet) -> dict[str, int]:
    return {name: node.voting.voter.number for name, node in made.nodes.items()}


async def set_up_again(made: Fleet, kept: str) -> Path:
    """Wipe all disks but one, which is moved away, and form the cluster a second time."""
    for name in list(made.nodes):
        await made.stop(name, wipe=name != kept)
    away = made.folder / "away"
    (made.folder / kept).rename(away)
    await made.form()
    return away


def change_disk(made: Fleet, name: str, disk: Path) -> None:
    """Put another data directory in the place of a node that is stopped."""
    (made.folder / name).rename(made.folder / f"right-{name}")
    disk.rename(made.folder / name)


def test_a_disk_of_the_first_installation_does_not_serve_the_second(tmp_path: Path) -> None:
    """With number 3 against 1 it was followed: programs had no quorum though two healthy nodes vote."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await raised(made, 3)
            away = await set_up_again(made, "c")
            await made.stop("c")
            (tmp_path / "c").rename(tmp_path / "right")
            away.rename(tmp_path / "c")
            failures: list[CoterieError] = []
            wrong = Node(made.config, "c", on_failure=failures.append)
            await wrong.start()
            try:
                await until(lambda: failures, "the refusal of the data directory")
                assert isinstance(failures[0], ConfigError)
                assert "another installation" in str(failures[0])
                async with coterie.connect(made.url) as program:
                    async with program.lock("x", timeout=20) as held:
                        assert held.valid
                        await made.stop("a")
                        await made.start("a")  # an orderly restart
                    async with program.lock("x", timeout=20) as again:
                        assert again.token > held.token
            finally:
                await wrong.stop()
            assert numbers(made) == {"a": 1, "b": 1}
            shutil.rmtree(tmp_path / "c")
            (tmp_path / "right").rename(tmp_path / "c")
            node = await made.start("c")
            await until(lambda: not node.voting.voter.abstains(), "the vote of the right disk")
            assert numbers(made) == {"a": 1, "b": 1, "c": 1}

    asyncio.run(main())


def test_another_installation_with_the_same_number_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status said that its node is down, and force went on with it beside a healthy quorum."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            away = await set_up_again(made, "c")
            await made.stop("c")
            change_disk(made, "c", away)
            failures: list[CoterieError] = []
            wrong = made.nodes["c"] = Node(made.config, "c", on_failure=failures.append)
            await wrong.start()
            await until(lambda: failures, "the refusal of the data directory")
            assert numbers(made) == {"a": 1, "b": 1, "c": 1}
            assert await made.command("status") == 1
            assert "belongs to another installation" in capsys.readouterr().out
            for url, kept in ((made.url, "a"), (made.url_at("c"), "c")):
                assert await made.command("force", "--keep", kept, "--yes", url=url) == 64
                assert "to another installation" in capsys.readouterr().err

    asyncio.run(main())


def test_a_disk_of_another_installation_ends_its_node_though_that_was_the_first_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It asked the others once, and when these were up it went on for good."""
    caplog.set_level("DEBUG", "coterie.cluster")

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await raised(made, 3)
            away = await set_up_again(made, "c")
            for name in list(made.nodes):
                await made.stop(name)
            change_disk(made, "c", away)
            failures: list[CoterieError] = []
            wrong = Node(made.config, "c", on_failure=failures.append)
            caplog.clear()
            await wrong.start()
            try:
                await until(lambda: "node c cannot ask b" in caplog.text, "the first questions")
                await made.start("a")
                await made.start("b")
                await until(lambda: failures, "the refusal of the data directory")
                assert "another installation of cluster 'test' than a, b" in str(failures[0])
            finally:
                await wrong.stop()

    asyncio.run(main())


def test_a_program_that_is_a_node_with_a_disk_of_another_installation_is_told(
    tmp_path: Path,
) -> None:
    """Its log said that the node votes no more, and the program had no quorum for good."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            away = await set_up_again(made, "c")
            await made.stop("c")
            change_disk(made, "c", away)
            async with coterie.join(made.config, node="c") as member:
                for _ in range(2):  # while it waits, and at once afterwards
                    with pytest.raises(
                        ConfigError, match="lock 'x': node 'c' has the data directory"
                    ):
                        await member.lock("x").acquire()

    asyncio.run(main())


def test_of_two_nodes_none_takes_its_own_disk_for_the_wrong_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node that had its right disk ended, and told its operator to move that away."""

    async def main() -> None:
        async with fleet(tmp_path, 2) as made:
            away = await set_up_again(made, "b")
            for name in list(made.nodes):
                await made.stop(name)
            change_disk(made, "b", away)
            failures: list[CoterieError] = []
            nodes = [Node(made.config, name, on_failure=failures.append) for name in "ba"]
            try:
                for node in nodes:
                    await node.start()
                for node in nodes:
                    _, strangers = await _ask_others(made.config, node.voting)
                    assert len(strangers) == 1
                    _check_installation(node.voting, strangers)
                assert await made.command("status") == 69
                said = capsys.readouterr().err
                assert "another installation of cluster test answers" in said
                assert "look at all addresses and data directories" in said
                assert await made.command("set", "lease=5s") == 69
                assert "force" not in capsys.readouterr().err
                assert not failures
            finally:
                for node in nodes:
                    await node.stop()

    asyncio.run(main())


def test_a_forgotten_disk_that_keeps_a_new_cluster_from_forming_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """All that was said is that a quorum of the disks is lost, and to force the one that is left."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await raised(made, 3)
            for name in "abc":
                await made.stop(name, wipe=name != "c")
            for name in "cab":
                await made.start(name)
            with pytest.raises(ConfigError, match="c has one of an earlier installation: stop all"):
                await forming_goal(made.config.membership, made.config.security)
            await until(lambda: numbers(made) == {"a": -1, "b": -1, "c": 3}, "the spares")
            for name in "ab":
                assert (
                    "does not belong: if this cluster is new, that of c is of an earlier"
                    in caplog.text
                )
                assert f"to which the data directory of node {name} does not belong" in caplog.text
                # It showed the configuration that it had heard of, and was taken for the old one.
                assert f"that of {name} is of an earlier" not in caplog.text
            capsys.readouterr()
            assert await made.command("status") == 69
            advice = "just set up again, the data directories of c are of an earlier installation"
            assert advice in capsys.readouterr().err
            assert await made.command("set", "lease=5s") == 69
            assert advice in capsys.readouterr().err
            for name in "abc":  # as it says
                await made.stop(name, wipe=name == "c")
            await made.form()
            assert await made.command("status") == 0

    asyncio.run(main())


def test_a_spare_starts_again_though_a_wrong_disk_is_all_that_answers(tmp_path: Path) -> None:
    """It ended, and its operator was told to empty a data directory that was right."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            away = await set_up_again(made, "c")
            await made.join("d")
            ours = made.nodes["d"].voting.membership.configuration.cluster_identity
            for name in list(made.nodes):
                await made.stop(name)
            change_disk(made, "c", away)
            await made.start("c")
            spare = await made.join("d")
            assert spare.voting.membership.configuration.cluster_identity == ours

    asyncio.run(main())


def test_a_program_that_has_met_a_wrong_disk_alone_follows_the_quorum_of_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no quorum for good, and each node told it that it belongs to another installation."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            away = await set_up_again(made, "c")
            for name in list(made.nodes):
                await made.stop(name)
            change_disk(made, "c", away)
            await made.start("c")
            async with coterie.connect(made.url) as program:
                await passing(LEASE / 2)
                asking = [
                    asyncio.ensure_future(program.lock(name, shared=shared).acquire())
                    for name, shared in (("x", False), ("x", False), ("y", True), ("y", False))
                ]
                await made.start("a")
                await made.start("b")  # and the wrong one answers still
                for each in asking:
                    held = await each
                    assert held
                    assert held.valid
                    await held.release()
            assert "goes by another installation" in caplog.text
            assert numbers(made) == {"a": 1, "b": 1, "c": 1}

    virtual_time.run(monkeypatch, main)


def test_a_program_that_has_reached_a_quorum_follows_no_other_installation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its user may believe in a lock of the first, and has used tokens of it."""

    async def main() -> None:
        async with fleet(tmp_path) as made, coterie.connect(made.url) as program:
            async with program.lock("x", timeout=20):
                pass
            await set_up_again(made, "c")
            await until(lambda: "start the program again" in caplog.text, "the warning")
            with pytest.raises(NoQuorum):
                await program.lock("x").acquire()
            async with coterie.connect(made.url) as other, other.lock("x", timeout=20) as held:
                assert held.valid
            assert "goes by another installation" not in caplog.text

    asyncio.run(main())


def test_status_goes_by_the_quorum_though_a_wrong_disk_answers_first(tmp_path: Path) -> None:
    """It took the two nodes that vote for those of another installation."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            away = await set_up_again(made, "c")
            ours = made.nodes["a"].voting.membership.configuration.cluster_identity
            await made.stop("c")
            change_disk(made, "c", away)
            wrong = await made.start("c")

            class Hasty(Visit):
                async def learn(self, limit: float = math.inf) -> Membership:
                    del limit
                    return wrong.voting.membership

            visit = make_visit(made.url)
            known = await look(Hasty(visit.addresses, "test", visit.security))
            assert known.configuration.cluster_identity == ours
            assert [voter.name for voter in known.voters if voter.is_foreign] == ["c"]

    asyncio.run(main())


def test_a_node_of_another_installation_at_the_address_of_a_dead_one_is_not_followed(
    tmp_path: Path,
) -> None:
    """A node of the first adopted the other's configuration: two programs held one lock."""

    async def main() -> None:
        async with fleet(tmp_path / "one") as one, fleet(tmp_path / "two", formed=False) as two:
            await one.stop("c")
            nodes = dict(two.config.nodes)
            address = one.config.nodes["c"].listen
            nodes["c"] = msgspec.structs.replace(nodes["c"], listen=address)
            members = tuple(
                msgspec.structs.replace(member, address=address) if member.name == "c" else member
                for member in two.config.membership.members
            )
            membership = msgspec.structs.replace(two.config.membership, members=members)
            two.config = msgspec.structs.replace(two.config, membership=membership, nodes=nodes)
            two.addresses["c"] = str(address)
            two.url = "coterie://" + ",".join(two.addresses.values())
            await two.form()
            await raised(two, 2)
            await one.stop("a")
            node = await one.start("a")
            await until(lambda: not node.voting.voter.abstains(), "the votes of node a")
            assert numbers(one) == {"a": 1, "b": 1}
            async with (
                coterie.connect(one.url) as program,
                coterie.connect(two.url) as other,
                program.lock("x", timeout=20),
                other.lock("x", timeout=20),
            ):
                pass  # two clusters, two locks
            identities = [
                made.nodes["a"].voting.membership.configuration.cluster_identity
                for made in (one, two)
            ]
            assert identities[0] != identities[1]
            known = await one.look()
            foreign = next(voter for voter in known.voters if voter.name == "c")
            assert foreign.is_foreign
            with pytest.raises(UsageError, match="c belongs to another installation"):
                check_force(known, ["a"])
            assert await one.command("status") == 1

    asyncio.run(main())


def test_a_spare_of_another_installation_is_not_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command said that all was well, and a lease later every program had lost its locks."""

    async def main() -> None:
        async with fleet(tmp_path / "one") as one, fleet(tmp_path / "two") as two:
            await two.join("d")
            one.addresses["d"] = two.addresses["d"]
            assert await one.command("add", one.at("d"), "--yes") != 0
            assert "another installation" in capsys.readouterr().err
            assert set(numbers(one).values()) == {1}
            await two.stop("d")
            shutil.copytree(tmp_path / "two" / "d", tmp_path / "one" / "d")
            with pytest.raises(ConfigError, match="spare of another installation"):
                await one.join("d")

    asyncio.run(main())


def test_a_program_cannot_tell_a_node_a_configuration_of_another_installation(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            voting = made.nodes["a"].voting
            ours = voting.membership.configuration
            theirs = msgspec.structs.replace(
                ours, rule=msgspec.structs.replace(ours.rule, number=9), cluster_identity="theirs"
            )
            with pytest.raises(ProtocolError, match="another installation"):
                voting.receive(1, "a program", NewConfiguration(theirs))
            assert voting.voter.number == 1

    asyncio.run(main())


def test_swapped_disks_are_named_and_no_force_is_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Status said that a quorum of the disks is lost, and advised to go on without them."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("a")
            await made.stop("b")
            (tmp_path / "a").rename(tmp_path / "swapped")
            (tmp_path / "b").rename(tmp_path / "a")
            (tmp_path / "swapped").rename(tmp_path / "b")
            await made.start("a")
            await made.start("b")
            assert "node a has the data directory of voter b of configuration 1" in caplog.text
            assert "node b has the data directory of voter a of configuration 1" in caplog.text
            assert "cluster replace" not in caplog.text
            assert "set address" not in caplog.text
            capsys.readouterr()
            assert await made.command("status") != 0
            said = capsys.readouterr()
            assert "has the disk of voter b" in said.out
            assert "has the disk of voter a" in said.out
            assert "start with their own data directories: a, b" in said.err
            assert "force" not in said.err
            # It called them spares, and advised to make them voters.
            assert await asyncio.to_thread(run, ["status", "--url", made.url]) == 69
            said = capsys.readouterr()
            assert "disk of another voter" in said.out
            assert (
                "a abstains: it has the data directory of voter b: start it with its own"
                in said.err
            )
            assert "replace" not in said.err
            with pytest.raises(UsageError, match="a, b still answer"):
                check_force(await made.look(), ["c"])
            assert await made.command("set", "lease=5s") == 69
            said = capsys.readouterr()
            assert "look at the addresses, data directories and secrets of a, b" in said.err
            assert "force" not in said.err

    asyncio.run(main())


def test_nothing_is_forced_while_voters_answer_at_the_addresses_of_others(tmp_path: Path) -> None:
    """Machines with swapped addresses were taken for lost ones, though both vote."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            await made.stop("c")
            nodes = dict(made.config.nodes)
            listen = {name: options.listen for name, options in nodes.items()}
            for name, other in (("b", "c"), ("c", "b")):
                nodes[name] = msgspec.structs.replace(nodes[name], listen=listen[other])
            made.config = msgspec.structs.replace(made.config, nodes=nodes)
            await made.start("b")
            await made.start("c")
            with pytest.raises(UsageError, match="b, c still answer"):
                check_force(await made.look(), ["a"])
            with pytest.raises(UsageError, match="another node answers at the address of b"):
                check_force(await look(make_visit(made.url_at("a"))), ["a"])
            await made.stop("c", wipe=True)
            await made.stop("b", wipe=True)
            made.addresses["d"] = made.addresses["b"]
            await made.join("d")  # a spare that was given the address of a machine that is gone
            assert [voter.name for voter in check_force(await made.look(), ["a"])] == ["a"]

    asyncio.run(main())


def test_nothing_is_forced_while_voters_answer_that_have_another_secret(tmp_path: Path) -> None:
    """The secret was changed at one node: the others were taken for lost, and served programs."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            for name in ("b", "c"):
                await made.stop(name)
            secret = Security("that of the others, and not ours")
            made.config = msgspec.structs.replace(made.config, security=secret)
            for name in ("b", "c"):
                await made.start(name)
            known = await made.look()
            with pytest.raises(UsageError, match="the certificate at b, c is another one"):
                check_force(known, ["a"])
            with pytest.raises(NoQuorum, match="look at the addresses"):
                check_quorum(known)

    asyncio.run(main())


@pytest.mark.usefixtures("open_and_guarded")
@pytest.mark.parametrize("seconds", [2.0, None])
def test_nothing_is_forced_while_a_voter_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    """A process that was stopped was taken for lost; it went on later, and served those that held locks.

    Nor is it by an operator who has little time, and that time is enough to find out.
    """

    async def main() -> None:
        async with fleet(tmp_path) as made:
            for name in "bc":
                await made.stop(name)
            listen = made.config.nodes["b"].listen
            visit, patience = make_visit(made.url), patience_of(seconds)
            with socket.create_server((listen.host, listen.port)):  # the kernel answers for it
                began = asyncio.get_running_loop().time()
                known = await look(visit, patience)
                assert asyncio.get_running_loop().time() - began < (seconds or math.inf)
            with pytest.raises(UsageError, match="listens at the address of b and does not"):
                check_force(known, ["a"])
            known = await look(visit, patience)
            assert [voter.name for voter in check_force(known, ["a"])] == ["a"]

    virtual_time.run(monkeypatch, main)


# Orders that contradict each other, and typing errors


def test_two_forces_at_once_are_leaps_apart_and_status_names_the_one_that_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They had the same number for good, and status knew of one of them."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            known = await made.look()
            kept = {voter.name: voter for voter in known.voters}
            forced = [await force(known, [kept["a"]]), await force(known, [kept["b"]])]
            numbers = sorted(configuration.number for configuration in forced)
            assert numbers[1] - numbers[0] >= FORCED_LEAP
            # No voter that one of them adds gets the seat of a voter that the other one adds.
            seats = sorted(configuration.last_seat for configuration in forced)
            assert seats[1] - seats[0] >= FORCED_LEAP
            capsys.readouterr()
            assert await made.command("status") != 0
            said = capsys.readouterr()
            assert f"votes by configuration {numbers[0]}, which a force has given up" in said.out
            assert "programs that go by it may hold the same locks" in said.err
            # The status of locks said that all is well.
            lost = next(name for name in "ab" if made.nodes[name].voting.voter.number == numbers[0])
            assert await asyncio.to_thread(run, ["status", "--url", made.url]) != 0
            where = f"{lost} at {made.addresses[lost]} votes by configuration {numbers[0]}"
            assert where in capsys.readouterr().err

    asyncio.run(main())


def test_of_two_forces_the_one_that_lost_is_noticed_by_its_own_voter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its voter went on beside the other one for good, and its log said nothing of it."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            known = await made.look()
            kept = {voter.name: voter for voter in known.voters}
            forced = [await force(known, [kept["a"]]), await force(known, [kept["b"]])]
            numbers = sorted(configuration.number for configuration in forced)
            winner, loser = sorted("ab", key=lambda n: -made.nodes[n].voting.voter.number)
            assert made.nodes[loser].voting.voter.number == numbers[0]
            await passing(RIVALS_SECONDS + 1)
            assert [made.nodes[name].voting.voter.number for name in (winner, loser)] == [
                numbers[1]
            ] * 2
            assert not made.nodes[loser].voting.votes
            said = f"node {loser} votes no more: a force has given up configuration {numbers[0]}"
            assert said in caplog.text
            assert f"node {winner} votes no more" not in caplog.text

    virtual_time.run(monkeypatch, main)


def test_a_voter_that_has_joined_notices_that_its_force_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked for rivals from its next start on."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.join("d")
            known = await made.look()
            goal = plan.add(known.configuration, [await made.newcomer("d")])
            await Change(known.membership, known.security, goal).run()
            known = await made.look()
            kept = {voter.name: voter for voter in known.voters}
            with monkeypatch.context() as patch:
                patch.setattr(forcing, "LEAPS_MAX", 1)
                await force(known, [kept["d"]])
            forced = await force(known, [kept["a"]])
            await passing(RIVALS_SECONDS + 1)
            assert made.nodes["d"].voting.voter.number == forced.number
            assert not made.nodes["d"].voting.votes

    virtual_time.run(monkeypatch, main)


def test_copies_of_one_data_directory_do_not_form_a_cluster_and_it_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, formed=False) as made:
            await made.start("a")
            (tmp_path / "b").mkdir()
            shutil.copy(tmp_path / "a" / "identity", tmp_path / "b" / "identity")
            await made.start("b")
            await made.start("c")
            with pytest.raises(ConfigError, match="'a' and 'b' have one data directory"):
                await forming_goal(made.config.membership, made.config.security)

    asyncio.run(main())


def test_a_lease_of_days_needs_consent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made:
            assert await made.command("set", "lease=20000m") == 64
            assert "a lease of 1.2e+06 s" in capsys.readouterr().err
            assert numbers(made) == {"a": 1}

    asyncio.run(main())


def test_a_changer_asks_twice_a_second_however_long_the_lease_is() -> None:
    for lease, pause in ((10.0, 0.25), (1.2e6, 0.5)):
        out: Outbox[Frame] = Outbox(9)
        settings = Settings(3, lease=lease, heartbeat=lease / 4)
        Changer("a changer", founding(settings), Goal(0)).start(out)
        assert out.timers == [(CHANGER, pause)]
