"""Keys and values as they are kept: bytes, which cannot be changed from outside."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.errors import UsageError

KEY_LENGTH_MAX = 1 << 16
VALUE_BYTES_MAX = 1 << 23  # half of what goes over a wire at once; a disk would take more

decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode


def encode(key: str, value: Any) -> bytes:
    """Make bytes of a value, or say why it cannot be stored."""
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"the value of {key!r:.99} cannot be stored: {error}") from None
    if len(encoded) > VALUE_BYTES_MAX:
        text = f"{len(encoded):,} bytes, more than {VALUE_BYTES_MAX:,}"
        raise UsageError(f"the value of {key!r:.99} cannot be stored: it takes {text}")
    return encoded


def checked(key: Any) -> str:
    """Return the key if it can be one: a string that has a form in UTF-8."""
    if type(key) is not str or not (key.isascii() or _has_bytes(key)):
        raise UsageError(f"a key must be a string, got {key!r:.99}")
    if len(key) > KEY_LENGTH_MAX:
        raise UsageError(f"a key may have at most {KEY_LENGTH_MAX:,} characters, got {len(key):,}")
    return key


def is_count(number: object) -> bool:
    """Return whether it is a whole number from 1 on."""
    return isinstance(number, int) and number >= 1


def _has_bytes(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def end_of_prefix(prefix: str) -> str | None:
    """Return the first key behind all that begin so; None if nothing is behind them."""
    rest = prefix.rstrip("\U0010ffff")
    if not rest:
        return None
    following = ord(rest[-1]) + 1
    return rest[:-1] + chr(0xE000 if following == 0xD800 else following)
