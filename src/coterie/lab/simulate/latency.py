"""Latencies as a user writes them: `1`, `uniform:0.5,1.5`, `matrix:1,40;40,1`, or a file of delays.

`parse_latency` opens no file, so that it may read what a page asks for; `read_latency` follows the
name of a file, which the user of this machine has typed. A file that ends in `.csv` holds a square of
delays, a row for each sender and in it a number for each receiver, separated by commas. Blank lines, and
all behind a `#`, are left out.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.catalogue import unknown
from coterie.errors import UsageError
from coterie.lab.simulate.network import Constant, Exponential, LogNormal, Matrix, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.simulate.network import Latency

SUFFIX = ".csv"
JITTER = "~"  # behind a matrix: the share by which each of its delays varies

_MODELS: dict[str, tuple[Callable[..., Latency], str]] = {
    "constant": (Constant, "VALUE"),
    "uniform": (Uniform, "LOW,HIGH"),
    "exponential": (Exponential, "MEAN"),
    "lognormal": (LogNormal, "MEDIAN,SIGMA"),
}
NAMES = [*_MODELS, "matrix"]


def read_latency(text: str) -> Latency:
    """Read a latency model, or the file of delays that the text names."""
    plain, tilde, share = text.partition(JITTER)
    if not plain.strip().endswith(SUFFIX):
        return parse_latency(text)
    return read_matrix(Path(plain.strip()), _number(text, share) if tilde else 0.0)


def parse_latency(text: str) -> Latency:
    """Return the latency model that the text describes; raise `UsageError` if there is none such."""
    plain, tilde, share = text.partition(JITTER)
    jitter = _number(text, share) if tilde else 0.0
    name, colon, rest = plain.partition(":")
    if not colon:
        name, rest = "constant", plain
    name = name.strip()
    if name == "matrix":
        return Matrix(tuple(_numbers(text, row) for row in rest.split(";")), jitter)
    if tilde:
        raise UsageError(f"bad latency {text!r}: only a matrix takes {JITTER}SHARE")
    if name not in _MODELS:
        raise UsageError(unknown("latency model", name, NAMES))
    model, form = _MODELS[name]
    numbers = _numbers(text, rest)
    if len(numbers) != form.count(",") + 1:
        raise UsageError(f"bad latency {text!r}: expected {name}:{form}")
    return model(*numbers)


def _numbers(text: str, part: str) -> tuple[float, ...]:
    return tuple(_number(text, number) for number in part.split(","))


def _number(text: str, part: str) -> float:
    number = _finite(part)
    if number is None:
        raise UsageError(
            f"bad latency {text!r}: expected a number of time units or NAME:NUMBERS, with NAME one"
            f" of {', '.join(NAMES)}"
        )
    return number


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def read_matrix(path: Path, jitter: float = 0.0) -> Matrix:
    """Read a matrix of delays from a file; an error names the file, the line and what is wrong."""
    rows: list[tuple[float, ...]] = []
    lines: list[int] = []  # where each row stands
    for line, text in enumerate(_lines(path), 1):
        plain = text.partition("#")[0].strip()
        if plain:
            rows.append(tuple(_delay(path, line, cell.strip()) for cell in plain.split(",")))
            lines.append(line)
    if not rows:
        raise UsageError(f"{path}: expected rows of delays such as 1,40, found none")
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(rows):
            raise UsageError(
                f"{path}, line {line}: the matrix is not square: it has {len(rows)} rows, and this one"
                f" has {len(row)} delays"
            )
    return Matrix(tuple(rows), jitter, str(path))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the delays in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the delays in {path}: it is not text in UTF-8") from None


def _delay(path: Path, line: int, cell: str) -> float:
    delay = _finite(cell)
    if delay is None:
        raise UsageError(f"{path}, line {line}: expected a delay such as 40, got {cell!r}")
    if delay < 0:
        raise UsageError(f"{path}, line {line}: a delay must be at least 0, got {cell}")
    return delay
