"""Writes that a client keeps until it commits, for stores whose transactions are one request."""

from __future__ import annotations


class Buffer:
    """What a transaction has written and not sent yet, which it sees itself."""

    def __init__(self) -> None:
        """Begin without writes."""
        self.values: dict[str, str] = {}
        self.elements: dict[str, list[int]] = {}  # appended, by key

    def value(self, key: str, stored: str | None) -> str | None:
        """Return what the transaction sees of a key that has a value in the store."""
        return self.values.get(key, stored)

    def items(self, key: str, stored: list[int]) -> list[int]:
        """Return what the transaction sees of a list."""
        return stored + self.elements.get(key, [])
