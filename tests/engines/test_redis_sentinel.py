"""Locks on a Redis that sentinels watch: programs follow the primary, and no hold outlasts a failover."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.membership.ports import free_ports
from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.lab.servers.child import Child, Missing, lines_of, wait_for
from coterie.lab.servers.valkey import ValkeySupplier
from coterie.locks.status import find_source
from tests.engines.conformance.suppliers import leave_out
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("redis")

pytestmark = pytest.mark.real

LEASE = 2.0
WATCHERS = 3
# How the primary is when another server takes over. The second time sentinels need ten seconds to be ready for it.
HOW = ["is well"]
if os.environ.get("COTERIE_TEST_ENGINES") == "all":
    HOW += ["hangs", "killed"]


class WatchedValkey:
    """A primary, a replica of it, and three sentinels."""

    def __init__(self, folder: Path) -> None:
        self.servers = [ValkeySupplier(folder / str(n)) for n in range(2)]
        self.ports = free_ports(WATCHERS)
        self.sentinels: list[Child] = []
        for port in self.ports:
            place = folder / f"sentinel{port}"
            place.mkdir(parents=True)
            lines = [
                f"port {port}",
                "bind 127.0.0.1",
                f"sentinel monitor main 127.0.0.1 {self.servers[0].port} 2",
                "sentinel down-after-milliseconds main 500",
                "sentinel failover-timeout main 2000",
            ]
            (place / "conf").write_text("\n".join(lines), encoding="utf-8")
            program = self.servers[0].child.command[0]
            self.sentinels.append(Child(place, [program, str(place / "conf"), "--sentinel"]))

    def start(self) -> None:
        first, second = self.servers
        first.start()
        second.start()
        second.say(f"REPLICAOF 127.0.0.1 {first.port}")
        wait_for(
            lambda: "master_link_status:up" in second.say("INFO replication"), second.child.log
        )
        for sentinel in self.sentinels:
            sentinel.start()
        for port, sentinel in zip(self.ports, self.sentinels, strict=True):
            wait_for(lambda port=port: self._is_ready(port), sentinel.log)  # type: ignore[misc]

    def _is_ready(self, port: int) -> bool:
        """Whether a sentinel knows the replica and the other ones."""
        said = lines_of(port, "SENTINEL MASTER main").split("\r\n")
        facts = dict(zip(said[2::4], said[4::4], strict=False))
        return (facts.get("num-slaves"), facts.get("num-other-sentinels")) == ("1", "2")

    def url(self, name: str = "main") -> str:
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"valkey+sentinel://{places}/{name}?lease={LEASE:g}"

    def primary(self, port: int | None = None) -> int:
        """Return the port of the server that a sentinel names."""
        said = lines_of(port or self.ports[0], "SENTINEL GET-MASTER-ADDR-BY-NAME main")
        return int(said.split("\r\n")[4])

    def fail_over(self) -> None:
        """Have the sentinels promote the replica of a primary that is well."""
        assert "+OK" in lines_of(self.ports[0], "SENTINEL FAILOVER main")

    def settle(self) -> list[ValkeySupplier]:
        """Wait until the primary has its replica; return both."""
        found = sorted(self.servers, key=lambda each: each.port != self.primary())
        wait_for(lambda: "state=online" in found[0].say("INFO replication"), found[1].child.log)
        for port, sentinel in zip(self.ports, self.sentinels, strict=True):
            wait_for(lambda port=port: self._is_ready(port), sentinel.log)  # type: ignore[misc]
        return found

    def end(self) -> None:
        for child in (*self.sentinels, *(server.child for server in self.servers)):
            child.kill()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedValkey]:
    try:
        made = WatchedValkey(tmp_path_factory.mktemp("watched"))
    except Missing as error:
        leave_out(error)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def settled(watched: WatchedValkey) -> list[ValkeySupplier]:
    return watched.settle()


async def taken(c: coterie.Coordinator) -> coterie.Held:
    held = await c.lock("x").acquire()
    assert held is not None
    return held


@in_loop
async def test_a_holder_whose_primary_is_not_that_of_the_majority_loses_its_lock(
    watched: WatchedValkey,
) -> None:
    """It can reach the old primary, which takes its renewals; the sentinels have promoted another one."""
    first, _ = watched.servers
    async with coterie.connect(watched.url()) as ann:
        held = await taken(ann)
        for sentinel in watched.sentinels[1:]:
            sentinel.signal(signal.SIGSTOP)  # no majority speaks for the primary any more
        await held.lost
        assert "+PONG" in await asyncio.to_thread(first.say, "PING")
        with pytest.raises(coterie.LockLost):
            await held.release()
        with pytest.raises(Unavailable, match="no primary is named by a majority of the sentinels"):
            await coterie.connect(watched.url()).open()
        for sentinel in watched.sentinels[1:]:
            sentinel.signal(signal.SIGCONT)
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_what_the_sentinels_say_is_shown(watched: WatchedValkey) -> None:
    with pytest.raises(ConfigError, match="the sentinels know no primary 'other'"):
        await coterie.connect(watched.url("other")).open()
    source = await find_source(watched.url())
    status = await source.look()
    assert [node.name for node in status.nodes] == [f"127.0.0.1:{watched.servers[0].port}"]
    assert status.nodes[0].facts["role"] == "primary"


def test_urls_that_name_no_primary_are_refused() -> None:
    with pytest.raises(UsageError, match="the name by which the sentinels know the primary"):
        coterie.connect("redis+sentinel://a:26379,b:26379")
    with pytest.raises(UsageError, match="number of a database"):
        coterie.connect("redis+sentinel://a/main/x")
    with pytest.raises(UsageError, match=r"redis\+sentinel://"):
        coterie.connect("redis://a,b")
    with contextlib.suppress(ConfigError):
        assert "main" in repr(coterie.connect("rediss+sentinel://me:secret@a,b/main/1"))


@pytest.mark.parametrize("how", HOW)
@in_loop
async def test_a_holder_is_told_of_a_failover_before_the_next_enters(
    watched: WatchedValkey, settled: list[ValkeySupplier], how: str
) -> None:
    first, second = settled
    async with coterie.connect(watched.url()) as ann, coterie.connect(watched.url()) as bob:
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await asyncio.sleep(LEASE / 3)
        assert held.valid
        if how == "is well":
            await asyncio.to_thread(watched.fail_over)
        else:
            first.child.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        got = await waiting
        assert not held.valid
        assert got.token > held.token
        assert await asyncio.to_thread(watched.primary) == second.port
        with pytest.raises(coterie.LockLost):
            await held.release()
        await got.release()
        async with ann.lock("x") as again:
            assert again.token > got.token
        if how == "hangs":
            first.child.signal(signal.SIGCONT)
