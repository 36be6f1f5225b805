"""Voting by replicas in a distributed hash table: where they are, how many votes, what it costs."""

from coterie.algorithms.mutex.quorum.decentralized.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.quorum.decentralized.retry import Decentralized

__all__ = ["ALGORITHM", "Decentralized"]
