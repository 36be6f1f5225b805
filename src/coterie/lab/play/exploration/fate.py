"""What a state, or a move, leads to: a word, a number of moves, and a sentence."""

from __future__ import annotations

from typing import Literal

import msgspec

Word = Literal["broken", "lost", "doomed", "stalled", "risky", "fragile", "safe", "open"]

SIGNS: dict[Word, str] = {
    "broken": "✕",
    "lost": "✕",
    "doomed": "‡",
    "stalled": "‖",
    "risky": "!",
    "fragile": "~",
    "safe": "✓",
    "open": "?",
}
BEST_FIRST: tuple[Word, ...] = (
    "safe",
    "fragile",
    "open",
    "risky",
    "stalled",
    "doomed",
    "lost",
    "broken",
)


class Fate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What can still come of a state.

    broken: a property is violated there. lost: it does not show yet, but a process can never get what
    it waits for, even if others ask. doomed: without faults, every way leads on to a violation. stalled: it does
    not show yet, but a process gets what it waits for only if another user asks. risky: one is `moves` away
    without another fault, and can be avoided. fragile: one is `moves` away with another fault. safe:
    nothing can go wrong within the bound. open: not searched so far; nothing is wrong within `moves`.
    """

    word: Word
    sign: str
    moves: int | None = None  # to the violation, to where it shows, or that were searched
    violated: str | None = None  # the property
    text: str = ""
    processes: tuple[int, ...] = ()  # that can never get what they wait for
    is_final: bool = False  # no state where nothing can go wrong is in reach without a fault

    @property
    def rank(self) -> int:
        """Order fates, the best first."""
        return BEST_FIRST.index(self.word)


def fate(
    word: Word,
    text: str,
    moves: int | None = None,
    violated: str | None = None,
    processes: tuple[int, ...] = (),
    *,
    is_final: bool = False,
) -> Fate:
    """Make a fate with the sign of its word."""
    return Fate(word, SIGNS[word], moves, violated, text, processes, is_final)


OUTSIDE = fate("open", "outside the bound")
SAFE = fate("safe", "nothing can go wrong within the bound")
