"""Modules of others that the pages of coterie bring, as the README.md beside them lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Vendored:
    """One row of the table."""

    name: str
    version: str
    licence: str
    text: str
    files: tuple[str, ...]


def read_page(page: Path) -> list[Vendored]:
    """Return the modules that `page` lists."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [
        Vendored(name, version, licence, text, tuple(files.split(", ")))
        for name, version, licence, text, files in rows[1:]
    ]
