"""What the tests of the algorithms share: stepping one process by hand, exploring, breaking a line."""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.catalogue import find
from coterie.lab.explore import check
from coterie.process import Channel, Outbox, Process, Seat, seat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore import Verdict


class Hand:
    """One process with its user, stepped by hand; each step returns what it sent and told."""

    def __init__(self, process: Process[Any]) -> None:
        self.seat: Seat = seat(process)

    @property
    def process(self) -> Any:
        return self.seat.process

    def call(self, name: str) -> list[Any]:
        out = self._out()
        self.seat.call(name, out)
        return [*out.sends, *out.events]

    def receive(self, sender: int, message: Any) -> list[Any]:
        out = self._out()
        self.seat.receive(sender, message, out)
        return [*out.sends, *out.events]

    def ring(self, timer: str) -> list[Any]:
        out = self._out()
        self.seat.ring(timer, out)
        return [*out.sends, *out.events]

    def _out(self) -> Outbox[Any]:
        return Outbox(self.seat.process.me)


def build(
    name: str, size: int, variant: str | None = None, **parameters: str
) -> Sequence[Process[Any]]:
    """Build the processes of a catalogue algorithm."""
    entry = find(name)
    return entry.build(entry.setup(size, variant, parameters))


def explore(
    name: str,
    size: int,
    entries: int = 1,
    *,
    variant: str | None = None,
    channel: Channel | None = None,
    **parameters: str,
) -> Verdict:
    """Explore a catalogue algorithm exhaustively."""
    return check(build(name, size, variant, **parameters), entries=entries, channel=channel)


@dataclass(frozen=True)
class Mutant:
    """A line of an algorithm, broken; an exploration of that size must notice."""

    old: str
    new: str
    size: int = 3
    entries: int = 1
    channel: Channel | None = None


def broken(module_name: str, mutant: Mutant) -> ModuleType:
    """Import the module anew with the mutant's line in it."""
    original = importlib.import_module(module_name)
    source = inspect.getsource(original)
    assert source.count(mutant.old) == 1, f"{mutant.old!r} stands {source.count(mutant.old)} times"
    module = ModuleType(f"{module_name}_broken")
    module.__file__ = original.__file__
    sys.modules[module.__name__] = module  # where msgspec looks up the types of fields
    code = compile(source.replace(mutant.old, mutant.new), str(original.__file__), "exec")
    exec(code, module.__dict__)  # noqa: S102 - the source is our own, with one line changed
    return module


KindT = TypeVar("KindT")


def broken_class(kind: type[KindT], old: str, new: str) -> type[KindT]:
    """Return the class with one piece of its own text replaced; it stands there exactly once.

    A mutant names a class and a line of it, so that it stays right when the class moves to another
    file. The module of the class is executed again, in a namespace of its own.
    """
    original = sys.modules[kind.__module__]
    text, whole = inspect.getsource(kind), inspect.getsource(original)
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {kind.__name__}"
    module = ModuleType(f"{original.__name__}_broken")
    module.__file__ = original.__file__
    sys.modules[module.__name__] = module  # where msgspec looks up the types of fields
    code = compile(whole.replace(text, text.replace(old, new)), str(original.__file__), "exec")
    exec(code, module.__dict__)  # noqa: S102 - the source is our own, with one line changed
    made: type[KindT] = getattr(module, kind.__name__)
    return made
