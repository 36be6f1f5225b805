"""Nodes of classic algorithms that end: the others go on, or say at once why they cannot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.catalogue import algorithms
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from coterie.cluster.wire import link
from coterie.process import Mutex
from tests.cluster.local_cluster import NAMES, PATIENCE_SECONDS, document
from tests.cluster.test_classic import node_of
from tests.cluster.virtual_time import passing, run, sleep_through

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from coterie.cluster.membership.config import Config
    from coterie.cluster.wire.address import Address

pytestmark = pytest.mark.usefixtures("open_and_guarded")

TIMES = {"fault-tolerant": {"sigma": "0.05", "lambda": "0.05"}, "token-ring": {"pause": "0.01"}}
MUTEXES = [
    (name, variant.name)
    for name, entry in algorithms().items()
    if issubclass(entry.process, Mutex) and name != "leased"
    for variant in entry.variants
    if variant.sound
]


def tolerates_crashes(name: str, variant: str) -> bool:
    return "crash" in algorithms()[name].faults_tolerated(variant)


GOING_ON = [each for each in MUTEXES if tolerates_crashes(*each)]
STOPPING = [each for each in MUTEXES if not tolerates_crashes(*each)]
LEASE = 0.3


def wish(name: str, variant: str, size: int = 4, lease: float = LEASE) -> dict[str, Any]:
    parameters = TIMES.get(name, {})
    return document(size, algorithm=name, variant=variant, parameters=parameters, lease=lease)


@contextlib.asynccontextmanager
async def members(config: Config) -> AsyncIterator[list[locks.Coordinator]]:
    made = [join(config, node=member.name) for member in config.membership.members]
    try:
        for member in made:
            await member.open()
        yield made
    finally:
        for member in made:
            await member.close()


def test_the_catalogue_says_which_go_on() -> None:
    assert GOING_ON == [
        ("centralized", "failover"),
        ("fault-tolerant", "repaired"),
        ("token-ring", "regenerating"),
    ]


@pytest.mark.parametrize(("name", "variant"), GOING_ON)
@pytest.mark.parametrize("place", range(4))
def test_under_contention_the_others_go_on_without_a_node_that_ends(
    monkeypatch: pytest.MonkeyPatch, name: str, variant: str, place: int
) -> None:
    """It ends while it holds one lock and waits for another, each of which others want as well."""
    config = convert(wish(name, variant))
    inside = {"x": 0, "y": 0}

    async def main() -> None:
        async with members(config) as taking:

            async def enter(member: locks.Coordinator, lock: str) -> None:
                for _ in range(3):
                    async with member.lock(lock):
                        inside[lock] += 1
                        assert inside[lock] == 1
                        await passing(0.01)
                        inside[lock] -= 1

            for lock in inside:
                await asyncio.gather(*(enter(one, lock) for one in taking))
            ending, others = taking[place], [*taking[:place], *taking[place + 1 :]]
            assert await ending.lock("x").acquire()
            holder = await others[0].lock("y").acquire()
            assert holder
            waiting = asyncio.ensure_future(ending.lock("y").acquire())
            going_on = [
                asyncio.ensure_future(enter(one, lock)) for one in others for lock in inside
            ]
            await passing(0.05)
            await ending.close()
            await holder.release()
            await asyncio.gather(*going_on)
            with pytest.raises(coterie.MisuseError):
                await waiting

    run(monkeypatch, main)


@pytest.mark.parametrize(("name", "variant"), STOPPING)
def test_whoever_waits_is_told_that_a_node_is_lost(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    variant: str,
) -> None:
    config = convert(wish(name, variant))
    reason = f"lock 'x': a cannot be reached, and {name} does not tolerate crashes"

    async def main() -> None:
        async with members(config) as taking:
            for member in taking:
                async with member.lock("x"):
                    pass
            assert await taking[0].lock("x").acquire()
            waiting = [asyncio.ensure_future(one.lock("x").acquire()) for one in taking[1:]]
            await passing(0.05)
            await taking[0].close()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            for each in ended:
                if not isinstance(each, locks.Held):  # the token or the votes may be elsewhere
                    assert isinstance(each, coterie.Unavailable)
                    assert str(each).startswith(reason)
            assert any(isinstance(each, coterie.Unavailable) for each in ended)
            failed = next(i for i, each in enumerate(ended, 1) if isinstance(each, Exception))
            with pytest.raises(coterie.Unavailable, match="cannot be reached"):
                await taking[failed].lock("x").acquire()

    with caplog.at_level(logging.ERROR):
        run(monkeypatch, main)
    assert "node a is lost to node b" in caplog.text


def test_a_node_that_is_only_cut_off_is_spoken_with_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config = convert(wish("raymond", "plain"))
    is_cut = False
    dial = link.dial

    async def dial_unless_cut(*arguments: Any) -> Any:
        if is_cut:
            raise OSError("cut")
        return await dial(*arguments)

    monkeypatch.setattr(link, "dial", dial_unless_cut)

    async def main() -> None:
        nonlocal is_cut
        async with members(config) as taking:
            for member in taking:
                async with member.lock("x"):
                    pass
            async with taking[0].lock("x"):
                is_cut = True
                for member in taking:
                    for peer in node_of(member).peers:
                        peer.abort("cut by the test")
                with pytest.raises(coterie.Unavailable, match="cannot be reached"):
                    await taking[1].lock("x").acquire()
            is_cut = False
            await passing(4 * LEASE)
            for member in taking:
                async with member.lock("x"):
                    pass

    run(monkeypatch, main)


def test_time_in_which_a_node_does_not_run_itself_is_no_absence_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All nodes are in one loop here: each is late, and reaches the others right after that."""
    config = convert(wish("token-ring", "regenerating", 3))

    async def main() -> None:
        async with members(config) as taking:
            async with taking[0].lock("x"):
                pass
            for late in (0.1, 0.7, 0.95):
                await passing(2 * LEASE)
                for peer in node_of(taking[0]).peers:
                    peer.abort("cut by the test")
                await asyncio.sleep(0)
                sleep_through(late * LEASE)
                await passing(0.0)
                sleep_through((1.2 - late) * LEASE)
            for member in taking:
                async with member.lock("x"):
                    pass

    run(monkeypatch, main)
    assert "is lost to" not in caplog.text


