"""A program that votes: a node and a coordinator in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.cluster.join import join as join_cluster
from coterie.tasks.coordinator import Coordinator

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from coterie.cluster.membership.config import Config
    from coterie.telemetry.observer import Observer


def join(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    node: str,
    new_cluster: bool = False,
    observers: Sequence[Observer] = (),
) -> Coordinator:
    """Return a coordinator that is at the same time the voting node of that name.

    Args:
        config: A configuration, a mapping of its shape, or the path of a `coterie.toml`; by
            default COTERIE_CONFIG, then `coterie.toml` here.
        node: Which of its nodes this process is.
        new_cluster: Vote at once at the very first start, where a node that may have voted before
            waits for one lease; the caller vouches that no program holds a lock.
        observers: Are told of the locks of this program, as in `coterie.connect`.
    """
    inner = join_cluster(config, node=node, new_cluster=new_cluster, observers=observers)
    return Coordinator(inner)
