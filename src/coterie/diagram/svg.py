"""A sheet to draw on: SVG elements with short numbers, in the order drawn.

The pictures stand alone: no scripts, style sheets, fonts or ids, so that several may share a page.
The sheet is white with a border, and so reads on light and dark pages alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterable

INK = "#1f2933"
SOFT = "#616e7c"
FAINT = "#cbd2d9"
GRID = "#eef1f4"
ALARM = "#c81e1e"
# Okabe and Ito's colours, which colour-blind readers can tell apart, darkened for thin lines.
PALETTE = ("#0072b2", "#d55e00", "#00875f", "#b4559b", "#b97f00", "#3a9fd6", "#7a5c3e", "#5b5bd6")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CHARACTER = 0.56  # mean width of a character of such fonts, in font sizes
NARROW, WIDE = "iljtfrI.,:;'|()[]- ", "mwMW"


def text_width(text: str, size: float) -> float:
    """Estimate how wide a text will be."""
    narrow = sum(character in NARROW for character in text)
    wide = sum(character in WIDE for character in text)
    return (len(text) * CHARACTER - narrow * 0.25 + wide * 0.25) * size


def tip(text: str) -> str:
    """Make the text that shows while a pointer rests on an element, to be its content."""
    return f"<title>{escape(text)}</title>" if text else ""


def number(value: float) -> str:
    """Write a coordinate to a tenth, without needless digits."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


class Sheet:
    """Elements drawn so far."""

    def __init__(self) -> None:
        """Start empty."""
        self._elements: list[str] = []

    def add(self, name: str, content: str = "", /, **attributes: float | str) -> None:
        """Draw an element; `content` is XML, and `stroke_width` becomes `stroke-width`."""
        written = "".join(
            f" {key.rstrip('_').replace('_', '-')}={quoteattr(_value(value))}"
            for key, value in attributes.items()
        )
        end = f">{content}</{name}>" if content else "/>"
        self._elements.append(f"<{name}{written}{end}")

    def line(
        self, start: tuple[float, float], end: tuple[float, float], **attributes: float | str
    ) -> None:
        """Draw a straight line."""
        self.add("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], **attributes)

    def polygon(self, points: Iterable[tuple[float, float]], **attributes: float | str) -> None:
        """Draw a closed figure."""
        corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.add("polygon", points=corners, **attributes)

    def polyline(self, points: Iterable[tuple[float, float]], **attributes: float | str) -> None:
        """Draw straight lines from point to point."""
        corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.add("polyline", points=corners, fill="none", **attributes)

    def text(self, x: float, y: float, text: str, **attributes: float | str) -> None:
        """Write a text; its baseline starts at the point unless `text_anchor` says otherwise."""
        self.add("text", escape(text), x=x, y=y, **attributes)

    def cross(self, x: float, y: float, arm: float, **attributes: float | str) -> None:
        """Draw a cross."""
        low, high, left, right = (number(v) for v in (y - arm, y + arm, x - arm, x + arm))
        self.add(
            "path", d=f"M{left} {low}L{right} {high}M{left} {high}L{right} {low}", **attributes
        )

    def finish(self, width: float, height: float, title: str) -> str:
        """Return the picture as the text of a file."""
        size = f'width="{number(width)}" height="{number(height)}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
            f' viewBox="0 0 {number(width)} {number(height)}" role="img"'
            f' font-family="{FONT}" font-size="12" fill="{INK}">\n'
            f"<title>{escape(title)}</title>\n"
            f'<rect x="0.5" y="0.5" width="{number(width - 1)}" height="{number(height - 1)}"'
            f' rx="8" fill="#ffffff" stroke="{FAINT}"/>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
