"""Which pages there are: those of this package, and a file of the user's own."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import UsageError
from coterie.lab.prove import pages
from coterie.lab.prove.link import Link
from coterie.lab.prove.page import Page
from coterie.lab.prove.slips import look_for_slips_in_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

# Algorithms whose processes are those of another one, over a coterie of their own.
SAME_CODE = {"majority": "maekawa", "weighted": "maekawa"}


@dataclass(frozen=True)
class Entry:
    """A page, the algorithm whose code is held against it, and how, if there is a link."""

    name: str  # as it was asked for
    page: Page
    algorithm: str
    link: Link | None
    words: Mapping[str, Any]  # that its file gives names to


def names() -> list[str]:
    """Name all that has a page."""
    return sorted([*_modules(), *SAME_CODE])


@functools.cache
def _modules() -> dict[str, str]:
    """Find the module of each page; rooms hold pages of one kind, and no two are called alike."""
    found = pkgutil.walk_packages(pages.__path__, f"{pages.__name__}.")
    paths = [module.name for module in found if not module.ispkg]
    return {path.rpartition(".")[2].replace("_", "-"): path for path in paths}


def find(name: str) -> Entry:
    """Return the page of this name, or that of a file which ends in .py."""
    if name.endswith(".py"):
        return _entry(_import_file(Path(name)), name)
    if name not in names():
        raise UsageError(
            f"there is no page for {name!r}: choose from {', '.join(names())}, or a FILE.py with a PAGE"
        )
    module = _modules()[SAME_CODE.get(name, name)]
    return _entry(importlib.import_module(module), name)


def _entry(module: ModuleType, name: str) -> Entry:
    page, link = getattr(module, "PAGE", None), getattr(module, "LINK", None)
    if not isinstance(page, Page):
        raise UsageError(f"{name} has no page: give it a PAGE = Page(...) at its top level")
    look_for_slips_in_file(inspect.getsource(module), page.name)
    if link is not None and not isinstance(link, Link):
        raise UsageError(f"{name}: LINK must be a coterie.lab.prove.link.Link, got {link!r}")
    of_name = name in SAME_CODE or name.endswith(".py")
    algorithm = name if of_name or link is None else link.algorithm
    return Entry(name, page, algorithm, link, vars(module))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"coterie_page_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where the text of its rules is looked up
    try:
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a file of the user raises
        raise UsageError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    return module


def choose_variant(entry: Entry, variant: str | None) -> Page:
    """Return the page of a variant: one that is linked is the page itself, a flawed one has a copy."""
    sound = entry.link.variants if entry.link is not None else ()
    if variant is None or variant in sound:
        return entry.page
    if variant in entry.page.flawed:
        return entry.page.flawed[variant]
    known = ", ".join([*sound, *entry.page.flawed])
    raise UsageError(
        f"the page of {entry.page.name} has no variant {variant!r}: choose from {known}"
    )
