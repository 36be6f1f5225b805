"""A store over the nodes of a cluster: each keeps its share of the keys, and all give the whole."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cluster.membership.config import Config, convert, load
from coterie.cluster.store.executor import SiteExecutor
from coterie.transactions.store.store import Store

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator


class ClusterStore(Store):
    """A store of which this process is one site."""

    def __init__(self, site: SiteExecutor, *, timeout: float | None, record: bool) -> None:
        """Use the site of this process, which belongs to the running event loop."""
        super().__init__(site, timeout=timeout, record=record)
        self._site = site
        self._surroundings.home.enter()

    def facts(self) -> dict[str, Any]:
        """Return what is under way at this site: what is in doubt, and what waits for what.

        `oldest` is the transaction, of any node, that has begun before all others that are under way
        here: under `multiversion` no version that it could read is dropped before it ends.
        """
        return self._site.node.site.facts()

    def close_source(self, node: str) -> None:
        """Do not wait for the word of a node that is gone; the scheme `conservative` would forever.

        That is always safe, also if the node is there after all: what it begins with a stamp that
        was not waited for is refused here, with a `Conflict` for its user. It holds for the site of
        this process, and until the node is heard again.
        """
        self._site.close_source(node)


def own_site(store: ClusterStore) -> SiteExecutor:
    """Return the site of this process, to look at."""
    return store._site  # noqa: SLF001 - of this module, and no business of a program


@contextlib.asynccontextmanager
async def join_store(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    node: str,
    timeout: float | None = None,  # noqa: ASYNC109 - of each request, by the name all calls have
    record: bool = False,
) -> AsyncIterator[ClusterStore]:
    """Be a site of a cluster's store, for an `async with` block, and use the whole of it.

    Transactions are serializable and atomic over all sites. Where the configuration names a data
    directory, a commit has reached the disks of all sites that it concerns before it is told, or
    reaches them after the next start of a site that has crashed meanwhile.

    Args:
        config: A configuration, a mapping of its shape, or the path of a `coterie.toml`; by
            default COTERIE_CONFIG, then `coterie.toml` here. Each of its nodes has a `store`
            address; the table `[store]` may choose a scheme.
        node: Which of its nodes this process is.
        timeout: How many seconds a request may wait before it gives up with a `Conflict`.
        record: Whether to remember what the transactions of this process did, for `history()`.
    """
    if isinstance(config, Mapping):
        config = convert(config)
    elif not isinstance(config, Config):
        config = load(None if config is None else Path(config))
    executor = SiteExecutor(config, node)
    await executor.open()
    store = ClusterStore(executor, timeout=timeout, record=record)
    try:
        yield store
    finally:
        await store.close()
