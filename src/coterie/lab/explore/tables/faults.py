"""How many faults of each kind a search allows."""

from __future__ import annotations

from typing import NamedTuple


class Faults(NamedTuple):
    """How many of each kind may still happen."""

    crash: int = 0
    lose: int = 0
    duplicate: int = 0
    suspect: int = 0  # a live process reported as down to one that watches it
    restart: int = 0  # a crashed process begins again, without memory; once at most
