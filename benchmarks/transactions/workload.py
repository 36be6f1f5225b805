"""What is measured: transfers between accounts, of which some are asked for more than others."""

from __future__ import annotations

import random
from typing import NamedTuple

from coterie.lab.trials.workloads import Zipf

ACCOUNTS = 1000
CLIENTS = 8
DEPOSIT = 1_000_000
THETAS = (0.0, 0.8, 0.99)
PAUSES = {"none": 0.0, "1ms": 0.001}  # of a client between its reads and its writes, in seconds


class Transfer(NamedTuple):
    """What one transaction does: read both accounts, pause, write both."""

    giver: int
    taker: int
    amount: int


def transfers(theta: float, count: int, seed: int) -> list[Transfer]:
    """Draw so many transfers of one client, before anything is measured."""
    zipf, dice = Zipf(ACCOUNTS, theta), random.Random(seed)
    return [Transfer(*zipf.pair(dice), dice.randint(1, 10)) for _ in range(count)]
