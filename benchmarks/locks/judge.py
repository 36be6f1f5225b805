"""From samples to numbers: speed, waiting, fairness, exclusion, and the gap after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Samples: TypeAlias = "npt.NDArray[np.float64]"  # rows as `worker` writes them

CLIENT, LOCK, ASKED, ENTERED, LEAVING, LEFT = range(6)


class Service(NamedTuple):
    """How eight clients were served who want the same lock."""

    handoffs: int  # entries by another client than the one before
    fairness: float  # the least served over the most served


def within(samples: Samples, begin: float, end: float) -> Samples:
    """Give the operations that ended in a window."""
    return samples[(samples[:, LEFT] >= begin) & (samples[:, LEFT] <= end)]


def waits(samples: Samples) -> Samples:
    """Give how long each acquire took."""
    waited: Samples = samples[:, ENTERED] - samples[:, ASKED]
    return waited


def overlaps(samples: Samples) -> int:
    """Count those who entered a lock before the last one had begun to leave it."""
    ordered = samples[np.lexsort((samples[:, ENTERED], samples[:, LOCK]))]
    same_lock = ordered[1:, LOCK] == ordered[:-1, LOCK]
    too_early = ordered[1:, ENTERED] < ordered[:-1, LEAVING]
    return int(np.count_nonzero(same_lock & too_early))


def service(samples: Samples, clients: int) -> Service:
    """Look at the order of entry."""
    who = samples[np.argsort(samples[:, ENTERED]), CLIENT].astype(int)
    served = np.bincount(who, minlength=clients)
    return Service(
        int(np.count_nonzero(who[1:] != who[:-1])), float(served.min() / max(1, served.max()))
    )


def longest_gap(samples: Samples, since: float, until: float) -> float:
    """Give the longest time without an entry that ends after `since`, up to `until`."""
    entered = np.sort(samples[:, ENTERED])
    before = entered[entered <= since]
    edges = [before[-1] if len(before) else since, *entered[entered > since], until]
    # What follows the last entry is a gap only if the end of the run did not cut it off.
    gaps = np.diff(edges)
    return float(gaps[:-1].max() if len(gaps) > 1 else gaps[0])
