"""`coterie.toml`: the nodes of a cluster, the rules they share, and how they know each other.

    cluster = "orders"
    secret-file = "secret"      # or [tls] with ca, certificate and key; paths from this file's place
    data = "data"               # each node has a directory in it
    lease = 10                  # seconds

    [nodes.a]
    address = "a.example:7420"
    store = "a.example:7421"    # where its site of the store is reached, if there is one

    [store]
    scheme = "two-phase-locking"

What the environment says beats the file, and what a flag says beats both.
"""

from __future__ import annotations

import logging
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.mutex.quorum.leased.settings import Policy, Settings
from coterie.catalogue import find
from coterie.cluster.membership.membership import Choice, Member, Membership, check_times
from coterie.cluster.wire.address import Address, parse_address, parse_metrics_address
from coterie.cluster.wire.local_node import LocalNode
from coterie.cluster.wire.security import Security, read_secret
from coterie.coteries import parse_coterie
from coterie.errors import ConfigError, UsageError
from coterie.locks.names import check_plain_name
from coterie.locks.url import read_trusted
from coterie.process import Election, Mutex

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PATH = "coterie.toml"
ASK_ALL_VOTERS_MAX = 5
LEASED = "leased"

logger = logging.getLogger("coterie.cluster")


class TlsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[tls]`."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


class NodeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[nodes.NAME]`."""

    address: str  # where others reach it
    votes: int = 1
    listen: str | None = None  # where it listens, if that is another address
    metrics: str | None = None  # where it shows its metrics
    data: str | None = None
    store: str | None = None  # where its site of the store is reached


class StoreFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[store]`: how transactions are kept apart at all sites."""

    scheme: str = "two-phase-locking"
    variant: str | None = None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The file as it is written."""

    nodes: dict[str, NodeFile]
    cluster: str = "coterie"
    url: str | None = None  # for programs that connect without one
    algorithm: str = LEASED
    variant: str | None = None
    parameters: dict[str, str] = {}
    coterie: str | None = None
    policy: Policy | None = None
    lease: float = 10.0
    rate_error: float = 0.005
    margin: float = 0.25
    heartbeat: float | None = None
    hedge: float | None = None
    lock_delay: float = 0.0
    deadlock_detection: bool = True  # by the programs that read this file
    witness: bool = True  # nodes and programs see the end of others on their machines
    data: str | None = None
    secret_file: str | None = None
    operator_secret_file: str | None = None
    tls: TlsFile | None = None
    store: StoreFile = StoreFile()


class NodeOptions(msgspec.Struct, frozen=True):
    """What concerns one node alone."""

    listen: Address
    metrics: Address | None = None
    data: Path | None = None  # None: nothing is kept over a restart
    store: Address | None = None  # of its site of the store, if there is one


class Config(msgspec.Struct, frozen=True):
    """Everything about a cluster, checked."""

    membership: Membership
    security: Security
    nodes: dict[str, NodeOptions]
    deadlock_detection: bool = True
    store: StoreFile = StoreFile()
    witness: bool = True
    contacts: tuple[
        Address, ...
    ] = ()  # where nodes may be found beside the addresses of its members

    def options(self, name: str) -> NodeOptions:
        """Return what concerns one node."""
        if name not in self.nodes:
            self.membership.voter(name)  # says which there are
        return self.nodes[name]

    def local_node(self, name: str) -> LocalNode:
        """Return what the connections of one node need."""
        membership, options = self.membership, self.options(name)
        return LocalNode(
            name,
            options.listen,
            {member.name: member.address for member in membership.members},
            membership.settings.lease,
            self.security,
            membership.credentials(self.security.secret_bytes()),
            is_diskless=membership.algorithm is None and options.data is None,
        )


def load(path: str | Path | None = None, flags: Mapping[str, str] | None = None) -> Config:
    """Return the configuration of the file given, or COTERIE_CONFIG, or `coterie.toml` here.

    `flags` are variables of the environment that the command line has set.
    """
    environment = os.environ | dict(flags or {})
    named = path or environment.get("COTERIE_CONFIG")
    path = Path(named or DEFAULT_PATH)
    try:
        content = path.read_bytes() if named else read_trusted(DEFAULT_PATH)
        document = tomllib.loads(content.decode())
        written = msgspec.convert(document, ConfigFile)
    except FileNotFoundError:
        raise ConfigError(f"no such file: {path} (`coterie serve --dev 3` needs none)") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_in_words(error)}") from None
    try:
        return check(written, path.parent, environment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _in_words(error: msgspec.ValidationError) -> str:
    """Return the error in the words of the file, without the path notation of the library."""
    what, _, where = str(error).partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {what}" if where else what


def check(written: ConfigFile, folder: Path, environment: Mapping[str, str]) -> Config:
    """Return the checked configuration; relative paths start at `folder`."""
    if not written.nodes:
        raise ConfigError(
            "the configuration has no nodes: add a table [nodes.NAME] with an address"
        )
    try:
        membership = _membership(written)
    except UsageError as error:
        raise ConfigError(str(error)) from None
    options = {name: _options(name, written, folder, environment) for name in written.nodes}
    if len({option.data is None for option in options.values()}) > 1:
        # Numbers of disks run ahead of the time of day with every crash, and those without follow.
        raise ConfigError("give either all nodes a data directory or none")
    return Config(
        membership,
        _security(written, folder, environment),
        options,
        written.deadlock_detection,
        written.store,
        written.witness,
    )


def _membership(written: ConfigFile) -> Membership:
    members = tuple(
        Member(check_plain_name(name, of="node"), parse_address(node.address))
        for name, node in written.nodes.items()
    )
    if len({member.address for member in members}) < len(members):
        raise ConfigError("two nodes have the same address")
    choice = None
    if written.algorithm != LEASED:
        parameters = tuple(sorted(written.parameters.items()))
        choice = Choice(written.algorithm, written.variant, parameters)
        chosen = find(choice.name)
        chosen.setup(len(members), choice.variant, written.parameters)
        if not issubclass(chosen.process, Mutex | Election):
            raise ConfigError(f"{choice.name} neither grants locks nor elects a leader")
    cluster = check_plain_name(written.cluster, of="cluster")
    return Membership(cluster, members, _settings(written), choice)


def _settings(written: ConfigFile) -> Settings:
    votes = [node.votes for node in written.nodes.values()]
    if min(votes) < 1:
        raise ConfigError("votes must be at least 1")
    coterie = written.coterie or "majority"
    if max(votes) > 1:
        if written.coterie:
            raise ConfigError(
                "votes choose weighted voting: remove either the votes or the coterie"
            )
        coterie = "weighted:" + ",".join(map(str, votes))
    counting = coterie == "majority" or coterie.startswith("weighted")
    ask_all = counting and len(votes) <= ASK_ALL_VOTERS_MAX
    lease = written.lease
    settings = Settings(
        voters=len(votes),
        coterie=coterie,
        policy=written.policy or ("all" if ask_all else "quorum"),
        lease=lease,
        rate_error=written.rate_error,
        margin=written.margin,
        heartbeat=lease / 4 if written.heartbeat is None else written.heartbeat,
        hedge=lease / 5 if written.hedge is None else written.hedge,
        unwind=lease,
        lock_delay=written.lock_delay,
    )
    check_times(settings)
    parse_coterie(coterie, len(votes))
    return settings


def _security(written: ConfigFile, folder: Path, environment: Mapping[str, str]) -> Security:
    def chosen(name: str, in_file: str | None) -> str:
        named = str(folder / in_file) if in_file else ""
        overriding = environment.get(name) or named
        if named and overriding != named:
            logger.info(
                "%(name)s=%(path)s is used, and not %(named)s of the configuration",
                {"name": name, "path": overriding, "named": named},
                extra={"event": "environment-overrides"},
            )
        return overriding

    tls = written.tls or TlsFile()
    return read_security(
        environment.get("COTERIE_SECRET", ""),
        chosen("COTERIE_SECRET_FILE", written.secret_file),
        ca=chosen("COTERIE_TLS_CA", tls.ca),
        certificate=chosen("COTERIE_TLS_CERTIFICATE", tls.certificate),
        key=chosen("COTERIE_TLS_KEY", tls.key),
        operator_secret_file=chosen("COTERIE_OPERATOR_SECRET_FILE", written.operator_secret_file),
    )


def read_security(
    secret: str,
    secret_file: str,
    *,
    ca: str,
    certificate: str,
    key: str,
    operator_secret_file: str = "",
) -> Security:
    """Return what shows that we belong to a cluster; raise `ConfigError` if it cannot be used."""
    operator_secret, operator_trouble = "", ""
    if operator_secret_file:
        try:
            operator_secret = read_secret(operator_secret_file)
        except ConfigError as error:  # a program does without
            operator_trouble = str(error)
    security = Security(
        secret or (read_secret(secret_file) if secret_file else ""),
        ca,
        certificate,
        key,
        operator_secret,
        operator_trouble,
        tuple(filter(None, ("" if secret else secret_file, operator_secret_file))),
    )
    security.secret_bytes()
    if not operator_trouble:
        security.operator_bytes()
    security.client_context()
    return security


def _options(
    name: str, written: ConfigFile, folder: Path, environment: Mapping[str, str]
) -> NodeOptions:
    node = written.nodes[name]
    data: Path | None = None
    if environment.get("COTERIE_DATA"):
        data = Path(environment["COTERIE_DATA"]).absolute() / name
    elif node.data:
        data = folder / node.data
    elif written.data:
        data = folder / written.data / name
    return NodeOptions(
        parse_address(node.listen or node.address),
        parse_metrics_address(node.metrics) if node.metrics else None,
        data,
        parse_address(node.store, None) if node.store else None,
    )


def convert(document: Mapping[str, Any], folder: Path = Path()) -> Config:
    """Return the configuration in a mapping of the same shape as the file."""
    try:
        written = msgspec.convert(document, ConfigFile)
    except msgspec.ValidationError as error:
        raise ConfigError(_in_words(error)) from None
    return check(written, folder, os.environ)
