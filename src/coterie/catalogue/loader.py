"""Algorithms of a user's own: a class or an `ALGORITHM` of a file, a module or an installed package.

    ./naive.py:Naive        a class, or an `Algorithm`, of a file
    ./naive.py              the only one of the file, or its `ALGORITHM`
    package.module:Naive    of a module that can be imported from here
    naive                   what an installed package offers in the group `coterie.algorithms`

To load is to run code. So references are followed only by `load`, for what a user has typed; an
address of a page, a trace or a message names an algorithm that was loaded before, or none.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.catalogue.algorithm import Algorithm, Cost, Costs, ElectionCosts, Variant
from coterie.catalogue.lookup import REFERENCE
from coterie.errors import UsageError
from coterie.process import Election, Mutex, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from coterie.catalogue.algorithm import Setup

GROUP = "coterie.algorithms"  # of entry points
NAME = "ALGORITHM"  # of the value that describes the algorithm of a module
UNSTATED = Cost(0.0, math.inf, "")  # of an algorithm that says nothing of its costs
STR_OR_ANY = msgspec.inspect.StrType | msgspec.inspect.AnyType
VERBS = {Mutex: ("acquire", "release"), Election: ("elect",)}

_loaded: dict[str, Algorithm] = {}
_files: dict[tuple[Path, str], ModuleType] = {}  # by place and text


def loaded() -> dict[str, Algorithm]:
    """Return what was loaded so far, by the references that were given."""
    return _loaded


def load(reference: str, source: str | None = None) -> Algorithm:
    """Import what a reference names; raise `UsageError` with what is wrong with it.

    A file is imported again if its text has changed. The text may be given by a process that has
    it, for one that has not.
    """
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise UsageError(f"expected FILE.py:Class or package.module:Class, got {reference!r}")
    if found["file"]:
        module, name = _import_file(Path(found["file"]), source), found["of_file"]
    else:
        module, name = _import_module(found["module"]), found["name"]
    if reference not in _loaded or _loaded[reference].process.__module__ != module.__name__:
        where = found["file"] or found["module"]
        value = _attribute(module, name, where) if name else _only_one(module, where)
        _loaded[reference] = describe(value, reference)
    return _loaded[reference]


@functools.cache
def installed() -> dict[str, EntryPoint]:
    """Return what installed packages offer, by name; nothing is imported."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes long, and is rarely asked

    return {point.name: point for point in entry_points(group=GROUP)}


def load_installed(point: EntryPoint) -> Algorithm:
    """Import what an installed package offers; raise `UsageError` if it is no algorithm."""
    if point.name not in _loaded:
        where = f"{point.value}, which is installed as {point.name!r},"
        try:
            value = point.load()
        except Exception as error:  # noqa: BLE001 - a package may raise anything
            raise UsageError(f"{where} cannot be imported: {error}") from None
        _loaded[point.name] = describe(value, point.name)
    return _loaded[point.name]


def describe(value: Any, name: str) -> Algorithm:
    """Make an entry of the catalogue of a class, or of an `Algorithm` under another name."""
    if isinstance(value, Algorithm):
        return msgspec.structs.replace(value, name=name, own=True)
    _check_class(value, name)
    doc = (value.__doc__ or "").strip().partition("\n")[0]
    elects = issubclass(value, Election)
    costs: Costs | ElectionCosts = (
        ElectionCosts(*[unstated] * 3) if elects else Costs(*[unstated] * 5)
    )
    return Algorithm(
        name=name,
        family="election" if elects else "own",
        summary=doc,
        citation="",
        process=value,
        build=_Builder(value),
        costs=costs,
        assumes=(),
        tolerates=(),
        causal=False,
        variants=(Variant("", doc),),
        own=True,
    )


class _Builder(msgspec.Struct, frozen=True):
    """Builds the processes of a class that needs to know its number and how many there are."""

    process: type[Any]

    def __call__(self, setup: Setup) -> Sequence[Process[Any]]:
        return [self.process(me=me, size=setup.size) for me in range(1, setup.size + 1)]


def unstated(_: Setup) -> Cost:
    """Say nothing of a cost."""
    return UNSTATED


# Importing


def _import_file(path: Path, source: str | None) -> ModuleType:
    home = path.resolve()
    text = read(path) if source is None else source
    if (home, text) in _files:
        return _files[home, text]
    try:
        code = compile(text, str(home), "exec")
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    # A name of its own, so that a file may be called `queue.py`: msgspec and pickle look it up.
    name = f"coterie_file_{len(_files)}_{home.stem}"
    spec = importlib.util.spec_from_loader(name, None, origin=str(home))
    assert spec is not None, "a name and no loader are enough"
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(home)
    sys.modules[name] = module
    try:
        with _importable(home.parent):
            exec(code, module.__dict__)  # noqa: S102 - the user has named this file to be run
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        del sys.modules[name]
        raise UsageError(f"{path}{_line(error, str(home))}: {_what(error)}") from None
    _files[home, text] = module
    return module


