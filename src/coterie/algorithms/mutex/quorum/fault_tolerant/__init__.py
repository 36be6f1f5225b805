"""The coterie algorithm of 1996: as published, and repaired, finished and proven."""

from coterie.algorithms.mutex.quorum.fault_tolerant.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.algorithms.mutex.quorum.fault_tolerant.published import Published

__all__ = ["ALGORITHM", "FaultTolerant", "Published"]
