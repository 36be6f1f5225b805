"""Histories in the layout of stores: read as the decoder of JSON reads them, or not at all."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.lab.serializability import layout
from coterie.lab.serializability.columns import Columns, UnusualError, encode, read_columns
from coterie.lab.serializability.layout import read_layout
from coterie.transactions import Store
from coterie.transactions.history import Event

TEXTS = 300
DAMAGES = 4_000
PIECES = b'{}[]",:\\ \n\t0123456789eEtransactionopkeyvalueversionTx.-\x00\x7f\xc3'
STRINGS = ("x", "k12", "seven77", "eight888", "nine99999", "a name of more than two words")
VALUES: tuple[Any, ...] = (
    None,
    0,
    -7,
    1.5,
    "v",
    "",
    [],
    [1, 0],
    {"a": [True]},
    {"version": 3},
    "}",
)


def written(dice: Random) -> bytes:
    """Write some events in the layout of stores, whether they make sense or not."""
    pairs = dice.random() < 0.5
    lines = []
    for name in dice.choices(STRINGS, k=dice.randint(1, 12)):
        op = dice.choice(["begin", "read", "write", "write", "commit", "abort"])
        if op not in ("read", "write"):
            lines.append(Event(name, op))
            continue
        number = dice.choice([0, 3, 10, 999, 10**17])
        version: int | tuple[int, ...] = (number, dice.randint(0, 20)) if pairs else number
        lines.append(Event(name, op, dice.choice(STRINGS), dice.choice(VALUES), version))
    ends = dice.choice([b"", b"\n"])
    return b"\n".join(map(msgspec.json.encode, lines)) + ends


def plain(columns: Columns) -> list[Any]:
    """Return columns in a form that can be compared, values as they are encoded."""
    values = [encode(msgspec.json.decode(value)) for value in columns.values]
    arrays = [column.tolist() for column in columns if isinstance(column, np.ndarray)]
    return [list(columns.names), values, *arrays]


def outcome(read: Any, content: bytes) -> list[Any] | None:
    try:
        return plain(read(content))
    except UnusualError:
        return None


@pytest.mark.parametrize("size", [1, 200, layout.BLOCK])
def test_a_text_is_read_as_the_decoder_reads_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK", size)
    read = 0
    for seed in range(TEXTS):
        content = written(Random(seed))
        expected = outcome(read_columns, content)
        assert outcome(read_layout, content) == expected, f"seed {seed}"
        read += expected is not None
    assert 0 < read < TEXTS  # some do something after their end


def test_a_damaged_text_is_read_as_the_decoder_reads_it_or_not_at_all() -> None:
    dice = Random(1)  # any other will do
    sound = [text for text in map(written, map(Random, range(TEXTS))) if outcome(read_layout, text)]
    read = 0
    for _ in range(DAMAGES):
        content = bytearray(dice.choice(sound))
        for _ in range(dice.choice([1, 1, 2])):
            place = dice.randrange(len(content))
            piece = bytes(dice.choices(PIECES, k=dice.randint(0, 2)))
            content[place : place + dice.randint(0, 2)] = piece
            content = content or bytearray(b"{")
        found = outcome(read_layout, bytes(content))
        if found is not None:
            assert found == outcome(read_columns, bytes(content)), bytes(content)
            read += 1
    assert read > DAMAGES // 50


def test_a_store_writes_in_this_layout() -> None:
    async def run() -> bytes:
        store = Store(record=True)
        async with store:
            for number in range(3):
                async with store.transaction() as transaction:
                    await transaction.get("x")
                    await transaction.put("x", [number, "text"])
            return store.history_lines()

    assert read_layout(asyncio.run(run())).names == ["T1", "T2", "T3"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"T1"', b'"T\\u0031"'),
        (b'"T1"', '"Ü"'.encode()),
        (b'"T1"', b'"' + b"T" * 64 + b'"'),
        (b'"T1"', b"1"),
        (b'"T1"', b'"T\t1"'),
        (b'"x"', b'"x'),
        (b'"op":"write"', b'"op": "write"'),
        (b'"value":5', b'"value": 5'),
        (b'"value":5', b'"value":5,"value":6'),
        (b'"value":5', b'"value":'),
        (b'"value":5', b'"value":[5'),
        (b"[1,2]", b"[1]"),
        (b"[1,2]", b"[01,2]"),
        (b"[1,2]", b"[1,,2]"),
        (b"[1,2]", b"[1,-2]"),
        (b"[1,2]", b"[1," + b"2" * 19 + b"]"),
        (b"[1,2]", b"[1,2]]"),
        (b"[1,2]", b"1,2]"),
        (b"[1,2]", b"null"),
        (b'}\n{"transaction":"T1","op":"commit"}', b'}\n\n{"transaction":"T1","op":"commit"}'),
        (b'"op":"commit"}', b'"op":"commit","talk":1}'),
    ],
)
def test_what_is_written_otherwise_is_left_to_the_decoder(old: bytes, new: bytes) -> None:
    text = b"""\
{"transaction":"T1","op":"write","key":"x","value":5,"version":[1,2]}
{"transaction":"T1","op":"commit"}
"""
    assert outcome(read_layout, text) is not None
    assert old in text
    assert outcome(read_layout, text.replace(old, new)) is None
