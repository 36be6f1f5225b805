"""Maekawa's algorithm over any coterie: the rules that work, and three sets that do not."""

from coterie.algorithms.mutex.quorum.maekawa.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.quorum.maekawa.displaced import AsSurveyed, Basic, Deferred, Displaced
from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa

__all__ = ["ALGORITHM", "AsSurveyed", "Basic", "Deferred", "Displaced", "Maekawa"]
