"""A program that votes: a node and a coordinator in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.catalogue import find
from coterie.cluster.classic.election import ElectionEngine
from coterie.cluster.classic.engine import ClassicEngine
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.member import MemberAccess
from coterie.cluster.membership.config import Config, convert, load
from coterie.locks.coordinator import Coordinator, ElectionCoordinator
from coterie.process import Election

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from coterie.telemetry.observer import Observer


def join(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    node: str,
    new_cluster: bool = False,
    observers: Sequence[Observer] = (),
) -> Coordinator:
    """Return a coordinator that is at the same time the voting node of that name.

    For a cluster whose algorithm elects a leader it is an `ElectionCoordinator`.

    Args:
        config: A configuration, a mapping of its shape, or the path of a `coterie.toml`; by
            default COTERIE_CONFIG, then `coterie.toml` here.
        node: Which of its nodes this process is.
        new_cluster: Vote at once at the very first start, where a node that may have voted before
            waits for one lease; the caller vouches that no program holds a lock.
        observers: Are told of the locks of this program, as in `coterie.connect`.
    """
    if isinstance(config, Mapping):
        config = convert(config)
    elif not isinstance(config, Config):
        config = load(None if config is None else Path(config))
    name = f"coterie:{config.membership.cluster}/{node}"
    if config.membership.algorithm is not None:
        chosen = find(config.membership.algorithm.name)
        if issubclass(chosen.process, Election):
            return ElectionCoordinator(ElectionEngine(config, node), name, observers)
        return Coordinator(ClassicEngine(config, node), name, observers=observers)
    seat = MemberAccess(config, node, new_cluster=new_cluster)
    leased = ClusterEngine(
        seat, deadlock_detection=config.deadlock_detection, witness=config.witness
    )
    seat.failed = leased.fail
    return Coordinator(leased, name, observers=observers)
