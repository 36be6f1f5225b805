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
    """Make a coordinator of the engine that a URL names; nothing is opened yet. See `coterie.connect`."""
    found = choose_url(url if url is None or isinstance(url, str) else url_of(url))
    make = partial(importlib.import_module(SCHEMES[scheme_of(found)]).make_engine, found)
    return Coordinator(make(), found, make, observers)
