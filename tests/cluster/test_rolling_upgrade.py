"""Two versions of the protocol in one cluster, up to the moment when the older one is given up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Rule
from coterie.algorithms.mutex.quorum.leased.frames import Attempt, Condition, Proposal
from coterie.algorithms.mutex.quorum.leased.saved import Saved
from coterie.cluster.admin.status import inspect
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.host import Change
from coterie.cluster.client.access import own_identity
from coterie.cluster.membership import discovery
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire import frames as wire
from coterie.cluster.wire.address import Address
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.query import ask_condition, consult
from coterie.cluster.wire.voter_frames import Impose
from coterie.errors import ConfigError, NotFormed, ProtocolError, Unavailable
from tests.cluster import protocol_6
from tests.cluster.local_cluster import COTERIE, document, running, until, url_of
from tests.cluster.protocol_6 import Veil

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SECRET = "long enough/" * 3
LATER = wire.PROTOCOL + 1


class Cluster:
    """Nodes in this event loop, with a veil before each of them."""

    def __init__(self, folder: Path, config: Config, nodes: list[Node], veils: list[Veil]) -> None:
        self._folder = folder
        self.config = config
        self.nodes = nodes
        self.veils = veils

    @property
    def old_url(self) -> str:
        """What a program is given that is to speak version 6."""
        places = ",".join(f"127.0.0.1:{veil.port}" for veil in self.veils)
        return f"coterie://{places}{self._query}"

    @property
    def url(self) -> str:
        return url_of(self.config) + self._query

    @property
    def _query(self) -> str:
        return f"?secret-file={self._folder}/secret" if self.config.security.secret else ""

    @property
    def strangers(self) -> list[str]:
        """The kinds of frames that version 6 does not know, and that were sent to it."""
        return [kind for veil in self.veils for kind in veil.strangers]

    @property
    def numbers(self) -> set[int]:
        return {node.voting.voter.number for node in self.nodes}

    async def condition(self, place: int = 0) -> Condition:
        member, security = self.config.membership.members[place], self.config.security
        credentials = self.config.membership.credentials(security.secret_bytes())
        return await ask_condition(member.name, member.address, credentials, None)

    async def finalize(self) -> Configuration:
        """Do what a command to use the newest protocol does."""
        config = self.config
        goal = await forming_goal(config.membership, config.security)
        return await Change(config.membership, config.security, goal).run()


@contextlib.asynccontextmanager
async def upgraded(
    folder: Path, size: int = 3, *, secret: str = "", veiled: str = ""
) -> AsyncIterator[Cluster]:
    """Run nodes with data directories that an earlier version has used.

    Those that are `veiled` speak version 6 with all others.
    """
    made = document(size, data="data")
    listening = free_ports(size)
    veils = [Veil(port) for port in listening]
    for veil, (name, node), port in zip(veils, made["nodes"].items(), listening, strict=True):
        await veil.start()
        node["listen"] = f"127.0.0.1:{port}"
        node["address"] = f"127.0.0.1:{veil.port if name in veiled else port}"
        (folder / "data" / name).mkdir(parents=True)
        (folder / "data" / name / "lock").touch()
    for veil in veils:
        veil.show({port: veil.port for port, veil in zip(listening, veils, strict=True)})
    (folder / "secret").write_text(secret)
    (folder / "secret").chmod(0o600)
    config = convert(made, folder)
    security = msgspec.structs.replace(config.security, secret=secret)
    config = msgspec.structs.replace(config, security=security)
    try:
        async with running(config) as nodes:
            yield Cluster(folder, config, nodes, veils)
    finally:
        for veil in veils:
            await veil.stop()


def own_label() -> str:
    """Return what people call the programs of this process."""
    return own_identity().label


async def use(first: coterie.Coordinator, then: coterie.Coordinator) -> None:
    """Let a lock go from one program to the other, and back."""
    tokens = []
    for program in (first, then, first):
        async with program.lock("x") as held:
            assert held.valid
            tokens.append(held.token)
    assert tokens == sorted(set(tokens))


# Together


@pytest.mark.parametrize("secret", ["", SECRET])
@pytest.mark.parametrize("veiled", ["", "b", "abc"])
def test_programs_and_nodes_of_both_versions_share_locks(
    tmp_path: Path, secret: str, veiled: str
) -> None:
    async def main() -> None:
        async with (
            upgraded(tmp_path, secret=secret, veiled=veiled) as cluster,
            coterie.connect(cluster.old_url) as old,
            coterie.connect(cluster.url) as new,
        ):
            await use(old, new)
            await use(new, old)
            assert cluster.numbers == {0}
            assert not cluster.strangers, "nothing that version 6 would not understand"
            assert all("Reply" in veil.forms for veil in cluster.veils), "they did talk through it"
            for url in (cluster.url, cluster.old_url):
                state = await inspect(make_visit(url), locks=True)
                assert [node.trouble for node in state.nodes] == [""] * 3
                assert state.health == 0

    asyncio.run(main())


def test_a_hold_outlives_the_renewal_of_every_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            upgraded(tmp_path) as cluster,
            coterie.connect(cluster.old_url) as old,
            old.lock("x") as held,
        ):
            for place, node in enumerate(cluster.nodes):
                await node.stop()
                folder = tmp_path / "data" / node.name
                assert protocol_6.read_bound((folder / "bound").read_bytes())
                assert protocol_6.read_memory((folder / "memory").read_bytes()) is None
                (folder / "memory").write_bytes(protocol_6.MEMORY)  # as it would leave it
                again = cluster.nodes[place] = Node(cluster.config, node.name)
                await again.start()
                assert again.voting.voter.abstains(), "what it knew was of another version"
                sessions = again.voting.voter.sessions
                await until(lambda: sessions, "the program to be back")  # noqa: B023
                await until(lambda: not again.voting.voter.abstains(), "it to vote")  # noqa: B023
                assert held.valid
            assert cluster.numbers == {0}, "no point of no return by itself"

    asyncio.run(main())


# The older version is given up


@pytest.mark.parametrize("secret", ["", SECRET])
def test_the_older_version_is_given_up_by_command_when_no_program_speaks_it(
    tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "DISCOVERY_SECONDS_MAX", 0.5)

    async def main() -> None:
        async with upgraded(tmp_path, secret=secret) as cluster:
            async with coterie.connect(cluster.url) as new:
                async with coterie.connect(cluster.old_url) as old:
                    await use(old, new)
                    with pytest.raises(
                        NotFormed,
                        match=f"program '{own_label()}' at node 'a' speaks protocol 6 at most, and protocol"
                        " 8 is wanted",
                    ):
                        await cluster.finalize()
                async with new.lock("held") as held:
                    settled = await cluster.finalize()
                    assert (settled.number, settled.protocol) == (1, wire.PROTOCOL)
                    assert held.valid
                    await until(lambda: cluster.numbers == {1}, "all nodes to follow")
                await use(new, new)
            with pytest.raises(Unavailable) as refused:
                async with coterie.connect(cluster.old_url):
                    pass
            versions = "the caller speaks protocol 6 and this node protocol 8: run a newer version"
            assert str(refused.value).count(versions) == 3
            assert "\n" not in str(refused.value)
            assert not cluster.strangers

    asyncio.run(main())


def test_the_command_takes_no_other_protocol_for_the_newest(tmp_path: Path) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:

            async def command(setting: str) -> tuple[int | None, str]:
                words = [*COTERIE, "cluster", "set", setting, "--url", cluster.url]
                process = await asyncio.create_subprocess_exec(
                    *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                _, said = await process.communicate()
                return process.returncode, said.decode()

            status, said = await command("protocol=6")
            assert (status, cluster.numbers) == (64, {0})
            assert "that is done by protocol=8, got protocol=6" in said
            status, said = await command("protocol=8")
            assert (status, cluster.numbers) == (0, {1})
            assert "protocol 6 -> 8" in said

    asyncio.run(main())


def test_a_program_counts_until_its_session_ends(tmp_path: Path) -> None:
    """One whose query is broken comes back, and must understand what was decided meanwhile."""

    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster, coterie.connect(cluster.old_url) as old:
            await use(old, old)
            cluster.veils[0].cut()
            await until(lambda: not cluster.nodes[0].voting.programs.sinks, "the query to end")
            condition = await cluster.condition()
            assert (condition.protocol, condition.slowest) == (6, own_label())
            await until(
                lambda: not cluster.nodes[0].voting.programs.labels, "the session to expire"
            )
            condition = await cluster.condition()
            assert (condition.protocol, condition.slowest) == (wire.PROTOCOL, "")

    asyncio.run(main())


def test_a_node_that_speaks_an_older_version_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, veiled="b") as cluster:
            with pytest.raises(NotFormed, match="node 'b' cannot be asked: it speaks protocol 6"):
                await cluster.finalize()
            assert not cluster.strangers, "it is not asked what it cannot understand"

    asyncio.run(main())


def test_a_single_old_directory_keeps_the_cluster_from_forming_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with upgraded(tmp_path) as cluster:
            for node in cluster.nodes:
                await node.stop()
            (tmp_path / "data" / "a" / "identity").unlink()
            (tmp_path / "data" / "a" / "lock").unlink()  # its disk is a new one
            for place, node in enumerate(cluster.nodes):
                cluster.nodes[place] = Node(cluster.config, node.name, new_cluster=True)
                await cluster.nodes[place].start()
            assert [(await cluster.condition(place)).is_old for place in range(3)] == [
                False,
                True,
                True,
            ]
            config = cluster.config
            with pytest.raises(NotFormed, match="node 'b' has run an earlier version"):
                await forming_goal(config.membership, config.security, commanded=False)
            assert (await cluster.finalize()).number == 1

    asyncio.run(main())


def test_a_program_that_comes_in_the_middle_holds_the_decision_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with upgraded(tmp_path) as cluster:
            config = cluster.config
            goal = await forming_goal(config.membership, config.security)
            async with coterie.connect(cluster.old_url) as old:
                await use(old, old)
                change = asyncio.create_task(Change(config.membership, config.security, goal).run())
                successions = [node.voting.voter.succession for node in cluster.nodes]
                await until(
                    lambda: all(each.promised and each.promised.round > 1 for each in successions),
                    "a second attempt",
                )
                assert cluster.numbers == {0}
                assert not any(each.accepted for each in successions)
                await use(old, old)
            assert (await change).number == 1
            assert not cluster.strangers

    asyncio.run(main())


# Version 6 never hears of configurations


def first_configuration(node: Node, protocol: int = wire.PROTOCOL) -> Configuration:
    """Return what a cluster of this one node would decide."""
    before = node.voting.voter.configuration
    assert before is not None
    (member,) = node.config.membership.members
    members = (Member(1, member.name, node.voting.voter.identity, str(member.address)),)
    rule = Rule(1, before.rule.parts)
    return Configuration(rule, members, 0, (before.rule,), protocol)


async def impose(node: Node, configuration: Configuration) -> None:
    """Do what an operator does who has lost a quorum."""
    (member,) = node.config.membership.members
    credentials = Credentials("test", "")
    async with consult(member.address, credentials, None, role="operator") as talk:
        talk.send(Impose(configuration))
        await until(lambda: node.voting.voter.number == configuration.number, "the change")


@pytest.mark.parametrize("imposed", [False, True])
def test_an_old_program_is_let_go_when_a_configuration_asks_for_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, imposed: bool
) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:
            (node,), (veil,) = cluster.nodes, cluster.veils

            async def hold() -> None:
                async with coterie.connect(cluster.old_url) as old, old.lock("x"):
                    if imposed:
                        await impose(node, first_configuration(node))
                    else:
                        node.voting.learn(first_configuration(node))
                    await asyncio.Event().wait()

            with pytest.raises(coterie.LockLost):
                await hold()
            assert not veil.strangers, "not even before it was let go"
            refusals = [log for log in caplog.messages if "the caller speaks protocol 6" in log]
            assert refusals, "and when it called again it was told why"

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "does not speak protocol 8, which the cluster asks for now" in caplog.text


def test_a_configuration_that_comes_during_the_handshake_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:
            (node,), membership = cluster.nodes, cluster.config.membership
            calling = await dial(membership.members[0].address, None)
            identity, over = new_identity("old:1"), asyncio.Event()
            credentials = membership.credentials(b"")
            caller = Caller(credentials, "participant", identity, "a")

            def prove(frame: memoryview) -> None:
                assert isinstance(wire.decode_welcome(frame), wire.Welcome)
                node.voting.learn(first_configuration(node))
                calling.send(wire.Proof(b"", identity.key))

            calling.use(prove, lambda _: over.set())
            calling.send(msgspec.structs.replace(caller.hello, newest=0))
            await over.wait()
            assert not node.voting.programs.sinks

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "'old:1' does not speak protocol 8, which the cluster asks for now" in caplog.text


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("participant", "refused: the configurations differ"),  # it knows no numbers
        ("admin", "it speaks protocol 6 at most, and the cluster asks for protocol 8 now"),
    ],
)
def test_a_program_whose_configuration_asks_for_more_leaves_an_old_node(
    tmp_path: Path, role: wire.Role, reason: str
) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:
            (node,), (veil,) = cluster.nodes, cluster.veils
            decided = cluster.config.membership.after(first_configuration(node))
            credentials = decided.credentials(b"")
            if role == "admin":
                credentials = msgspec.structs.replace(credentials, configuration="")
            caller = Caller(credentials, role, new_identity("new:1"), node.name)
            calling = await dial(Address("127.0.0.1", veil.port), None)
            with pytest.raises(ProtocolError, match=reason):
                await caller.greet(calling)
            calling.close("it is refused")
            await calling.wait_closed()

    asyncio.run(main())


# Our own version meets a later one


def test_a_node_does_not_adopt_what_it_cannot_keep_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:
            (node,) = cluster.nodes
            with pytest.raises(ProtocolError, match=f"asks for protocol {LATER}.*run a newer one"):
                node.voting.learn(first_configuration(node, LATER))
            assert cluster.numbers == {0}

    asyncio.run(main())


@pytest.mark.parametrize("only_accepted", [False, True])
def test_a_node_that_is_too_old_for_its_disk_does_not_start(
    tmp_path: Path, *, only_accepted: bool
) -> None:
    async def main() -> None:
        async with upgraded(tmp_path, 1) as cluster:
            (node,) = cluster.nodes
            later = first_configuration(node, LATER)
            await node.stop()
            saved = Saved(17, later)
            if only_accepted:
                attempt = Attempt(1, "changer")
                saved = Saved(17, None, attempt, Proposal(attempt, later))
            folder = tmp_path / "data" / "a"
            disk = Storage(folder)
            disk.open()
            disk.save(saved.encode())
            disk.close()
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert "memory" in before
            with pytest.raises(ConfigError, match=f"asks for protocol {LATER}.*run a newer one"):
                await Node(cluster.config, "a").start()
            after = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert before == after, "a newer version finds everything as it was"

    asyncio.run(main())


def test_a_frame_of_an_unknown_kind_ends_its_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Novelty(wire.Service, frozen=True):
        value: int

    async def main() -> None:
        async with (
            upgraded(tmp_path, 1) as cluster,
            coterie.connect(cluster.url) as program,
            program.lock("x") as held,
        ):
            membership = cluster.config.membership
            caller = Caller(
                membership.credentials(b""), "participant", new_identity("later:1"), "a"
            )
            calling = await dial(membership.members[0].address, None)
            await caller.greet(calling)
            over = asyncio.Event()
            calling.use(lambda _: None, lambda _: over.set())
            calling.send(Novelty(8))
            await over.wait()
            assert held.valid
            assert len(cluster.nodes[0].voting.programs.sinks) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "a frame of a kind that this version of coterie does not know: 'Novelty'" in caplog.text
