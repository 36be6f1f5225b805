"""Voters and participants of the leased lock in one time, each with a clock that runs at a rate of its own.

Frames are lost or come twice, voters crash and start again with their disk, and timers ring late. Rates, and
the moments at which something happens, are such that a time on a clock is converted without rounding.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.prove.timed_walk import TimedWalk, Timing
from coterie.lab.prove.worlds.leased import Watched

RATE_ERROR = Fraction(1, 4)
RATES = (Fraction(3, 4), Fraction(5, 4), Fraction(1))
GRAIN = Fraction(1, 64)  # of time, so that each clock shows a number of 1/256
PASSES = (4 * GRAIN, 16 * GRAIN, 64 * GRAIN)  # so much time may pass between two steps
LEASE = 4

TIMES: dict[str, Any] = {
    "policy": "all",
    "lease": float(LEASE),
    "rate_error": float(RATE_ERROR),
    "margin": float(GRAIN),
    "heartbeat": 1.0,
    "hedge": 0.25,
    "unwind": 4.0,
    "interval": 2,
    "reserve": 3,
}


def clocked(voters: int, alone: int, sharing: int) -> list[Watched]:
    """Make voters 1 and up, and participants after them, with clocks as different as they may be."""
    configuration = founding(Settings(voters, **TIMES))
    made = []
    for me in range(1, voters + alone + sharing + 1):
        votes = me <= voters
        rate = RATES[me % len(RATES)]
        made.append(
            Watched(
                me,
                participant(configuration, (me - 1) % voters + 1),
                Voter(configuration) if votes else None,
                origin=configuration if votes else None,
                rate=(rate.numerator, rate.denominator),
                shares=me > voters + alone,
            )
        )
    return made


clocked_walk = partial(
    TimedWalk,
    Timing(PASSES, clock=Watched.reads, losses=6, doubles=6, restart=Watched.restart),
)
