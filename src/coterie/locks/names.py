"""Which names locks, nodes and clusters may have.

1 to 255 letters, digits, dots, slashes, underscores and dashes.
"""

from __future__ import annotations

import string

from coterie.errors import UsageError

ALPHABET = frozenset(string.ascii_letters + string.digits + "._/-")
LENGTH_MAX = 255


def check_name(name: str, length_max: int = LENGTH_MAX, *, of: str = "lock") -> str:
    """Return the name if a lock may have it; else say which character is wrong, of whose name."""
    if ALPHABET.issuperset(name) and 1 <= len(name) <= length_max:
        return name
    for position, character in enumerate(name, 1):
        if character not in ALPHABET:
            raise UsageError(
                f"{of} name {name!r}: {character!r} at position {position} is not allowed;"
                " choose from: A-Z a-z 0-9 . _ / -"
            )
    raise UsageError(f"a {of} name must have 1 to {length_max} characters, got {len(name)}")
