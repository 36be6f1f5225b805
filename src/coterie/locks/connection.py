"""From a URL to a coordinator."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING

from coterie.locks.coordinator import Coordinator
from coterie.locks.url import SCHEMES, choose_url, scheme_of, url_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from coterie.telemetry.observer import Observer


def connect(
    url: str | os.PathLike[str] | None = None, *, observers: Sequence[Observer] = ()
) -> Coordinator:
    """Make a coordinator, to be used in `async with`; nothing is opened yet.

    Without a URL the environment variable COTERIE_URL counts, then `url` or the nodes in
    `coterie.toml` of the current directory, then `file:`, which needs nothing but this machine.
    A path is a directory of locks, or the file `NAME.toml` that describes a cluster.

    A coordinator belongs to the process that opens it: one that is made at the top of a module may be opened in
    each child after a fork.

    `observers`, such as `coterie.telemetry.Metrics()`, are told of each lock that is taken, missed and
    given back.
    """
    found = choose_url(url if url is None or isinstance(url, str) else url_of(url))
    make = partial(importlib.import_module(SCHEMES[scheme_of(found)]).make_engine, found)
    return Coordinator(make(), found, make, observers)
