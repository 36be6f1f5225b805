"""What others have written, as one line that a terminal may show."""

from __future__ import annotations

TEXT_LENGTH_MAX = 500


def legible(text: str) -> str:
    """Return what another program may have written as one line, with nothing in it that a terminal obeys."""
    return one_line(text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]} …")


def one_line(text: str) -> str:
    """Return a text with an escape for each character that is not to be printed."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
