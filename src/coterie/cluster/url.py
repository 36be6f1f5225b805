"""`coterie://a:7420,b:7420,c:7420`: a cluster, as a program names it.

After the nodes may stand `/CLUSTER`, to be sure which one answers, and `?secret-file=…`, `&ca=…`,
`&certificate=…`, `&key=…`, `&deadlock-detection=off` and `&witness=off`. What is not there is taken from the environment (COTERIE_SECRET,
COTERIE_SECRET_FILE, COTERIE_TLS_CA, COTERIE_TLS_CERTIFICATE, COTERIE_TLS_KEY). `coterie:FILE`
names the cluster of a configuration file instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from coterie.cluster.client.access import Visit
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import load, read_security
from coterie.cluster.wire.address import Address, parse_address
from coterie.errors import ConfigError, UsageError
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from coterie.cluster.membership.membership import Membership
    from coterie.locks.breaker import Breaker
    from coterie.locks.status import Source

DETECTION = "deadlock-detection"
WITNESS = "witness"
PARAMETERS = ("secret-file", "ca", "certificate", "key", DETECTION, WITNESS)


def parse_url(url: str) -> tuple[list[Address], str, dict[str, str]]:
    """Return the nodes, the name of the cluster (empty if not given) and the parameters."""
    shown = without_password(url)
    if "@" in url:
        raise UsageError(
            f"{shown}: a cluster has no users, so leave out what stands before the @ and set COTERIE_SECRET_FILE;"
            " in the name of a file write @ as %40"
        )
    try:
        parts = urlsplit(url)
        addresses = [parse_address(text) for text in parts.netloc.split(",") if text]
        parameters = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except (ConfigError, ValueError) as error:
        raise UsageError(f"{shown}: {error}") from None
    if not addresses:
        raise UsageError(f"{shown}: it names no nodes; write coterie://a:7420,b:7420,c:7420")
    for name in parameters:
        if name not in PARAMETERS:
            raise UsageError(
                f"{shown}: unknown parameter {name!r}; choose from: {', '.join(PARAMETERS)}"
            )
    for name in (DETECTION, WITNESS):
        if parameters.get(name, "on") not in ("on", "off"):
            raise UsageError(f"{shown}: {name} must be on or off, got {parameters[name]!r}")
    return addresses, unquote(parts.path).strip("/"), parameters


def make_engine(url: str) -> ClusterEngine:
    """Return the engine of a program that takes locks and does not vote."""
    if url.startswith("coterie://"):
        parameters = parse_url(url)[2]
        detects, witness = (parameters.get(name) != "off" for name in (DETECTION, WITNESS))
    else:
        config = load(url.removeprefix("coterie:"))
        detects, witness = config.deadlock_detection, config.witness
    return ClusterEngine(make_visit(url), deadlock_detection=detects, witness=witness)


async def learn_membership(url: str) -> Membership:
    """Return the nodes of a cluster and their rules: from its file, or from a node that answers."""
    if url.startswith("coterie://"):
        return await make_visit(url).learn()
    return load(url.removeprefix("coterie:")).membership


async def find_source(url: str) -> Source:
    """Return where the status of a cluster comes from: each kind of node is asked in another way."""
    membership = await learn_membership(url)
    if membership.algorithm is not None:
        from coterie.cluster.classic.status import ClassicSource  # noqa: PLC0415 - not for locks

        return ClassicSource(membership, make_visit(url).security)
    from coterie.cluster.admin.status import ClusterSource  # noqa: PLC0415 - as above

    return ClusterSource(make_visit(url))


def make_breaker(url: str) -> Breaker:
    """Return what ends holds on a cluster."""
    from coterie.cluster.admin.holds import ClusterBreaker  # noqa: PLC0415 - not for locks

    return ClusterBreaker(make_visit(url))


def make_operators_breaker(url: str) -> Breaker | None:
    """Return what ends holds on a cluster if we have an operator secret."""
    return make_breaker(url) if make_visit(url).security.operator_secret else None


def make_visit(url: str) -> Visit:
    """Return which nodes to call, and how to show that we belong there."""
    if not url.startswith("coterie://"):
        config = load(url.removeprefix("coterie:"))
        nodes = [member.address for member in config.membership.members]
        return Visit(nodes, config.membership.cluster, config.security)
    addresses, cluster, parameters = parse_url(url)

    def chosen(parameter: str, variable: str) -> str:
        return parameters.get(parameter) or os.environ.get(variable, "")

    secret = "" if "secret-file" in parameters else os.environ.get("COTERIE_SECRET", "")
    security = read_security(
        secret,
        chosen("secret-file", "COTERIE_SECRET_FILE"),
        ca=chosen("ca", "COTERIE_TLS_CA"),
        certificate=chosen("certificate", "COTERIE_TLS_CERTIFICATE"),
        key=chosen("key", "COTERIE_TLS_KEY"),
        operator_secret_file=os.environ.get("COTERIE_OPERATOR_SECRET_FILE", ""),
    )
    return Visit(addresses, cluster, security)
