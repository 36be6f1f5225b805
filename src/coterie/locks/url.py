"""Where the locks are: the URL of a coordinator. Without an event loop, for commands that start often."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

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
PATHS = ("file", "coterie")  # without // a path follows, which may have an @
# Parameters whose values are no secrets: switches, numbers, and names of files.
SHOWN_PARAMETERS = frozenset(
    [
        "ca",
        "certificate",
        "connections",
        "deadlock-detection",
        "key",
        "lease",
        "secret-file",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "witness",
    ]
)
HIDDEN = "…"
CONFIGURATION = "coterie.toml"
DEFAULT_URL = "file:"


def choose_url(url: str | None = None) -> str:
    """Find the URL: what is given, then the environment, then the file, then this machine."""
    return url or os.environ.get("COTERIE_URL") or _configured_url() or DEFAULT_URL


def without_password(url: str) -> str:
    """Return a URL as it may be shown: without the user, the password and parameters that may be secret.

    An @ after the first /, ? or # leaves open where the password ends. Nothing behind the scheme is shown
    then, because each guess shows half of some password.
    """
    scheme, colon, rest = url.partition(":")
    if scheme.lower() in PATHS and (not rest.startswith("//") or rest.startswith("///")):
        return url
    if "@" in scheme:
        return HIDDEN
    if not rest.startswith("//"):
        return f"{scheme}:{HIDDEN}" if colon else url
    hosts, tail = _split_authority(rest[2:])
    hosts = hosts.rpartition("@")[2]
    if "@" in tail or not scheme or not all(map(_is_address, hosts.split(","))):
        return f"{scheme}://{HIDDEN}"
    path, mark, query = tail.partition("#")[0].partition("?")
    return f"{scheme}://{hosts}{path}{mark}{'&'.join(map(_shown_parameter, query.split('&')))}"


def split_server_url(url: str) -> SplitResult:
    """Take the URL of a server apart; raise a `UsageError` that shows no password where that is not possible."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - not for locks of this machine

    shown = without_password(url)
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if "://" in shown and not shown.endswith(f"://{HIDDEN}"):
            return parts
    raise UsageError(
        f"{shown}: expected SCHEME://USER:PASSWORD@HOST:PORT/PATH?NAME=VALUE; in USER, PASSWORD, PATH and"
        " VALUE write % / ? # @ [ ] as %25 %2F %3F %23 %40 %5B %5D"
    )


def _split_authority(text: str) -> tuple[str, str]:
    """Split what follows // where the user, the password and the hosts end."""
    end = min((place for mark in "/?#" if (place := text.find(mark)) >= 0), default=len(text))
    return text[:end], text[end:]


def _is_address(text: str) -> bool:
    """Return whether it looks like a host and a port; otherwise it may be a user and a password."""
    host, bracket, port = text.rpartition("]") if text.startswith("[") else text.partition(":")
    return port.removeprefix(":").isdecimal() or (not port and (bool(bracket) or host == text))


def _shown_parameter(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not text or name in SHOWN_PARAMETERS:
        return text
    return f"{name}={HIDDEN}" if equals else HIDDEN


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
            "expected a coordinator URL such as file: or coterie://host:7420,"
            f" got {without_password(url)!r}"
        )
    if scheme not in SCHEMES:
        shown = HIDDEN if "@" in scheme else scheme
        raise UsageError(
            f"unknown kind of coordinator: {shown!r}; choose from: {', '.join(sorted(SCHEMES))}"
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
    raise ConfigError(f"{CONFIGURATION}: url must be a string, got a {type(url).__name__}")
