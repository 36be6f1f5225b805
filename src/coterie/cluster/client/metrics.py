"""The figures of a program that takes locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.cluster.wire.frame_counts import frame_counts
from coterie.telemetry.text import Metric, Sample, counter, gauge, histogram

if TYPE_CHECKING:
    from coterie.cluster.client.engine import ClusterGroup
    from coterie.locks.deadlocks.waits import Waits


def participant_metrics(group: ClusterGroup, waits: Waits) -> list[Metric]:
    """Collect the figures of a program that takes locks."""
    host, tally = group.supply, group.tally
    held = sum(queue.holder is not None for queue in group.queues.values())
    seats, named = host.membership.seats, host.membership.at
    links = [
        Sample({"node": named(voter).name}, link.is_up)
        for voter, link in host.links.items()
        if voter in seats
    ]
    return [
        gauge("held", "Locks that this process holds.", held),
        gauge("kept", "Locks kept unused.", len(host.participant.cached)),
        gauge("waiting", "Tasks that wait.", len(group.waiting())),
        counter("acquisitions", "Locks acquired.", tally.waits.count),
        histogram("wait_seconds", "How long they were waited for.", [({}, tally.waits)]),
        histogram("hold_seconds", "How long they were held.", [({}, tally.holds)]),
        counter("losses", "Locks lost while held.", tally.losses),
        counter("deadlock_searches", "Searches for deadlocks.", waits.searches),
        counter("deadlocks", "Waits that were given up as deadlocked.", waits.victims),
        Metric("coterie_link_up", "gauge", "Whether a node is connected.", links),
        frame_counts("participant_messages", host.received, host.sent),
    ]
