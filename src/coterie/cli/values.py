"""`coterie status values`: the values of locks, as they are without taking the locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.cli.common.output import print_json, print_table, say
from coterie.locks import connect
from coterie.locks.internals import opened_to_look
from coterie.locks.legible import one_line
from coterie.system import calendar

if TYPE_CHECKING:
    from coterie.locks.value import Value

SHOWN_LENGTH = 40  # of the text of a value
BINARY = "-"


def show_values(url: str, output: str) -> int:
    """Print all values by their names; return 0."""
    values = asyncio.run(_look(url))
    if output == "json":
        print_json([{"name": name, "value": value} for name, value in values.items()])
        return 0
    print_table(
        ["lock", "bytes", "token", "write", "by", "written", "text"],
        [_row(name, value) for name, value in values.items()],
    )
    for name, value in values.items():
        if value.doubtful:
            say(f"{name}: a later value may have been lost with its servers", err=True)
    return 0


async def _look(url: str) -> dict[str, Value]:
    async with opened_to_look(connect(url)) as values:
        return dict(sorted((await values.all_values()).items()))


def _row(name: str, value: Value) -> list[str | int]:
    token, sequence = value.version
    written = calendar.moment_name(value.written)
    return [
        name,
        len(value.data),
        str(token),
        sequence,
        value.by,
        written,
        legible_start(value.data),
    ]


def legible_start(data: bytes) -> str:
    """Return how a value begins, if it is text in one line; a dash if it is not."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return BINARY
    shown = one_line(text)
    return shown if len(shown) <= SHOWN_LENGTH else f"{shown[: SHOWN_LENGTH - 1]}…"
