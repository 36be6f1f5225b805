"""A run looked at afterwards: where it was past saving, and which move brought it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.lab.play.runs.address import code_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.play.exploration.atlas import Atlas
    from coterie.lab.play.exploration.fate import Fate
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move


class Blunder(msgspec.Struct, frozen=True):
    """The move after which nothing could be saved, and one that would have kept it better."""

    number: int  # of the move, from 1 on
    move: str
    better: str
    better_code: str
    word: str  # what the better one would have kept it
    text: str


def point_of_no_return(fates: Sequence[Fate | None]) -> int | None:
    """Return after how many moves a run was past saving, and stayed so.

    None if it never was, or if it is not known of some state whether it was.
    """
    number = None
    for moves in range(len(fates) - 1, -1, -1):
        fate = fates[moves]
        if fate is None:
            return None
        if not fate.is_final:
            break
        number = moves
    return number


def find_blunder(before: Play, atlas: Atlas, number: int, made: str) -> Blunder | None:
    """Name the best move in place of the one that was made; None if there was none better."""
    moves = [move for move in before.enabled() if atlas.scope.allows(before, move)]
    fates = atlas.look_ahead(before, moves)
    ranked = sorted(zip(moves, fates, strict=True), key=_rank)
    if not ranked or ranked[0][1].is_final:
        return None
    better, fate = ranked[0]
    text = f"move {number} was the blunder: {made}; {better.text} kept it {fate.word}"
    return Blunder(number, made, better.text, code_of(better.text), fate.word, text)


def _rank(choice: tuple[Move, Fate]) -> tuple[bool, int, bool, int]:
    """Put the better fate first; of equal ones no fault, and the later violation."""
    move, fate = choice
    return fate.is_final, fate.rank, move.is_fault, -(fate.moves or 0)
