"""A run as the text of an address: `#/run/maekawa%203/a1/d1.2@2?crashes=1`, and back.

The first line of a scenario, then a short code for each move, then where the reader stands, and which
faults could happen. An address holds nothing else, so that opening one can do nothing but play. Any other
text is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from urllib.parse import quote, unquote

import msgspec

from coterie.lab.play.runs.refusal import Refusal

MOVES_MAX = 2_000
PLAIN_MAX = 2_000  # characters; longer ones are packed
TEXT_MAX = 65_536  # of an unpacked address
CALLS = {"a": "acquire", "r": "release", "e": "elect"}
LETTERS = {"d": "deliver", "x": "drop", "p": "repeat"}
ONE = {"c": "crash", "n": "restart"}
TWO = {"w": "down", "s": "suspect"}
RUN = "g"
RING = "t"
OTHER_CALL = "k"
CODES = {word: code for table in (CALLS, LETTERS, ONE, TWO) for code, word in table.items()}
PATTERN = re.compile(r"([a-z])(?:([0-9]{1,6})(?:\.([0-9]{1,6}))?)?(?:\.(\S(?:.*\S)?))?", re.ASCII)
BOUND = re.compile(r"(entries|crashes|losses|duplicates|suspicions)=([0-9])")


class RunAddress(msgspec.Struct, frozen=True):
    """A run, and how many of its moves the reader has gone through; None: all."""

    first: str
    moves: list[str] = []
    cursor: int | None = None
    bounds: dict[str, int] = {}  # of the faults and entries, where they are not the usual ones


def write_address(address: RunAddress) -> str:
    """Write the fragment of an address; a long one is packed."""
    codes = [quote(code_of(move), safe="(),=:*[]") for move in address.moves]
    cursor = "" if address.cursor is None else f"@{address.cursor}"
    bounds = "&".join(f"{name}={count}" for name, count in address.bounds.items())
    body = (
        "/".join([quote(address.first, safe="=,:"), *codes]) + cursor + bool(bounds) * f"?{bounds}"
    )
    if len(body) <= PLAIN_MAX:
        return f"#/run/{body}"
    return "#/z/" + base64.urlsafe_b64encode(zlib.compress(body.encode())).decode().rstrip("=")


def read_address(text: str) -> RunAddress:
    """Read the fragment of an address, with or without its `#`; raise a `Refusal` if it is none."""
    match text.removeprefix("#").removeprefix("/").split("/", 1):
        case ["run", body] if len(body) <= TEXT_MAX:
            return _read_body(body)
        case ["z", packed] if len(packed) <= TEXT_MAX:
            return _read_body(_unpack(packed))
        case ["run" | "z", _]:
            raise Refusal(f"this address is too long: more than {TEXT_MAX:,} characters")
        case _:
            raise Refusal("an address such as #/run/maekawa%203/a1/d1.2@2 is expected")


def code_of(move: str) -> str:
    """Shorten a command: `deliver 1 > 2 Reply` is d1.2.Reply."""
    match move.split():
        case ["deliver" | "repeat" | "drop" as verb, sender, ">", receiver, *which]:
            code = ".".join([f"{CODES[verb]}{sender}", receiver, *[" ".join(which)] * bool(which)])
        case ["ring", process, timer]:
            code = f"{RING}{process}.{timer}"
        case ["down" | "suspect" as verb, process, peer]:
            code = f"{CODES[verb]}{process}.{peer}"
        case ["run"]:
            code = RUN
        case [word, process]:
            code = f"{CODES[word]}{process}" if word in CODES else f"{OTHER_CALL}{process}.{word}"
        case _:
            code = f"?{move}"
    return code


def move_of(code: str) -> str | None:
    """Write a code as the command it stands for; None if it stands for none."""
    found = PATTERN.fullmatch(code)
    if found is None:
        return None
    letter, first, second, rest = found.groups()
    move = None
    match (letter in LETTERS, first, second, rest):
        case (False, None, None, None) if letter == RUN:
            move = "run"
        case (_, None, _, _):
            move = None
        case (True, _, str(), _):
            move = f"{LETTERS[letter]} {first} > {second}" + f" {rest}" * bool(rest)
        case (_, _, None, None):
            word = CALLS.get(letter) or ONE.get(letter)
            move = f"{word} {first}" if word else None
        case (_, _, str(), None) if letter in TWO:
            move = f"{TWO[letter]} {first} {second}"
        case _ if letter in (RING, OTHER_CALL):
            # A timer may be named by a number, as by any other text.
            name = ".".join(part for part in (second, rest) if part is not None)
            move = f"ring {first} {name}" if letter == RING else f"{name} {first}"
            move = move if len(name.split()) == 1 else None
    return move


def _read_body(body: str) -> RunAddress:
    body, _, asked = body.partition("?")
    bounds = _read_bounds(asked)
    path, at, cursor = body.rpartition("@")
    path = path if at else body
    if at and not re.fullmatch(r"[0-9]{1,6}", cursor):
        raise Refusal(f"after the @ of an address comes a number, not {cursor[:20]!r}")
    first, *codes = path.split("/")
    codes = [code for code in codes if code]
    if len(codes) > MOVES_MAX:
        raise Refusal(f"a run has at most {MOVES_MAX:,} moves, not {len(codes):,}")
    moves = []
    for number, code in enumerate(map(unquote, codes)):
        move = move_of(code)
        if move is None:
            raise Refusal(f"no move is written {code[:40]!r}", number)
        moves.append(move)
    return RunAddress(unquote(first), moves, int(cursor) if at else None, bounds)


def _read_bounds(text: str) -> dict[str, int]:
    bounds = {}
    for part in filter(None, text.split("&")):
        found = BOUND.fullmatch(part)
        if found is None:
            raise Refusal(
                f"after the ? of an address come bounds such as crashes=1, not {part[:20]!r}"
            )
        bounds[found[1]] = int(found[2])
    return bounds


def _unpack(packed: str) -> str:
    try:
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(data, TEXT_MAX).decode()
    except (binascii.Error, zlib.error, ValueError):
        is_whole = False
    else:
        is_whole = unpacker.eof and not unpacker.unconsumed_tail
    if not is_whole:
        raise Refusal("this address is damaged: what is packed in it cannot be read")
    return body
