"""Links between sites that break, stall and come back, in the middle of transfers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.membership.config import convert
from coterie.cluster.store import ClusterStore, join_store, own_site
from coterie.errors import Conflict, OutcomeUnknown
from coterie.lab.servers.proxy import Proxy
from coterie.transactions.site.messages import Inquire
from tests.cluster.local_cluster import until
from tests.cluster.store_cluster import (
    NAMES,
    configured,
    document,
    fill,
    keys_at,
    running,
    total,
    transfer,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ACCOUNTS = [key for site in (1, 2, 3) for key in keys_at(site, 3)]


class Net:
    """Three sites; between each two of them there is a proxy in each direction."""

    def __init__(self) -> None:
        self.stores: dict[str, ClusterStore] = {}
        self.proxies: dict[tuple[str, str], Proxy] = {}

    def around(self, name: str) -> list[Proxy]:
        return [proxy for pair, proxy in self.proxies.items() if name in pair]

    def committed(self) -> int:
        return sum(store.counts.committed for store in self.stores.values())

    def unsettled(self) -> bool:
        return any(any(store.facts().values()) for store in self.stores.values())


@contextlib.asynccontextmanager
async def net(folder: Path, scheme: str) -> AsyncIterator[Net]:
    made = Net()
    written = document(scheme=scheme)
    async with contextlib.AsyncExitStack() as stack:
        for caller in NAMES:
            own = copy.deepcopy(written)
            for called in NAMES:
                if called == caller:
                    continue
                address = written["nodes"][called]["store"]
                proxy = made.proxies[caller, called] = Proxy(int(address.rpartition(":")[2]))
                await proxy.start()
                stack.push_async_callback(proxy.stop)
                own["nodes"][called]["store"] = f"127.0.0.1:{proxy.port}"
            joined = join_store(convert(own, folder), node=caller)
            made.stores[caller] = await stack.enter_async_context(joined)
        yield made


async def busy(made: Net, name: str, over: asyncio.Event, seed: int) -> None:
    dice = random.Random(seed)
    while not over.is_set():
        source, target = dice.sample(ACCOUNTS, 2)
        with contextlib.suppress(Conflict, OutcomeUnknown):
            await transfer(made.stores[name], source, target)


@pytest.mark.parametrize("scheme", ["two-phase-locking", "optimistic", "conservative"])
def test_transfers_stay_whole_while_links_break_and_stall(scheme: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), net(tmp_path, scheme) as made:
            await fill(made.stores["a"], ACCOUNTS)
            over = asyncio.Event()
            clients = [
                asyncio.create_task(busy(made, name, over, seed)) for seed, name in enumerate(NAMES)
            ]
            for name in NAMES:
                for proxy in made.around(name):
                    proxy.cut()
                await until(
                    own_site(made.stores[name]).node.lost.__len__, "the others to be missed"
                )
                for proxy in made.around(name):
                    proxy.resume()
                await progress(made)
            for proxy in made.proxies.values():
                proxy.sever()
            await progress(made)
            for proxy in made.around("b"):
                proxy.stall()
            await until(made.unsettled, "something to be held up")
            for proxy in made.around("b"):
                proxy.resume()
            await progress(made)
            over.set()
            await asyncio.gather(*clients)
            await until(lambda: not made.unsettled(), "everything to be settled")
            assert await total(made.stores["b"]) == 900

    asyncio.run(main())


async def progress(made: Net) -> None:
    """Wait until each site has committed something more."""
    before = {name: store.counts.committed for name, store in made.stores.items()}
    await until(
        lambda: all(made.stores[name].counts.committed > count for name, count in before.items()),
        "every site to get on",
    )


def test_a_message_that_makes_no_sense_ends_its_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running(configured(tmp_path)) as sites:
            await fill(sites["a"], ACCOUNTS)
            a, b = own_site(sites["a"]).node, own_site(sites["b"]).node
            a.do(lambda out: out.send(b.me, Inquire(0, "nonsense")))
            await until(lambda: "a transaction named 'nonsense'" in caplog.text, "it to be refused")
            source, target = keys_at(2, 2)
            await transfer(sites["a"], source, target)
            assert await total(sites["b"]) == 900

    asyncio.run(main())
    assert not [record for record in caplog.records if record.name == "asyncio"]
