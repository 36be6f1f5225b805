"""Keys and values as they are kept: bytes, which nobody can change under the store's hands."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.errors import UsageError

decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode


def encode(key: str, value: Any) -> bytes:
    """Make bytes of a value, or say why it cannot be stored."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"the value of {key!r} cannot be stored: {error}") from None


def checked(key: Any) -> str:
    """Give the key if it can be one: a string that has a form in UTF-8."""
    if type(key) is str and (key.isascii() or _has_bytes(key)):
        return key
    raise UsageError(f"a key is a string, not {key!r}")


def _has_bytes(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def end_of_prefix(prefix: str) -> str | None:
    """Give the first key behind all that begin so; None if nothing is behind them."""
    rest = prefix.rstrip("\U0010ffff")
    if not rest:
        return None
    following = ord(rest[-1]) + 1
    return rest[:-1] + chr(0xE000 if following == 0xD800 else following)
