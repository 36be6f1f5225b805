"""Locks on a Redis that sentinels watch: programs follow the primary, and no hold outlasts a failover."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("redis")

import coterie
from coterie.cli import run
from coterie.engines.redis.examination import examine_views
from coterie.engines.redis.sentinel import PrimaryAddress, SentinelView
from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.lab.servers.child import ServerMissing
from coterie.locks.status import find_source
from tests.cluster.certificates import certificates
from tests.engines.conformance.suppliers import leave_out
from tests.engines.watched_redis import RedisGuard, WatchedRedis, redis_program, watched
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.real

# How the primary is when another server takes over.
HOW = ["is well"]
if os.environ.get("COTERIE_TEST_ENGINES") == "all":
    HOW += ["hangs", "killed"]


@pytest.fixture(scope="module")
def redises(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRedis]:
    try:
        with watched(tmp_path_factory.mktemp("watched")) as made:
            yield made
    except ServerMissing as error:
        leave_out(error)


@pytest.fixture
def settled(redises: WatchedRedis) -> WatchedRedis:
    redises.settle()
    return redises


async def taken(c: coterie.Coordinator) -> coterie.Held:
    held = await c.lock("x").acquire()
    assert held is not None
    return held


@in_loop
async def test_a_holder_whose_primary_is_not_that_of_the_majority_loses_its_lock(
    redises: WatchedRedis,
) -> None:
    """It can reach the old primary, which takes its renewals; the sentinels have promoted another one."""
    async with coterie.connect(redises.url()) as ann:
        held = await taken(ann)
        for sentinel in redises.sentinels[1:]:
            sentinel.signal(signal.SIGSTOP)  # no majority speaks for the primary any more
        await held.lost
        assert await asyncio.to_thread(redises.ask, redises.port, "PING")
        with pytest.raises(coterie.LockLost):
            await held.release()
        with pytest.raises(Unavailable, match="no primary is named by a majority of the sentinels"):
            await coterie.connect(redises.url()).open()
        for sentinel in redises.sentinels[1:]:
            sentinel.signal(signal.SIGCONT)
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_what_the_sentinels_say_is_shown(redises: WatchedRedis) -> None:
    with pytest.raises(ConfigError, match="the sentinels know no primary 'other'"):
        await coterie.connect(redises.url(name="other")).open()
    source = await find_source(redises.url())
    status = await source.look()
    assert [node.name for node in status.nodes] == [f"127.0.0.1:{redises.port}"]
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
    settled: WatchedRedis, how: str
) -> None:
    redises = settled
    former = await asyncio.to_thread(redises.primary)
    async with coterie.connect(redises.url()) as ann, coterie.connect(redises.url()) as bob:
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await asyncio.sleep(redises.lease / 3)
        assert held.valid
        end = {"is well": redises.fail_over, "hangs": redises.suspend, "killed": redises.kill}
        await asyncio.to_thread(end[how])
        got = await waiting
        assert not held.valid
        assert got.token > held.token
        assert await asyncio.to_thread(redises.primary) != former
        with pytest.raises(coterie.LockLost):
            await held.release()
        await got.release()
        async with ann.lock("x") as again:
            assert again.token > got.token
    if how != "is well":
        await asyncio.to_thread(redises.resume if how == "hangs" else redises.start)


# Passwords, and TLS


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRedis]:
    """Run servers and sentinels that want passwords, each another one, and TLS."""
    folder = tmp_path_factory.mktemp("guarded")
    certificates(folder, "ours")
    try:
        guard = RedisGuard("one", "another", folder)
        with watched(folder / "servers", redis_program(), guard) as made:
            yield made
    except ServerMissing as error:
        leave_out(error)


def trusting(redises: WatchedRedis, parameters: str = "&sentinel-password=another") -> str:
    assert redises.guard.certificates is not None
    return redises.url(parameters=f"&ca={redises.guard.certificates}/ours-ca.pem{parameters}")


@in_loop
async def test_locks_with_passwords_and_tls_follow_a_failover(guarded: WatchedRedis) -> None:
    async with coterie.connect(trusting(guarded)) as ann:
        held = await taken(ann)
        await asyncio.to_thread(guarded.fail_over)
        await held.lost
        with pytest.raises(coterie.LockLost):
            await held.release()
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_who_may_not_ask_the_sentinels_is_told_in_a_line(
    guarded: WatchedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for parameters in ("", "&sentinel-password=wrong"):
        with pytest.raises(
            ConfigError, match=r"refused: .*sentinel-password=… in the URL"
        ) as error:
            await coterie.connect(trusting(guarded, parameters)).open()
        assert "wrong" not in str(error.value).replace("WRONGPASS", "")
    with pytest.raises(ConfigError, match=r"refused: "):
        await coterie.connect(trusting(guarded).replace(":one@", ":wrong@")).open()
    with pytest.raises(Unavailable, match="TLS fails: CERTIFICATE_VERIFY_FAILED"):
        await coterie.connect(guarded.url()).open()
    monkeypatch.setenv("COTERIE_SENTINEL_PASSWORD", "another")
    async with coterie.connect(trusting(guarded, "")) as c:
        assert not await c.locked("never-taken")


def test_the_doctor_shows_what_the_sentinels_see(
    guarded: WatchedRedis, capsys: pytest.CaptureFixture[str]
) -> None:
    guarded.settle()
    assert run(["doctor", "-o", "json", "--url", trusting(guarded)]) == 0
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    primary = f"127.0.0.1:{guarded.primary()}"
    for port in guarded.sentinel_ports:
        said = f"names {primary}, with 1 replica, one of 3, quorum 2"
        assert found[f"sentinel at 127.0.0.1:{port}"]["found"] == said
    assert found["primary"]["found"] == f"{primary}, by 3 of 3 sentinels"
    assert found["failover"]["state"] == "look"
    assert found[f"server at {primary}"]["state"] == "good"
    guarded.sentinels[0].signal(signal.SIGSTOP)
    assert run(["doctor", "-o", "json", "--url", trusting(guarded)]) == 1
    guarded.sentinels[0].signal(signal.SIGCONT)
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    assert found[f"sentinel at 127.0.0.1:{guarded.sentinel_ports[0]}"]["found"] == "no answer"
    assert found["primary"]["found"] == f"{primary}, by 2 of 3 sentinels"


def test_what_sentinels_say_is_judged() -> None:
    here, there = PrimaryAddress("a", 1), PrimaryAddress("b", 1)

    def judged(*views: SentinelView) -> dict[str, tuple[str, str]]:
        return {each.what: (each.look, each.found) for each in examine_views(views)}

    views = [SentinelView(PrimaryAddress("s", n), here, 1, 3, 2) for n in range(3)]
    split = judged(
        views[0], views[1]._replace(primary=there), SentinelView(here, trouble="no answer")
    )
    assert split["primary"] == ("bad", "1 of 3 sentinels name the same one; a majority is needed")
    late = judged(views[0], views[1], views[2]._replace(primary=there))
    assert late["sentinel at s:2"][0] == "warning"
    assert judged(*views[:2])["sentinels"][1] == "3 watch the primary, and the URL names 2"
    alone = [each._replace(replicas=0, sentinels=2) for each in views[:2]]
    assert judged(*alone)["sentinels"][1] == "2 sentinels: none may be away"
    assert judged(*alone)["failover"][1] == "no replica: no server can take over"
    dead = judged(*(each._replace(trouble="it takes the server for dead") for each in views))
    assert dead["sentinel at s:0"][0] == "warning"
