"""A data directory that was copied: two nodes of one name and one identity, of which one may run."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.cli import run
from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.voter import recovery
from coterie.cluster.wire.address import Address, parse_address
from coterie.errors import ConfigError, CoterieError
from tests.cluster.changed_cluster import Fleet, fleet
from tests.cluster.local_cluster import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")


class Copy:
    """A node that runs with a copy of the disk of another one, at another address."""

    def __init__(self, made: Fleet, name: str) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.failures: list[CoterieError] = []
        data = made.folder / f"copy of {name}"
        shutil.copytree(made.folder / name, data)
        nodes = dict(made.config.nodes)
        listen = parse_address(self.address)
        nodes[name] = msgspec.structs.replace(nodes[name], listen=listen, data=data)
        config = msgspec.structs.replace(made.config, nodes=nodes)
        self.node = Node(config, name, on_failure=self.failures.append)

    def url(self, made: Fleet) -> str:
        """Return the URL of somebody who knows of all nodes."""
        addresses, question, parameters = made.url.partition("?")
        return f"{addresses},{self.address}{question}{parameters}"


def test_a_copy_ends_that_runs_beside_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both gave the votes of one voter, and nothing said so."""

    async def main() -> None:
        async with fleet(tmp_path) as made:
            copy = Copy(made, "b")
            await copy.node.start()
            try:
                await until(lambda: copy.failures, "the end of the copy")
                assert isinstance(copy.failures[0], ConfigError)
                assert f"another node runs at {made.addresses['b']}" in str(copy.failures[0])
                url = copy.url(made)
                assert await made.command("status", url=url) == 1
                said = capsys.readouterr()
                assert f"votes, and a copy of it at {copy.address}" in said.out
                assert f"stop b at {made.addresses['b']} or at {copy.address}" in said.err
                assert await asyncio.to_thread(run, ["status", "--url", url]) == 1
                assert "run with copies of one data directory" in capsys.readouterr().err
                move = f"address.b={copy.address}"
                assert await made.command("set", move, url=url) == 78
                assert f"b runs at {made.addresses['b']} as well" in capsys.readouterr().err
                assert await made.command("set", move) == 78
            finally:
                await copy.node.stop()
            assert await made.command("status") == 0

    asyncio.run(main())


def test_a_copy_ends_when_the_original_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RIVALS_SECONDS", 0.05)

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            copy = Copy(made, "b")
            await copy.node.start()
            try:
                async with (
                    coterie.connect(copy.url(made)) as program,
                    program.lock("x", timeout=20) as held,
                ):
                    assert held.valid
                assert not copy.failures
                await made.start("b")
                await until(lambda: copy.failures, "the end of the copy")
            finally:
                await copy.node.stop()

    asyncio.run(main())


def test_the_original_ends_when_the_address_of_its_copy_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was thought to be lost, and comes back."""
    monkeypatch.setattr(recovery, "RIVALS_SECONDS", 0.05)

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            copy = Copy(made, "b")
            await copy.node.start()
            try:
                move = f"address.b={copy.address}"
                assert await made.command("set", move, url=copy.url(made)) == 0
                failures: list[CoterieError] = []
                made.nodes["b"] = Node(made.config, "b", on_failure=failures.append)
                await made.nodes["b"].start()
                await until(lambda: failures, "the end of the original")
                assert f"another node runs at {copy.address}" in str(failures[0])
                assert not copy.failures
            finally:
                await copy.node.stop()

    asyncio.run(main())


def test_a_copy_of_a_spare_that_became_a_voter_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spare looked for no other node with its disk, and none that was made a voter while it ran."""
    monkeypatch.setattr(recovery, "RIVALS_SECONDS", 0.05)

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.join("d")
            shutil.copytree(tmp_path / "d", tmp_path / "copies" / "d")
            assert await made.command("add", made.at("d")) == 0
            port = free_ports(1)[0]
            place = Location("d", Address("127.0.0.1", port), tmp_path / "copies" / "d")
            failures: list[CoterieError] = []
            config = await spare_config(place, make_visit(made.url))
            copy = Node(config, "d", on_failure=failures.append)
            await copy.start()
            try:
                # As a program does that has met it: it is behind what it shows.
                copy.voting.learn(made.nodes["d"].voting.membership.configuration)
                assert copy.voting.votes
                await until(lambda: failures, "the end of the copy")
            finally:
                await copy.stop()

    asyncio.run(main())


def test_a_node_that_finds_itself_at_the_address_on_record_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It listens at all addresses of its machine, and cannot know which of them is on record."""
    monkeypatch.setattr(recovery, "RIVALS_SECONDS", 0.05)
    caplog.set_level("DEBUG", "coterie.cluster")

    async def main() -> None:
        async with fleet(tmp_path) as made:
            await made.stop("b")
            nodes = dict(made.config.nodes)
            listen = Address("0.0.0.0", nodes["b"].listen.port)  # noqa: S104 - for the length of a test
            nodes["b"] = msgspec.structs.replace(nodes["b"], listen=listen)
            made.config = msgspec.structs.replace(made.config, nodes=nodes)
            failures: list[CoterieError] = []
            made.nodes["b"] = Node(made.config, "b", on_failure=failures.append)
            caplog.clear()
            await made.nodes["b"].start()
            await until(lambda: caplog.text.count("admin '") > 9, "some looks")
            assert not failures

    asyncio.run(main())
