"""What is measured: closed loops of clients that take a lock and give it back."""

from __future__ import annotations

from typing import NamedTuple


class Workload(NamedTuple):
    key: str
    what: str
    clients: int
    names: int | None  # how many locks there are; None: a fresh one each time
    processes: int | None = None  # None: as many as the client library needs
    is_shared: bool = False  # the clients of one process share a connection if they can
    is_killing: bool = False  # a server is killed in the middle of it

    @property
    def is_contended(self) -> bool:
        """Whether clients may want the same lock."""
        return self.clients > 1


WORKLOADS = {
    workload.key: workload
    for workload in (
        Workload("W1", "one client, a fresh lock each time", 1, None),
        Workload("W2", "one client, the same lock again and again", 1, 1),
        Workload("W3", "eight clients fight for one lock", 8, 1),
        Workload(
            "W4",
            "64 clients of one process, 1,024 locks: ours are kept there",
            64,
            1024,
            1,
            is_shared=True,
        ),
        Workload("W4p", "64 clients of four processes, 1,024 locks", 64, 1024, 4, is_shared=True),
        Workload("W5", "W1, and a server is killed with -9", 1, None, is_killing=True),
    )
}
