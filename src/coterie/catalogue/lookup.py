"""Look algorithms up: `find` one by its name, or `load` one of a user's own, which runs its file."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import pkgutil
import re

from coterie.catalogue.algorithm import Algorithm, Costs, ElectionCosts, unknown
from coterie.errors import UsageError

PACKAGES = (
    "coterie.algorithms.mutex.permission",
    "coterie.algorithms.mutex.quorum",
    "coterie.algorithms.mutex.token",
    "coterie.algorithms.election",
)
REFERENCE = re.compile(
    r"(?P<file>.+\.py)(:(?P<of_file>\w+))?|(?P<module>[\w.]+):(?P<name>[^\W\d]\w*)"
)


@functools.cache
def algorithms() -> dict[str, Algorithm]:
    """Return all algorithms by name, in the order of the families and then of their names."""
    found: dict[str, Algorithm] = {}
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        for module_info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
            entry = _algorithm_of(f"{package_name}.{module_info.name}")
            if entry is not None:
                found[entry.name] = entry
    return found


def _algorithm_of(module: str) -> Algorithm | None:
    found = getattr(importlib.import_module(module), "ALGORITHM", None)
    return found if isinstance(found, Algorithm) else None


def mutexes() -> dict[str, Algorithm]:
    """Return the algorithms for mutual exclusion."""
    return {name: entry for name, entry in algorithms().items() if isinstance(entry.costs, Costs)}


def elections() -> dict[str, Algorithm]:
    """Return the algorithms that elect a leader."""
    return {
        name: entry
        for name, entry in algorithms().items()
        if isinstance(entry.costs, ElectionCosts)
    }


def find(name: str) -> Algorithm:
    """Look up an algorithm by name, also of an installed package; or by a reference loaded before.

    No file is opened, so that the name may come from anywhere.
    """
    return _only(name) or _own(name) or _any(name)


def is_reference(name: str) -> bool:
    """Return whether this is `FILE.py:Class` or such, rather than a name."""
    return REFERENCE.fullmatch(name) is not None


def load(name: str, source: str | None = None) -> Algorithm:
    """Import the file or module that a reference names, and return its algorithm; `find` a name.

    To import is to run: only for what the user of this program has asked for. A process that does
    not have the file is given its text, by `source_of`.
    """
    if not is_reference(name):
        return find(name)
    from coterie.catalogue import loader  # noqa: PLC0415 - for references alone

    return loader.load(name, source)


def source_of(name: str) -> str | None:
    """Return what lets another process `load` a reference; None for a name, which any can look up.

    It is the text of a file; for a module, which the other process must have, it is empty.
    """
    found = REFERENCE.fullmatch(name)
    if found is None:
        return None
    if not found["file"]:
        return ""
    from coterie.catalogue import loader  # noqa: PLC0415 - see `load`

    return loader.read(found["file"])


def every_algorithm(*, loaded: bool = False) -> dict[str, Algorithm]:
    """Return all algorithms by name: ours, then those of installed packages.

    Those loaded by a reference come last if they are asked for. What cannot be loaded is left out; to
    name it says why.
    """
    from coterie.catalogue import loader  # noqa: PLC0415 - see `load`

    found = dict(algorithms())
    for name, point in loader.installed().items():
        if name not in found:
            with contextlib.suppress(UsageError):
                found[name] = loader.load_installed(point)
    own = {name: each for name, each in loader.loaded().items() if is_reference(name)}
    return {**found, **own} if loaded else found


def _only(name: str) -> Algorithm | None:
    """Find the algorithm where its module has its name, as they all have, and import no other."""
    module = name.replace("-", "_")
    for package in PACKAGES if module.isidentifier() else ():
        home = f"{package}.{module}"
        if importlib.util.find_spec(home) is not None:
            found = _algorithm_of(home)
            if found is not None and found.name == name:
                return found
    return None


def _own(name: str) -> Algorithm | None:
    from coterie.catalogue import loader  # noqa: PLC0415 - see `load`

    if name in loader.loaded():
        return loader.loaded()[name]
    if is_reference(name):
        raise UsageError(
            f"{name!r} is not loaded: check, simulate, compare and lab take it on the command line;"
            " in Python, call coterie.catalogue.load first"
        )
    point = loader.installed().get(name)
    return None if point is None else loader.load_installed(point)


def _any(name: str) -> Algorithm:
    try:
        return algorithms()[name]
    except KeyError:
        raise UsageError(unknown("algorithm", name, every_algorithm())) from None
