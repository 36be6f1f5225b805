"""Levels of isolation below serializability: which of them a history still keeps.

`judge_levels` decides each level of `LEVELS` for a `History`, and with sessions the guarantees of
`GUARANTEES` as well.
"""

from coterie.lab.isolation.levels import GUARANTEES, LEVELS, judge_levels

__all__ = ["GUARANTEES", "LEVELS", "judge_levels"]
