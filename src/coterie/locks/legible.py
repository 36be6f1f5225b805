"""What others have written, as one line that a terminal may show."""

from __future__ import annotations

TEXT_LENGTH_MAX = 500


def legible(text: str) -> str:
    """Return what another program may have written as one line, with nothing in it that a terminal obeys."""
    return one_line(text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]} …")


def legible_json(text: str) -> str:
    """Return JSON that says the same, with an escape for each character that is not to be printed but ends of lines."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")  # of which JSON has an escape for each
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def one_line(text: str) -> str:
    """Return a text with an escape for each character that is not to be printed."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
