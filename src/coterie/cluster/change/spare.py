"""A node that joins a running cluster: a spare, until a command makes it a voter.

Its data directory remembers the cluster beside what the voter saves. So the same command line starts
it again when it is a voter, whatever has become of the nodes that it joined by.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.algorithms.mutex.quorum.leased.saved import read_saved
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.membership.config import Config, NodeOptions
from coterie.cluster.membership.discovery import is_served, newest
from coterie.cluster.membership.membership import Membership
from coterie.cluster.membership.proof import Prover, UnprovenError
from coterie.cluster.runtime.durable import replace
from coterie.cluster.voter.storage import Storage
from coterie.errors import ConfigError, NotFormed, Unavailable, UsageError
from coterie.locks.names import check_plain_name

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.client.access import Visit
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.security import Security

REMEMBERED = "cluster"  # the file in the data directory
RETRY_SECONDS = 0.5

logger = logging.getLogger("coterie.cluster")


class Location(NamedTuple):
    """Where a node runs."""

    node: str
    listen: Address
    data: Path
    metrics: Address | None = None


async def spare_config(place: Location, visit: Visit) -> Config:
    """Return the configuration of a node that joins, or that is a voter since it has joined.

    It waits until a node of that cluster answers and it has a number. Raises `ConfigError` if it can
    never have one.
    """
    name = check_plain_name(place.node, of="node")
    storage = Storage(place.data)
    storage.open()  # draws the identity, and keeps out another process that runs the node
    try:
        membership = await _membership(place, visit, storage)
    finally:
        storage.close()
    options = NodeOptions(place.listen, place.metrics, place.data)
    return Config(membership, visit.security, {name: options}, contacts=tuple(visit.addresses))


async def _membership(place: Location, visit: Visit, storage: Storage) -> Membership:
    path = place.data / REMEMBERED
    saved = read_saved(storage.load()[0])
    known = _remembered(path)
    if saved.configuration is not None and known is not None:
        return known.after(saved.configuration)  # its own disk says more than others may know
    if saved.configuration is not None or saved.bound:
        raise ConfigError(
            f"{place.data} is the data directory of a node that has its voters from a file: start it"
            " with --config, or join with an empty directory"
        )
    try:
        learnt = await _learn_when_formed(place, visit, known)
    except Unavailable as error:
        assert known is not None, "without that it waits for an answer"
        logger.warning(
            "node %(node)s goes by what it knew when it ended: %(reason)s",
            {"node": place.node, "reason": error},
            extra={"event": "membership-recalled"},
        )
        return known
    replace(path, msgspec.msgpack.encode(learnt))
    return learnt


async def _learn(place: Location, visit: Visit, known: Membership | None) -> Membership:
    """Ask for the configuration of the cluster that the data directory belongs to, if it is not new."""
    answers = await visit.ask_around()
    identity = known.configuration.cluster_identity if known else ""
    learnt = newest(answers, identity)
    if known is None or not known.configuration.is_foreign(learnt.configuration):
        return learnt
    if is_served(answers):
        raise ConfigError(
            f"{place.data} is the data directory of a spare of another installation of cluster"
            f" {learnt.cluster!r}: join with an empty directory"
        )
    # One node with a disk of another installation may be up before the others.
    raise Unavailable(f"only nodes of another installation of cluster {learnt.cluster!r} answer")


async def _learn_when_formed(place: Location, visit: Visit, known: Membership | None) -> Membership:
    """Ask until the cluster has a number, and say what it lacks.

    A node that has known one waits for no answer: what it knew may do.
    """
    said = ""
    while True:
        try:
            learnt = await _learn(place, visit, known)
            _check_algorithm(learnt)
            if learnt.decided is not None:
                _check_proof(learnt, visit.security)
                return learnt
            await forming_goal(learnt, visit.security, commanded=False)
            reason = "all its nodes are there"
        except NotFormed as error:
            reason = str(error)
        except Unavailable as error:
            if known is not None:
                raise
            reason = str(error)
        if reason != said:
            said = reason
            logger.warning(
                "node %(node)s waits until the cluster that it joins is formed: %(reason)s",
                {"node": place.node, "reason": reason},
                extra={"event": "spare-waits"},
            )
        await asyncio.sleep(RETRY_SECONDS)


def _remembered(path: Path) -> Membership | None:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Membership)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is damaged: {error}; join with an empty directory") from None


def _check_proof(membership: Membership, security: Security) -> None:
    """Raise `ConfigError` if no node vouches for it that has the operator secret."""
    try:
        Prover(membership.cluster, security).check(membership.configuration)
    except UnprovenError as error:
        raise ConfigError(f"cluster {membership.cluster!r} cannot be joined: {error}") from None


def _check_algorithm(membership: Membership) -> None:
    cluster = f"cluster {membership.cluster!r}"
    if membership.algorithm is not None:
        raise UsageError(
            f"{cluster} runs {membership.algorithm.name}: the nodes of a classic algorithm are fixed"
        )
