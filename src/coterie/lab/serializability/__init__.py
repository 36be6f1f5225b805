"""Checkers of histories: is there a serial order with the same outcome, and if not, what is wrong?

`check` judges a `History`, whether it is one that states the versions of keys (a store that keeps a log of
them) or one of what clients saw alone (any other store). `coterie.transactions.history.parse_history`
reads one from JSON lines.
"""

from coterie.lab.serializability.checker import check
from coterie.lab.serializability.report import Anomaly, Dependency, Report

__all__ = ["Anomaly", "Dependency", "Report", "check"]
