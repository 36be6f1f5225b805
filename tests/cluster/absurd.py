"""Values of legal types that make no sense: what a faulty or hostile program may send."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSURD: dict[type, tuple[object, ...]] = {
    int: (0, -1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    float: (0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan")),
    str: ("", "\x1b[2J\n", "x" * 256, "y" * 1_000_000),
    bytes: (b"", b"x" * 33, b"y" * 1000),
}


def absurd(value: Any) -> Iterator[Any]:
    """Generate the value with each of its parts replaced by each absurd one of the same type."""
    if isinstance(value, bool):
        yield not value
    elif type(value) in ABSURD:
        yield from ABSURD[type(value)]
    elif isinstance(value, tuple):
        named = hasattr(value, "_fields")
        yield from (() if named else ((), value * 20_000))
        for position, part in enumerate(value):
            for other in absurd(part):
                parts = [*value[:position], other, *value[position + 1 :]]
                yield type(value)(*parts) if named else tuple(parts)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            for other in absurd(getattr(value, name)):
                yield msgspec.structs.replace(value, **{name: other})


class Drawer:
    """Draws values of any type that messages may have, by seed."""

    numbers = (-(1 << 63), -1, 0, 1, 2, 3, 4, 7, 1 << 40, (1 << 62) + 1, (1 << 64) - 1)
    times = (0.0, -1.0, 1e308, float("inf"), float("nan"))

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)

    def draw(self, kind: Any) -> Any:  # noqa: PLR0911 - a case for each kind of type
        match kind:
            case msgspec.inspect.Metadata(type=inner):
                return self.draw(inner)
            case msgspec.inspect.UnionType(types=types):
                return self.draw(self.dice.choice(types))
            case msgspec.inspect.StructType() | msgspec.inspect.NamedTupleType():
                return kind.cls(*(self.draw(field.type) for field in kind.fields))
            case msgspec.inspect.TupleType(item_types=types):
                return tuple(self.draw(inner) for inner in types)
            case msgspec.inspect.LiteralType(values=values):
                return self.dice.choice(values)
            case msgspec.inspect.DictType(key_type=key, value_type=inner):
                return {self.draw(key): self.draw(inner) for _ in range(self.dice.randrange(3))}
            case msgspec.inspect.VarTupleType(item_type=inner):
                return tuple(self.draw(inner) for _ in range(self.dice.randrange(4)))
            case _:
                return self._plain(kind)

    def _plain(self, kind: Any) -> Any:
        plain: dict[Any, tuple[Any, ...]] = {
            msgspec.inspect.IntType: self.numbers,
            msgspec.inspect.FloatType: self.times,
            msgspec.inspect.StrType: ("", "x"),
            msgspec.inspect.BytesType: (b"", b"x" * 32),
            msgspec.inspect.BoolType: (False, True),
            msgspec.inspect.NoneType: (None,),
        }
        return self.dice.choice(plain[type(kind)])