def test_a_node_that_was_never_met_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = convert(wish("lamport", "plain", 3))

    async def main() -> None:
        async with join(config, node="a") as one, join(config, node="b"):
            with pytest.raises(coterie.Unavailable, match="c did not answer so far; start all"):
                await one.lock("x").acquire(timeout=3 * LEASE)

    with caplog.at_level(logging.WARNING):
        run(monkeypatch, main)
    waits = (
        "node a waits: lamport grants locks when all nodes have met, and c did not answer so far"
    )
    assert waits in caplog.text


# Nodes that end while all meet

_caller: ContextVar[str] = ContextVar("caller", default="")


class Ways:
    """Nodes, and which of them cannot call which for the time being."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
        self.barred: set[tuple[str, str]] = set()
        self._config = config
        self._names = {member.address: member.name for member in config.membership.members}
        self._dial = link.dial
        monkeypatch.setattr(link, "dial", self._dial_unless_barred)

    async def _dial_unless_barred(self, address: Address, tls: Any) -> Any:
        if (_caller.get(), self._names[address]) in self.barred:
            raise OSError("barred")
        return await self._dial(address, tls)

    async def join(self, stack: contextlib.AsyncExitStack, name: str) -> locks.Coordinator:
        _caller.set(name)  # tasks of its links keep it
        return await stack.enter_async_context(join(self._config, node=name))


def down(coordinator: locks.Coordinator) -> list[int]:
    """Return which processes that of the lock x takes for down, where it finds out by itself."""
    facts = node_of(coordinator).process("x").seat.process.facts()
    found: list[int] = facts.get("down", [])
    return found


@pytest.mark.parametrize(("name", "variant"), GOING_ON)
@pytest.mark.parametrize("strangers", ["b", "abc", "ab"])
def test_a_node_that_ends_before_all_have_met_it_does_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch, name: str, variant: str, strangers: str
) -> None:
    """Those that cannot call it have not met it, but it may have called them."""
    config = convert(wish(name, variant))
    ways = Ways(monkeypatch, config)
    ways.barred = {(each, "d") for each in strangers}

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            others = [await ways.join(stack, name) for name in "abc"]
            async with contextlib.AsyncExitStack() as life:
                await ways.join(life, "d")
                await passing(2 * LEASE)
            for member in others:
                async with member.lock("x"):
                    pass
            assert all(4 not in down(member) or down(member) == [4] for member in others)

    run(monkeypatch, main)


@pytest.mark.parametrize(("name", "variant"), GOING_ON)
def test_one_that_has_not_been_there_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, name: str, variant: str
) -> None:
    """When it comes it could act on its own, as the others would without it."""
    config = convert(wish(name, variant, 3))

    async def main() -> None:
        async with join(config, node="a") as one, join(config, node="b"):
            with pytest.raises(coterie.Unavailable, match="c did not answer so far; start all"):
                await one.lock("x").acquire(timeout=20 * LEASE)
            async with join(config, node="c"), one.lock("x"):
                pass

    run(monkeypatch, main)


def test_a_later_start_is_refused_by_nodes_that_have_only_heard_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = convert(wish("token-ring", "regenerating"))
    ways = Ways(monkeypatch, config)
    ways.barred = {("d", "b"), ("d", "c"), ("b", "d"), ("c", "d")}

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            others = [await ways.join(stack, name) for name in "bc"]
            async with contextlib.AsyncExitStack() as knows:
                await ways.join(knows, "a")
                async with contextlib.AsyncExitStack() as life:
                    await ways.join(life, "d")
                    await passing(2 * LEASE)
                await passing(4 * LEASE)
            for member in others:
                async with member.lock("x"):
                    pass
            ways.barred.clear()
            with pytest.raises(coterie.Unavailable, match="node 'd' was restarted"):
                await ways.join(stack, "d")

    run(monkeypatch, main)


@pytest.mark.parametrize("knows", [False, True])
def test_two_restarted_nodes_do_not_begin_beside_those_that_refuse_them(
    monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """The first is refused, and loses them; the second cannot reach them yet, but maybe they it."""
    config = convert(wish("token-ring", "regenerating"))
    ways = Ways(monkeypatch, config)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            others = [await ways.join(stack, each) for each in "bd"]
            async with contextlib.AsyncExitStack() as lives:
                for each in "ac":
                    await ways.join(lives, each)
                async with others[0].lock("x"):
                    pass
            async with others[0].lock("x"):
                with pytest.raises(coterie.Unavailable, match="node 'c' was restarted"):
                    await ways.join(stack, "c")
                await passing(3 * LEASE)
                ways.barred = {("a", "b"), ("a", "d")}
                if not knows:
                    ways.barred |= {("b", "a"), ("d", "a")}
                again = await ways.join(stack, "a")
                with pytest.raises(coterie.Unavailable, match="did not answer so far"):
                    await again.lock("x").acquire(timeout=3.0)

    run(monkeypatch, main)


def test_no_node_begins_before_all_that_live_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would take one for dead that only waits for a third, and go on without it."""
    config = convert(wish("fault-tolerant", "repaired", 3, lease=20.0))
    ways = Ways(monkeypatch, config)
    ways.barred = {("b", "c")}

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            taking = [await ways.join(stack, each) for each in "abc"]
            with pytest.raises(coterie.Unavailable, match="b did not meet all others so far"):
                await taking[0].lock("x").acquire(timeout=5.0)
            ways.barred.clear()
            for member in taking:
                async with member.lock("x"):
                    pass
            assert [down(member) for member in taking] == [[], [], []]

    run(monkeypatch, main)


