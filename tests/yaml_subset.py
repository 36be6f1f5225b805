"""Reads the plain YAML of docs/deploy: block mappings and lists, scalars of one line, and `|` blocks.

Whatever else YAML knows is refused, so a file that is read here means the same to every reader.
"""

from __future__ import annotations

import json
import re
from typing import Any

KEY = re.compile(r"([A-Za-z0-9_./-]+):(?: (.*))?$")
PLAIN = re.compile(r"[A-Za-z0-9_/.$(+-][^#]*$")
NUMBER = re.compile(r"\d+$")


class Reader:
    """Goes through the lines of one document."""

    def __init__(self, text: str) -> None:
        """Begin at the first line."""
        self._lines = text.splitlines()
        self._at = 0

    def read(self) -> Any:
        """Return the value of the whole document."""
        value = self._block(0)
        assert self._peek() is None, f"line {self._at + 1}: not indented like the lines before"
        return value

    def _peek(self) -> tuple[int, str] | None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            if bare and not bare.startswith("#"):
                assert "\t" not in line, f"line {self._at + 1}: a tab"
                return len(line) - len(bare), bare
            self._at += 1
        return None

    def _block(self, indent: int) -> Any:
        found = self._peek()
        assert found is not None, "the document ends where a value is expected"
        assert found[0] == indent, f"line {self._at + 1}: indented by {found[0]}, not {indent}"
        return self._list(indent) if found[1].startswith("- ") else self._mapping(indent)

    def _list(self, indent: int) -> list[Any]:
        items = []
        while (found := self._peek()) and found[0] == indent and found[1].startswith("- "):
            if KEY.match(found[1][2:]):
                self._lines[self._at] = " " * (indent + 2) + found[1][2:]
                items.append(self._mapping(indent + 2))
            else:
                self._at += 1
                items.append(_scalar(found[1][2:]))
        return items

    def _mapping(self, indent: int) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        while (found := self._peek()) and found[0] == indent and not found[1].startswith("- "):
            parts = KEY.match(found[1])
            assert parts, f"line {self._at + 1}: no key"
            key, value = parts.groups()
            assert key not in pairs, f"line {self._at + 1}: {key} is there already"
            self._at += 1
            if value == "|":
                pairs[key] = self._text(indent + 2)
            else:
                pairs[key] = self._block(indent + 2) if value is None else _scalar(value)
        return pairs

    def _text(self, indent: int) -> str:
        lines = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line and not line.startswith(" " * indent):
                break
            lines.append(line[indent:])
            self._at += 1
        return "\n".join(lines).rstrip("\n") + "\n"


def _scalar(text: str) -> Any:
    if text.startswith('"'):
        return json.loads(text)
    if text.startswith("["):
        return json.loads(text)  # all that a list in one line contains is quoted
    if text in ("true", "false"):
        return text == "true"
    assert PLAIN.match(text), f"quote {text!r}"
    assert ": " not in text, f"quote {text!r}"
    return int(text) if NUMBER.match(text) else text


def read_all(text: str) -> list[Any]:
    """Return the values of all documents of a file."""
    return [Reader(part).read() for part in re.split(r"^---$", text, flags=re.MULTILINE)]
