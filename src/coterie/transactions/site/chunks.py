"""What a scan has found, in parts that a message may carry.

A part is small beside what a link takes at once, so that no other message waits long behind it. The
coordinator asks for the next one: so however much was found, little of it is on the way at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.scheduler import Listed

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Found

CHUNK_BYTES = 1 << 20  # of a part, unless a single value is larger
FOUND_BYTES = 100  # of one that was found, besides its key and value, at most


def divided(listed: Listed) -> tuple[Listed, Listed | None]:
    """Return the first part, and the rest if there is any."""
    size = 0
    for place, found in enumerate(listed.items):
        size += _size(found)
        if place and size > CHUNK_BYTES:
            first, rest = listed.items[:place], listed.items[place:]
            name, covered = listed.transaction, listed.covered
            return Listed(name, first, covered), Listed(name, rest, covered)
    return listed, None


def _size(found: Found) -> int:
    return len(found.key.encode()) + len(found.value or b"") + FOUND_BYTES
