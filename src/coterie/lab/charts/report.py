"""One page to show around: text, tables and pictures in a single HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2430; background: #f6f7f9;
       max-width: 60rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
pre { background: #fff; border: 1px solid #dde1e7; border-radius: 8px; padding: 1rem;
      overflow-x: auto; font-size: 0.8rem; line-height: 1.35; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e6eaee; background: #0f1216; } pre { background: #14181d; border-color: #4a5661; }
}
"""


@dataclass(frozen=True)
class Section:
    """A heading with some sentences, and below them printed output or a picture."""

    title: str
    text: str
    output: str = ""
    picture: str = ""  # SVG


def report(title: str, sections: Sequence[Section]) -> str:
    """Make the page."""
    body = "\n".join(_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>", f"<p>{escape(section.text)}</p>"]
    if section.output:
        parts.append(f"<pre>{escape(section.output)}</pre>")
    if section.picture:
        parts.append(f"<figure>{section.picture}</figure>")
    return "\n".join(parts)
