"""A sheet to draw on: SVG elements with short numbers, in the order drawn.

The pictures stand alone: no scripts, fonts or ids, so that several may share a page. A sheet has paper
of its own and a border, and so reads on any page. It is dark where readers prefer that, and a page that
holds it may choose each colour by a variable, such as `--coterie-ink`. Programs that know no variables
draw it in its light colours.
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
PAPER = "#ffffff"
PALE = "#fdecec"
SOLID = "#2d3b4a"  # of what fills much room
DIM = "#d5dde5"
# Okabe and Ito's colours, which colour-blind readers can tell apart, darkened for thin lines.
PALETTE = ("#0072b2", "#d55e00", "#00875f", "#b4559b", "#b97f00", "#3a9fd6", "#7a5c3e", "#5b5bd6")
DARK = {  # of each colour: the name of its variable, and what it is on dark paper
    INK: ("ink", "#e6eaee"),
    SOFT: ("soft", "#a9b4bf"),
    FAINT: ("line", "#4a5661"),
    GRID: ("raised", "#2a323b"),
    ALARM: ("alarm", "#ff8a80"),
    PAPER: ("paper", "#14181d"),
    PALE: ("pale", "#4a2422"),
    SOLID: ("solid", "#c3ced9"),
    DIM: ("dim", "#414d59"),
    PALETTE[0]: ("blue", "#4fb0ee"),
    PALETTE[1]: ("orange", "#ff9350"),
    PALETTE[2]: ("green", "#3cc79a"),
    PALETTE[3]: ("purple", "#dd93cb"),
    PALETTE[4]: ("yellow", "#e3b341"),
    PALETTE[5]: ("sky", "#a8dcff"),
    PALETTE[6]: ("brown", "#c3a482"),
    PALETTE[7]: ("indigo", "#a3a3f5"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CHARACTER = 0.56  # mean width of a character of such fonts, in font sizes
BOLD = 1.1  # times as wide
WIDER = 1.25  # than estimated, in a browser without any of these fonts
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
        self._used = {INK, PAPER, FAINT}  # colours

    def add(self, name: str, content: str = "", /, **attributes: float | str) -> None:
        """Draw an element; `content` is XML, and `stroke_width` becomes `stroke-width`."""
        attributes = {**attributes, **self._classes(attributes)}
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

    def headline(
        self, x: float, y: float, text: str, room: float, *, size: float, **attributes: float | str
    ) -> None:
        """Write a text, in bold, that is not cut by the end of its room in any font.

        Where it may need more in a wide font, it is set to the width that it is estimated to have, or
        to the room if that is less.
        """
        width = text_width(text, size) * BOLD
        attributes = {"font_weight": "600", **attributes}
        if width * WIDER > room:
            attributes["textLength"] = min(width, room)
            attributes["lengthAdjust"] = "spacingAndGlyphs"
        self.text(x, y, text, font_size=size, **attributes)

    def cross(self, x: float, y: float, arm: float, **attributes: float | str) -> None:
        """Draw a cross."""
        low, high, left, right = (number(v) for v in (y - arm, y + arm, x - arm, x + arm))
        self.add(
            "path", d=f"M{left} {low}L{right} {high}M{left} {high}L{right} {low}", **attributes
        )

    def finish(self, width: float, height: float, title: str) -> str:
        """Return the picture as the text of a file."""
        size = f'width="{number(width)}" height="{number(height)}"'
        shape = f'width="{number(width - 1)}" height="{number(height - 1)}" rx="8"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="coterie-picture fill-ink"'
            f' viewBox="0 0 {number(width)} {number(height)}" role="img"'
            f' font-family="{FONT}" font-size="12" fill="{INK}">\n'
            f"<title>{escape(title)}</title>\n{self._theme()}"
            f'<rect x="0.5" y="0.5" {shape} fill="{PAPER}" stroke="{FAINT}"'
            ' class="fill-paper stroke-line"/>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"

    def _classes(self, attributes: dict[str, float | str]) -> dict[str, float | str]:
        """Name the colours of an element as classes, which a style sheet prevails by."""
        named = []
        for part in ("fill", "stroke"):
            colour = str(attributes.get(part))
            if colour in DARK:
                self._used.add(colour)
                named.append(f"{part}-{DARK[colour][0]}")
        return {"class_": " ".join(named)} if named else {}

    def _theme(self) -> str:
        """Write the style sheet; a colour has the same rules in all pictures, so they do not quarrel."""
        chosen = [
            (name, light, dark) for light, (name, dark) in DARK.items() if light in self._used
        ]
        light = "".join(f"--{name}:var(--coterie-{name},{colour});" for name, colour, _ in chosen)
        dark = "".join(f"--{name}:var(--coterie-{name},{colour});" for name, _, colour in chosen)
        rules = "".join(
            f".coterie-picture .{part}-{name}{{{part}:var(--{name})}}"
            for part in ("fill", "stroke")
            for name, *_ in chosen
        )
        whole = ".coterie-picture.fill-ink{fill:var(--ink)}"
        preferred = f"@media (prefers-color-scheme:dark){{.coterie-picture{{{dark}}}}}"
        theme = f".coterie-picture{{{light}}}{preferred}{whole}{rules}"
        # A renderer without variables skips the block, and draws the attributes of the elements.
        return f"<style>@supports (color:var(--ink)){{{theme}}}</style>\n"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