@pytest.mark.parametrize(("name", "variant"), GOING_ON)
def test_a_node_begins_with_the_first_that_begins(
    monkeypatch: pytest.MonkeyPatch, name: str, variant: str
) -> None:
    """That one has heard that all are able, of which one may not come to tell the others."""
    config = convert(wish(name, variant, lease=20.0))
    ways = Ways(monkeypatch, config)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            taking = [await ways.join(stack, each) for each in "abc"]
            await passing(2.0)
            ways.barred = {("c", "b")}
            node_of(taking[2]).peers[2].abort("cut by the test")
            await passing(1.0)
            taking.append(await ways.join(stack, "d"))
            for member in taking:
                async with member.lock("x", timeout=5.0):
                    pass
            assert [down(member) for member in taking] == [[], [], [], []]

    run(monkeypatch, main)


# Real processes


class Counting:
    """Nodes as processes that add to a number in a file under a lock, until they are killed."""

    def __init__(self, folder: Path, name: str, variant: str) -> None:
        self.number = folder / "number"
        self.number.write_text("0")
        self.journal = folder / "journal"
        file = folder / "coterie.toml"
        settings = wish(name, variant, lease=1.0)
        lines = [f'algorithm = "{name}"', f'variant = "{variant}"', "lease = 1", "[parameters]"]
        lines += [f'{key} = "{value}"' for key, value in settings["parameters"].items()]
        for node, address in settings["nodes"].items():
            lines += [f"[nodes.{node}]", f'address = "{address["address"]}"']
        file.write_text("\n".join(lines))
        script = str(Path(__file__).with_name("counting_program.py"))
        self.running = {
            node: subprocess.Popen(
                [sys.executable, script, str(file), node, str(self.number), str(self.journal)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for node in NAMES[:4]
        }

    def entries(self, node: str) -> int:
        return self.journal.read_text().split().count(node) if self.journal.exists() else 0

    def wait_for(self, more: int, *nodes: str) -> None:
        """Wait until each of these nodes has entered so many times more."""
        wanted = {node: self.entries(node) + more for node in nodes}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(self.entries(node) < count for node, count in wanted.items()):
            assert time.monotonic() < deadline, f"nodes {nodes} do not go on"
            time.sleep(0.01)

    def kill(self, node: str) -> None:
        process = self.running.pop(node)
        process.kill()
        process.communicate()


@pytest.fixture(params=GOING_ON, ids="-".join)
def counting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counting]:
    started = Counting(tmp_path, *request.param)
    try:
        yield started
    finally:
        for node in list(started.running):
            started.kill(node)


def test_nothing_is_lost_when_a_process_is_killed_under_contention(counting: Counting) -> None:
    counting.wait_for(3, "a", "b", "c", "d")
    counting.kill("b")
    counting.wait_for(3, "a", "c", "d")
    for node in list(counting.running):
        counting.kill(node)
    # Each entry writes the number, then its line; the one that is killed in between may lack a line.
    lines = len(counting.journal.read_text().split())
    assert lines <= int(counting.number.read_text()) <= lines + 4
