"""Finding and changing the logical times in a process or a message, by the types of its fields."""

from __future__ import annotations

import functools
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from coterie.clocks import LogicalTime

if TYPE_CHECKING:
    from collections.abc import Callable


def change_times(value: Any, change: Callable[[int], int]) -> Any:
    """Copy a process or a message with its logical times changed, however deep they are."""
    return _change(value, type(value), change)


def earliest(value: Any) -> int | None:
    """Return the least logical time in a process or a message, if there is any."""
    times: list[int] = []

    def note(time: int) -> int:
        times.append(time)
        return time

    change_times(value, note)
    return min(times, default=None)


def _change(value: Any, kind: Any, change: Callable[[int], int]) -> Any:
    kinds = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if isinstance(value, int):
        return change(value) if LogicalTime in kinds else value
    if isinstance(value, msgspec.Struct):
        hints = _hints(type(value))
        fields = value.__struct_fields__
        new = {name: _change(getattr(value, name), hints[name], change) for name in fields}
        return msgspec.structs.replace(value, **new)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        hints = _hints(type(value))
        named = zip(value._fields, value, strict=True)
        return type(value)(*(_change(item, hints[name], change) for name, item in named))
    items = next((get_args(each) for each in kinds if get_origin(each) is type(value)), ())
    return _change_items(value, items, change) if items else value


def _change_items(value: Any, kinds: tuple[Any, ...], change: Callable[[int], int]) -> Any:
    """Change what is in a container, of which `kinds` are the types in the brackets."""
    if isinstance(value, dict):
        key, item = kinds
        return {_change(k, key, change): _change(v, item, change) for k, v in value.items()}
    if isinstance(value, tuple) and kinds[-1] is not Ellipsis:
        return tuple(_change(*pair, change) for pair in zip(value, kinds, strict=True))
    return type(value)(_change(item, kinds[0], change) for item in value)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
