"""Ending the hold of a program that is alive and does not give its lock back: what `coterie break` asks for.

Each kind of service has its own way: a cluster by its nodes (`cluster.admin.holds`), a server that keeps queues by a
letter to the program (`engines.queue.breaker`), a directory of this machine by a file (`engines.file.breaker`).
"""

from __future__ import annotations

import importlib
from typing import Protocol

import msgspec

from coterie.locks.engine import LockState
from coterie.locks.url import SCHEMES, engine_of_url, scheme_of

BROKEN = "an operator has ended it with coterie break"  # the reason of the loss
TOKEN_MAX = 2**63 - 1


class FoundHold(msgspec.Struct, frozen=True):
    """A lock, and whose holds of it were seen."""

    state: LockState
    participants: tuple[str, ...]  # their identities; none: the lock is not held
    troubles: dict[str, str] = {}  # why nodes could not be asked, by name

    @property
    def token(self) -> int:
        """The last one of the holds; of a program that does not answer it is not known."""
        if self.state.silent:
            return TOKEN_MAX
        return max((party.token or 0 for party in self.state.holders), default=0)


class EndedHolds(msgspec.Struct, frozen=True):
    """What has become of the holds, each by its program as people find it."""

    told: tuple[str, ...] = ()  # were told, and have given the lock back or do so at once
    ended: tuple[str, ...] = ()  # do not answer: what was done to them in their absence, in words
    failed: tuple[str, ...] = ()  # do not answer, and keep the lock: what to do, in words
    troubles: dict[str, str] = {}  # why nodes could not be asked, by name


class Breaker(Protocol):
    """Ends holds at the locks of one URL."""

    async def find(self, lock: str) -> FoundHold:
        """Look which programs hold a lock."""

    async def end(self, found: FoundHold) -> EndedHolds:
        """End the holds that were found, and none that has begun since.

        Raises `ConfigError` if this user has no right to.
        """


def find_breaker(url: str) -> Breaker:
    """Return what ends holds at the locks of a URL."""
    scheme = scheme_of(url)
    if scheme == "file":
        breaker: Breaker = importlib.import_module("coterie.engines.file.breaker").make_breaker(url)
    elif scheme == "coterie":
        breaker = importlib.import_module(SCHEMES[scheme]).make_breaker(url)
    else:
        breaker = importlib.import_module("coterie.engines.queue.breaker").make_breaker(
            engine_of_url(url), scheme
        )
    return breaker


def find_operators_breaker(url: str) -> Breaker | None:
    """Return what ends holds, where this program has an operator secret; None where it has none.

    Only clusters have such a secret. Elsewhere the right belongs to users of the machine or of the server.
    """
    if scheme_of(url) != "coterie":
        return None
    breaker: Breaker | None = importlib.import_module(SCHEMES["coterie"]).make_operators_breaker(
        url
    )
    return breaker
