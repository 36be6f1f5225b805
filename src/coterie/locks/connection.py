"""From a URL to a coordinator."""

from __future__ import annotations

import importlib

from coterie.locks.coordinator import Coordinator
from coterie.locks.url import SCHEMES, choose_url, scheme_of


def connect(url: str | None = None) -> Coordinator:
    """Make a coordinator, to be used in `async with`; nothing is opened yet.

    Without a URL the environment variable COTERIE_URL counts, then `url` or the nodes in
    `coterie.toml` of the current directory, then `file:`, which needs nothing but this machine.
    """
    url = choose_url(url)
    return Coordinator(importlib.import_module(SCHEMES[scheme_of(url)]).make_engine(url), url)
