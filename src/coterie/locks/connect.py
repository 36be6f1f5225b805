"""From a URL to a coordinator."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from coterie.errors import ConfigError, UsageError
from coterie.locks.coordinator import Coordinator

# The module of each scheme has `make_engine(url)`.
SCHEMES = {
    "coterie": "coterie.cluster.url",
    "etcd": "coterie.engines.etcd",
    "etcds": "coterie.engines.etcd",
    "file": "coterie.engines.file.engine",
    "redis": "coterie.engines.redis",
    "rediss": "coterie.engines.redis",
    "valkey": "coterie.engines.redis",
    "valkeys": "coterie.engines.redis",
}
CONFIGURATION = Path("coterie.toml")
DEFAULT_URL = "file:"


def connect(url: str | None = None) -> Coordinator:
    """Make a coordinator, to be used in `async with`; nothing is opened yet.

    Without a URL the environment variable COTERIE_URL counts, then `url` or the nodes in
    `coterie.toml` of the current directory, then `file:`, which needs nothing but this machine.
    """
    url = choose_url(url)
    return Coordinator(importlib.import_module(SCHEMES[scheme_of(url)]).make_engine(url), url)


def choose_url(url: str | None = None) -> str:
    """Find the URL: what is given, then the environment, then the file, then this machine."""
    return url or os.environ.get("COTERIE_URL") or _configured_url() or DEFAULT_URL


def scheme_of(url: str) -> str:
    """Return the kind of coordinator that a URL names."""
    scheme, colon, _ = url.partition(":")
    if not colon:
        raise UsageError(
            f"expected a coordinator URL such as file: or coterie://host:7420, got {url!r}"
        )
    if scheme not in SCHEMES:
        raise UsageError(
            f"unknown kind of coordinator: {scheme!r}; choose from: {', '.join(sorted(SCHEMES))}"
        )
    return scheme


def _configured_url() -> str | None:
    if not CONFIGURATION.exists():
        return None
    import tomllib  # noqa: PLC0415 - only where there is such a file

    try:
        document = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{CONFIGURATION}: {error}") from None
    url = document.get("url", f"coterie:{CONFIGURATION}" if "nodes" in document else None)
    if url is None:
        raise ConfigError(
            f"{CONFIGURATION} names neither nodes nor a url, so it does not say where the locks are: add a"
            ' table [nodes.NAME] for each node, or a line such as url = "file:"'
        )
    if isinstance(url, str):
        return url
    raise ConfigError(f"{CONFIGURATION}: url must be a string, got {url!r}")
