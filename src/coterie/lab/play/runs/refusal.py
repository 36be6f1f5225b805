"""Why a question has no answer: it was refused, or it is not wanted any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Refusal(UsageError):  # noqa: N818 - says what happened, like its siblings
    """A question that cannot be answered: why, at which move, and what would be possible there."""

    def __init__(self, reason: str, at: int | None = None, possible: Sequence[str] = ()) -> None:
        """Take the reason; the move and the possible ones where a move is refused."""
        super().__init__(reason)
        self.at = at
        self.possible = [*possible]


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """The page has asked a newer question, or the program ends."""
