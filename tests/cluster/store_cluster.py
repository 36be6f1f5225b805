"""Stores over several sites for tests: in this event loop, each with its own directory."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from coterie.cluster.membership.config import Config, convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.store import ClusterStore, join_store, own_site
from coterie.errors import Conflict
from coterie.transactions.site.placement import site_of
from tests.cluster.certificates import GUARD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from coterie.transactions.store.transaction import Transaction

LEASE = 0.4
NAMES = "abc"


def document(size: int = 3, scheme: str = "two-phase-locking", **changes: Any) -> dict[str, Any]:
    ports = free_ports(2 * size)
    nodes = {
        name: {
            "address": f"127.0.0.1:{ports[2 * place]}",
            "store": f"127.0.0.1:{ports[2 * place + 1]}",
        }
        for place, name in enumerate(NAMES[:size])
    }
    store = {"scheme": scheme}
    return {
        "cluster": "test",
        "lease": LEASE,
        "data": "data",
        "nodes": nodes,
        "store": store,
        **GUARD,
        **changes,
    }


def configured(folder: Path, size: int = 3, **changes: Any) -> Config:
    return convert(document(size, **changes), folder)


class Sites:
    """All sites of a store, which can be ended and started again one by one."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stores: dict[str, ClusterStore] = {}
        self._stacks: dict[str, contextlib.AsyncExitStack] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            stack = self._stacks[name] = contextlib.AsyncExitStack()
            joined = join_store(self.config, node=name)
            self.stores[name] = await stack.enter_async_context(joined)

    async def stop(self, *names: str) -> None:
        for name in names:
            await self._stacks.pop(name).aclose()
            del self.stores[name]

    def __getitem__(self, name: str) -> ClusterStore:
        return self.stores[name]

    def messages(self) -> int:
        return sum(own_site(store).node.sent for store in self.stores.values())

    def unsettled(self) -> list[Any]:
        """Tell what is under way anywhere."""
        facts = [store.facts() for store in self.stores.values()]
        return [fact for fact in facts if any(fact.values())]


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Sites]:
    sites = Sites(config)
    try:
        await sites.start(*(member.name for member in config.membership.members))
        yield sites
    finally:
        await sites.stop(*list(sites.stores))


def keys_at(site: int, count: int, sites: int = 3) -> list[str]:
    """Find keys that a site keeps."""
    found = [f"account-{index}" for index in range(200)]
    return [key for key in found if site_of(key, sites) == site][:count]


async def fill(store: ClusterStore, keys: list[str], amount: int = 100) -> None:
    async def work(transaction: Transaction) -> None:
        for key in keys:
            await transaction.put(key, amount)

    await store.run(work, writes=keys)


async def transfer(store: ClusterStore, source: str, target: str, amount: int = 1) -> None:
    async def work(transaction: Transaction) -> None:
        taken = await transaction.get(source, for_update=True)
        given = await transaction.get(target, for_update=True)
        await transaction.put(source, taken - amount)
        await transaction.put(target, given + amount)

    await store.run(work, writes=[source, target])


async def total(store: ClusterStore) -> int:
    """Add up everything, in a transaction that is tried until sites answer again."""

    async def work(transaction: Transaction) -> int:
        return sum(value for _, value in await transaction.scan())

    while True:
        with contextlib.suppress(Conflict):
            return await store.run(work)