def read(path: str | Path) -> str:
    """Return the text of a file; raise `UsageError` if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def _import_module(name: str) -> ModuleType:
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"no module named {error.name!r} is installed or in this directory"
            ) from None
        raise UsageError(f"{name} cannot be imported: {_what(error)}") from None
    except SyntaxError as error:
        raise UsageError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        raise UsageError(f"{name} cannot be imported: {_what(error)}") from None


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported, as Python does for a script that is there."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _line(error: BaseException, home: str) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == home
    ]
    return f", line {lines[-1]}" if lines else ""


def _what(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "it exits when it is imported: guard that by if __name__ == '__main__'"
    return f"{type(error).__name__}: {error}"


# What a module has


def _only_one(module: ModuleType, where: str) -> Any:
    if hasattr(module, NAME):
        return getattr(module, NAME)
    found = _classes(module)
    if len(found) == 1:
        return getattr(module, found[0])
    if not found:
        raise UsageError(f"{where} has no class derived from Mutex or Election, and no {NAME}")
    raise UsageError(
        f"{where} has several algorithms: choose {where}:{found[-1]} or another of {', '.join(found)}"
    )


def _classes(module: ModuleType) -> list[str]:
    """Name the classes of a module that are whole algorithms, in the order written."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and _is_algorithm(value)
        and value.__module__ == module.__name__
        and not _missing(value)
    ]


def _attribute(module: ModuleType, name: str, where: str) -> Any:
    if not hasattr(module, name):
        choices = [*_classes(module), *[NAME] * hasattr(module, NAME)]
        has = f"it has {', '.join(choices)}" if choices else "it has no algorithm"
        raise UsageError(f"{where} has no {name}; {has}")
    return getattr(module, name)


def _check_class(value: Any, name: str) -> None:
    """Refuse what cannot be built as a process for each number, or whose states cannot be saved."""
    if not isinstance(value, type):
        raise UsageError(f"{name} is {value!r}, neither a class nor an Algorithm")
    kind = value.__name__
    if not _is_algorithm(value):
        raise UsageError(f"{kind} is no algorithm; {_what_is_missing(value)}")
    missing = _missing(value)
    if missing:
        raise UsageError(f"{kind} is abstract: define {' and '.join(missing)}")
    try:
        fields = msgspec.structs.fields(value)
        info = msgspec.inspect.type_info(value)
        msgspec.msgpack.Decoder(value)
    except NameError as error:
        raise UsageError(
            f"the fields of {kind} cannot be read: {error}; import it, and not under TYPE_CHECKING"
        ) from None
    except TypeError as error:
        raise UsageError(f"the fields of {kind} cannot be saved: {error}") from None
    _check_fields(kind, fields)
    assert isinstance(info, msgspec.inspect.StructType)
    for described in info.fields:
        problem = _problem(described.type)
        if problem:
            raise UsageError(f"the field {described.name} of {kind} {problem}")


def _check_fields(kind: str, fields: Sequence[msgspec.structs.FieldInfo]) -> None:
    for field in fields:
        if field.name in ("inputs", "properties"):
            raise UsageError(
                f"the field {field.name} of {kind} hides what classes say: annotate it as a ClassVar"
            )
    if not any(field.name == "size" for field in fields):
        raise UsageError(f"{kind} has no field size: add `size: int`, the number of processes")
    for field in fields:
        if field.required and field.name not in ("me", "size"):
            raise UsageError(
                f"the field {field.name} of {kind} needs a default: only me and size are given"
            )


def _is_algorithm(kind: type[Any]) -> bool:
    """Return whether it is of a known kind, or says what its user may call or what to judge it by."""
    if issubclass(kind, Mutex | Election):
        return True
    return issubclass(kind, Process) and bool(_inputs(kind) or kind.properties)


def _inputs(kind: type[Process[Any]]) -> Sequence[str]:
    """Return what its user may call; a field of that name is another thing, and is refused later."""
    found: Any = kind.inputs
    return found if isinstance(found, tuple | list) else ()


def _what_is_missing(kind: type[Any]) -> str:
    if issubclass(kind, Process):
        return "it derives from Process alone: say its inputs and its properties"
    return "derive it from Mutex or Election of coterie.process"


def _missing(kind: type[Any]) -> list[str]:
    """Name the methods that a class has to define and does not."""
    own = () if issubclass(kind, Mutex | Election) else _inputs(kind)
    return [verb for verb in own if not hasattr(kind, verb)] + [
        verb
        for base, verbs in VERBS.items()
        if issubclass(kind, base)
        for verb in verbs
        if getattr(getattr(kind, verb), "__isabstractmethod__", False)
    ]


def _problem(found: msgspec.inspect.Type) -> str | None:
    """Say why values of a type cannot be compared by their bytes, if they cannot."""
    match found:
        case msgspec.inspect.DictType(key_type=key) if not isinstance(key, STR_OR_ANY):
            return (
                "is a dict whose keys are not str: states are compared by their bytes; use a list or"
                " a tuple with a place for each process, or str keys"
            )
        case msgspec.inspect.CustomType(cls=kind):
            return f"is of the class {kind.__name__}, which cannot be saved: derive it from msgspec.Struct"
        case msgspec.inspect.UnionType(types=types):
            inner = list(types)
        case msgspec.inspect.DictType(value_type=value):
            inner = [value]
        case msgspec.inspect.TupleType(item_types=items):
            inner = list(items)
        case msgspec.inspect.CollectionType(item_type=item):
            inner = [item]
        case _:
            inner = []
    return next((problem for each in inner if (problem := _problem(each))), None)
