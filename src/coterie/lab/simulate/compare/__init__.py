"""Measured costs beside those of theory, for any algorithm of the catalogue.

A message to oneself is free, and messages per entry are those of a run divided by its entries.
`coterie.lab.simulate.compare.sample` describes the runs. Over several seeds the messages per entry are a mean with
its confidence interval, and the delays the longest seen, since theory bounds them.

Under other conditions than the formulas assume, all costs are means with intervals; the formulas stand
beside them, and nothing is said about agreement.

Of an election the messages count, those sent to a dead process included: the highest process has
crashed, and one of the others notices, or all of them do.
"""

from coterie.lab.simulate.compare.comparison import (
    Comparison,
    ElectionComparison,
    LoadComparison,
)
from coterie.lab.simulate.compare.measure import (
    compare,
    compare_election,
    compare_load,
    election_messages,
)
from coterie.lab.simulate.compare.theory import Measure

__all__ = [
    "Comparison",
    "ElectionComparison",
    "LoadComparison",
    "Measure",
    "compare",
    "compare_election",
    "compare_load",
    "election_messages",
]
