"""Deleted keys: each leaves a version without a value, and those are forgotten in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS_MAX = 1000


class Deletions(msgspec.Struct, array_like=True):
    """Which keys were deleted, and up to which stamp that may have been forgotten.

    A deletion is forgotten once a thousand have gathered and every transaction under way is later
    than it and than all that have read the key since. One that comes after that and is older still
    cannot know what was there before: it is refused whatever key that is not kept it asks for.
    """

    keys: list[str] = []  # whose newest version may be a deletion, oldest first
    keys_max: int = KEYS_MAX
    forgotten: Stamp = BEGINNING  # the newest stamp that is known of anything forgotten

    def sweep(self, forget: Callable[[str], Stamp | None]) -> None:
        """Forget what can be forgotten.

        `forget` returns the newest stamp that was known of a key, BEGINNING if it is there again,
        and None if it must stay.
        """
        kept: list[str] = []
        for key in dict.fromkeys(self.keys):
            stamp = forget(key)
            if stamp is None:
                kept.append(key)
            elif self.forgotten < stamp:
                self.forgotten = stamp
        self.keys = kept
        self.keys_max = max(KEYS_MAX, 2 * len(kept))  # a sweep that frees little must be rare
