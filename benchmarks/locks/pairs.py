"""Our locks on a server beside that server's own: what the same server costs with either."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.locks.report import Report

# Ours, and what is used on the same server instead.
PAIRS = {
    "coterie-on-redis": ("redis", "redlock-3"),
    "coterie-on-etcd": ("etcd-3",),
    "coterie-on-zookeeper": ("zookeeper-3",),
    "coterie-on-postgresql": ("postgres",),
    "coterie-on-mariadb": ("mariadb",),
    "coterie-on-nats": ("nats",),
}
# Less CPU is better, more hand-offs are.
FIGURES = (
    ("fresh: CPU", "W1", "cpu_seconds"),
    ("CPU of the clients", "W1", "client_seconds"),
    ("hand-offs a second", "W3", "handoffs"),
    ("again a second", "W2", "operations"),
)


def compare_pairs(report: Report) -> list[str]:
    """Say for each pair that was measured how many times the peer's figures ours are."""
    lines = []
    for ours, peers in PAIRS.items():
        for peer in peers:
            times = [
                f"{what} {own / theirs:.2f}"
                for what, workload, figure in FIGURES
                if (own := report.middle(ours, workload, figure))
                and (theirs := report.middle(peer, workload, figure))
            ]
            if times:
                lines.append(f"{ours} in times of {peer}: {', '.join(times)}")
    return lines
