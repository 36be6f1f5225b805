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
from coterie.locks.coordinator import Coordinator
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
    """Return a coordinator that is at the same time the voting node of that name. See `coterie.join`."""
    if isinstance(config, Mapping):
        config = convert(config)
    elif not isinstance(config, Config):
        config = load(None if config is None else Path(config))
    name = f"coterie:{config.membership.cluster}/{node}"
    if config.membership.algorithm is not None:
        chosen = find(config.membership.algorithm.name)
        elects = issubclass(chosen.process, Election)
        engine = (ElectionEngine if elects else ClassicEngine)(config, node)
        return Coordinator(engine, name, observers=observers)
    seat = MemberAccess(config, node, new_cluster=new_cluster)
    leased = ClusterEngine(seat, deadlock_detection=config.deadlock_detection)
    return Coordinator(leased, name, observers=observers)
