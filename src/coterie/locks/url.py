"""Where the locks are: the URL of a coordinator. Without an event loop, for commands that start often."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from urllib.parse import SplitResult

# The module of each scheme has `make_engine(url)`. Installed packages offer others, by entry points of this group,
# but none in the place of one of these.
ENGINES = "coterie.engines"
SCHEMES = {
    "coterie": "coterie.cluster.url",
    "etcd": "coterie.engines.etcd",
    "etcds": "coterie.engines.etcd",
    "file": "coterie.engines.file.engine",
    "mariadb": "coterie.engines.mariadb",
    "mariadbs": "coterie.engines.mariadb",
    "mysql": "coterie.engines.mariadb",
    "mysqls": "coterie.engines.mariadb",
    "nats": "coterie.engines.nats",
    "natss": "coterie.engines.nats",
    "postgres": "coterie.engines.postgresql",
    "postgresql": "coterie.engines.postgresql",
    "redis": "coterie.engines.redis",
    "redis+sentinel": "coterie.engines.redis",
    "rediss": "coterie.engines.redis",
    "rediss+sentinel": "coterie.engines.redis",
    "s3": "coterie.engines.s3",
    "s3s": "coterie.engines.s3",
    "valkey": "coterie.engines.redis",
    "valkey+sentinel": "coterie.engines.redis",
    "valkeys": "coterie.engines.redis",
    "valkeys+sentinel": "coterie.engines.redis",
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
        "region",
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
    if scheme not in SCHEMES and scheme not in installed_engines():
        shown = HIDDEN if "@" in scheme else scheme
        known = sorted({*SCHEMES, *installed_engines()})
        raise UsageError(f"unknown kind of coordinator: {shown!r}; choose from: {', '.join(known)}")
    return scheme


@functools.cache
def installed_engines() -> dict[str, EntryPoint]:
    """Return what installed packages offer, by scheme; nothing is imported."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes long, and is rarely asked

    return {point.name: point for point in entry_points(group=ENGINES)}


def engine_of_url(url: str) -> Any:
    """Make the engine that a URL names, by the module of its scheme."""
    import importlib  # noqa: PLC0415 - a lock of this machine does without

    scheme = scheme_of(url)
    if scheme in SCHEMES:
        return importlib.import_module(SCHEMES[scheme]).make_engine(url)
    point = installed_engines()[scheme]
    try:
        make = point.load().make_engine
    except Exception as error:  # noqa: BLE001 - a package may raise anything
        raise ConfigError(
            f"{point.value}, which is installed for {scheme}: URLs, cannot be used: {error}"
        ) from None
    return make(url)


def read_trusted(path: str) -> bytes:
    """Read a file of the current directory that was not asked for by name.

    A user who can write it can send our locks elsewhere, where they exclude no other program. Raise
    `ConfigError` if that is one besides ourselves and root. It is not passed over: then our locks would be elsewhere, too.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe of that name would stop us
    doubt = ""
    with os.fdopen(os.open(path, flags), "rb") as file:
        if hasattr(os, "geteuid"):
            doubt = _doubt(os.lstat(path)) or _doubt(os.fstat(file.fileno()))
        if doubt:
            raise ConfigError(
                f"{path} of the current directory {doubt}, so it is not believed: name the coordinator by"
                f" --url or COTERIE_URL (coterie:{path} if you trust the file), or let only its owner write it"
            )
        return file.read()


def _doubt(found: os.stat_result) -> str:
    """Say which other user can write a file; empty if none can."""
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to another user (uid {found.st_uid})"
    if stat.S_ISLNK(found.st_mode):  # whose mode means nothing; where it leads is looked at, too
        return ""
    if found.st_mode & 0o002:
        return "can be written by all users"
    if found.st_mode & 0o020 and not _is_private_group(found.st_gid, found.st_uid):
        return f"can be written by a group (gid {found.st_gid})"
    return ""


def _is_private_group(group: int, user: int) -> bool:
    """Return whether a group is for one user alone: many systems have one for each, with a umask of 002."""
    import grp  # noqa: PLC0415 - seldom needed
    import pwd  # noqa: PLC0415 - as above

    try:
        name, entry = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and {name}.issuperset(entry.gr_mem)


def _configured_url() -> str | None:
    if not os.path.exists(CONFIGURATION):  # noqa: PTH110 - pathlib takes long to import
        return None
    import tomllib  # noqa: PLC0415 - only where there is such a file

    try:
        document = tomllib.loads(read_trusted(CONFIGURATION).decode())
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
