"""What an exploration answers, and what it says while it works."""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.trace import Trace


class Verdict(msgspec.Struct, kw_only=True):
    """The answer of an exploration.

    "verified" means that every reachable state was seen and none breaks a property; "vacuous" the
    same, but that nothing happened that could have gone wrong, so that nothing was shown; "unfinished"
    that a budget ran out before, with nothing found. Unless the search was exact, states are told
    apart by 64-bit hashes, and two of them may have been taken for one with the probability given.
    """

    verdict: Literal["verified", "violated", "unfinished", "vacuous"]
    property: str | None = None  # the violated one
    reason: str  # one sentence
    states: int
    transitions: int
    depth: int  # steps to the farthest state seen, or of the counterexample
    seconds: float
    collision_probability: float  # at most
    sometimes: dict[str, bool] = {}  # which of these were reached
    liveness: str = ""  # what every fair run comes to, if it was verified
    overtaking: int | Literal["unbounded"] | None = None
    """How often others enter during one wait, at most; None where it was not decided."""
    counterexample: Trace | None = None


def all_hold(states: int) -> str:
    """Say that nothing is wrong with so many states, which are all."""
    return f"every property holds in all {states:,} reachable states"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an exploration has come."""

    states: int
    transitions: int
    depth: int
    seconds: float
    states_per_second: float
    room: int | None = (
        None  # about how many states fit into the memory of the device, if one is used
    )
