"""Where the locks are: the URL of a coordinator. Without an event loop, for commands that start often."""

from __future__ import annotations

import os

from coterie.errors import ConfigError, UsageError

# The module of each scheme has `make_engine(url)`.
SCHEMES = {
    "coterie": "coterie.cluster.url",
    "etcd": "coterie.engines.etcd",
    "etcds": "coterie.engines.etcd",
    "file": "coterie.engines.file.engine",
    "postgres": "coterie.engines.postgresql",
    "postgresql": "coterie.engines.postgresql",
    "redis": "coterie.engines.redis",
    "rediss": "coterie.engines.redis",
    "valkey": "coterie.engines.redis",
    "valkeys": "coterie.engines.redis",
    "zookeeper": "coterie.engines.zookeeper",
    "zookeepers": "coterie.engines.zookeeper",
}
CONFIGURATION = "coterie.toml"
DEFAULT_URL = "file:"


def choose_url(url: str | None = None) -> str:
    """Find the URL: what is given, then the environment, then the file, then this machine."""
    return url or os.environ.get("COTERIE_URL") or _configured_url() or DEFAULT_URL


def without_password(url: str) -> str:
    """Return a URL as it may be shown: without the user and the password in it."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def url_of(path: os.PathLike[str]) -> str:
    """Return the URL of the locks at a path: a directory of locks, or the file of a cluster."""
    text = os.fspath(path)
    if text.endswith(".toml"):
        return f"coterie:{text}"
    return f"file:{os.path.abspath(text).replace('%', '%25')}"  # noqa: PTH100 - as below


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
    if not os.path.exists(CONFIGURATION):  # noqa: PTH110 - pathlib takes long to import
        return None
    import tomllib  # noqa: PLC0415 - only where there is such a file
    from pathlib import Path  # noqa: PLC0415 - as above

    try:
        document = tomllib.loads(Path(CONFIGURATION).read_text(encoding="utf-8"))
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
