"""The sources of transactions: each site begins them in the order of stamps, and says so when it has none.

A site that has begun a transaction will begin larger ones only. One that has nothing to begin says
the same by a promise, the null request of the literature. What a site may begin at all can be
limited to classes of transactions; whoever conflicts with none of them need not wait for its word.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.errors import ConfigError, ProtocolError, Undeclared
from coterie.transactions.schemes.conservative.classes import ANY, disturbs, fits
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    EVERYTHING,
    Answer,
    Attempt,
    Declaration,
    Scheduler,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.transactions.schemes.span import Span

FOREVER = Stamp(sys.maxsize, 0)  # the promise of a site at which nothing will begin any more


class Sources(Scheduler):
    """A scheduler that knows which stamps may still come, and from where."""

    announced: ClassVar[bool] = True

    sites: int = 1  # each is a source of transactions
    analysed: bool = True  # else everything is taken to conflict with everything
    classes: tuple[tuple[Declaration, ...], ...] = ()  # that each site may begin; none: any

    promises: list[Stamp] = []  # of each site: what begins there from now on is larger

    def __post_init__(self) -> None:
        """Begin without a promise of anybody."""
        if self.classes and len(self.classes) != self.sites:
            raise ConfigError(f"classes are given for {len(self.classes)} sites of {self.sites}")
        self.promises = self.promises or [BEGINNING] * self.sites

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Take the place among the others; that is a promise too, as stamps come in order."""
        source = attempt.stamp.process
        promise = self._promise_of(source)
        if not attempt.stamp > promise:
            raise ProtocolError(
                f"{attempt.name} has begun at site {source} with stamp {attempt.stamp}, "
                f"though nothing up to {promise} was to begin there any more"
            )
        if not self.analysed:
            attempt = msgspec.structs.replace(attempt, declaration=EVERYTHING)
        elif self.classes and not self._belongs(attempt.declaration, source):
            raise Undeclared(
                f"{attempt.name} fits no class of transactions that site {source} may begin: "
                "declare less, or give the site a class for it"
            )
        super().begin(attempt, out)
        self.promises[source - 1] = attempt.stamp
        if self.sites > 1:  # somebody may have waited for a word of that site
            self._go_on(out)

    def promise(self, source: int, stamp: Stamp, out: list[Answer]) -> None:
        """Learn that what begins at that site from now on is larger; `FOREVER` closes it."""
        promise = self._promise_of(source)
        if stamp < promise:
            raise ProtocolError(
                f"site {source} promises to begin nothing up to {stamp}, "
                f"which is less than it has promised before: {promise}"
            )
        self.promises[source - 1] = stamp
        self._go_on(out)

    def _promise_of(self, source: int) -> Stamp:
        if not 1 <= source <= self.sites:
            raise ProtocolError(f"there is no site {source}: sites are numbered 1 to {self.sites}")
        return self.promises[source - 1]

    def _belongs(self, declared: Declaration, source: int) -> bool:
        return any(fits(declared, of) for of in self._classes_of(source))

    def _classes_of(self, source: int) -> tuple[Declaration, ...]:
        return self.classes[source - 1] if self.classes else ANY

    def _unheard(self, stamp: Stamp, spans: Sequence[Span], writing: bool) -> list[int]:
        """Name the sites that could still begin something older which has to come first."""
        return [
            source
            for source, promise in enumerate(self.promises, start=1)
            if promise < stamp
            and any(disturbs(declared, spans, writing) for declared in self._classes_of(source))
        ]

    @abstractmethod
    def _go_on(self, out: list[Answer]) -> None: ...
