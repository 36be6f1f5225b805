"""Which names locks, nodes and clusters may have.

A lock may be called almost anything that can be printed: `order:17`, `Müller & Söhne`. Two ways to write the
same text in Unicode are the same lock. Nodes and clusters, which stand in addresses and certificates, have 1 to
255 letters, digits, dots, slashes, underscores and dashes.
"""

from __future__ import annotations

import string

from coterie.errors import UsageError

PLAIN = frozenset(string.ascii_letters + string.digits + "._/-")
BYTES_MAX = 255
PERMITS_MAX = 100_000  # of a semaphore


def permit_name(semaphore: str, number: int) -> str:
    """Return the name of the lock that is one permit of a semaphore; the first has number 1."""
    return f"{semaphore}/permit-{number}"


def check_name(name: str, bytes_max: int = BYTES_MAX) -> str:
    """Return the name of a lock as it is compared and stored; raise `UsageError` if it cannot be one."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a lock is a string, got {name!r}")
    if PLAIN.issuperset(name) and 1 <= len(name) <= bytes_max:
        return name
    if not name.isascii():
        import unicodedata  # noqa: PLC0415 - a command that starts often seldom needs it

        name = unicodedata.normalize("NFC", name)
    for position, character in enumerate(name, 1):
        if not character.isprintable():
            raise UsageError(
                f"lock name {name!r}: {character!r} at position {position} cannot be printed"
            )
    if name != name.strip():
        raise UsageError(f"lock name {name!r}: remove the leading or trailing space")
    size = len(name.encode())
    if not 1 <= size <= bytes_max:
        raise UsageError(f"a lock name must have 1 to {bytes_max} bytes in UTF-8, got {size}")
    return name


def check_note(note: str) -> str:
    """Return a note of a hold; raise `UsageError` if it cannot be one."""
    if not isinstance(note, str):
        raise UsageError(f"a note is a string, got {note!r}")
    if not note.isprintable():
        unprintable = next(each for each in note if not each.isprintable())
        raise UsageError(f"note {note!r}: {unprintable!r} cannot be printed")
    size = len(note.encode())
    if size > BYTES_MAX:
        raise UsageError(
            f"a note has at most {BYTES_MAX} bytes in UTF-8, got {size}: write what is longer as the value of the"
            " lock"
        )
    return note


def check_plain_name(name: str, *, of: str) -> str:
    """Return the name of a node or cluster; else say which character is wrong, of whose name."""
    for position, character in enumerate(name, 1):
        if character not in PLAIN:
            raise UsageError(
                f"{of} name {name!r}: {character!r} at position {position} is not allowed;"
                " choose from: A-Z a-z 0-9 . _ / -"
            )
    if not 1 <= len(name) <= BYTES_MAX:
        raise UsageError(f"a {of} name must have 1 to {BYTES_MAX} characters, got {len(name)}")
    return name
