"""A live picture of a running cluster, server or lock directory: read-only, on a page of this machine.

Commands call `require` before they import a module of this package: pages need the extra `web`. The pages
of the laboratory are served by the same application and need the extra `explore`, too.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from coterie.errors import ConfigError

ASSETS = Path(__file__).parent / "assets"
LIBRARIES = {"web": ("starlette", "uvicorn"), "explore": ("numpy",)}


def require(*more: str) -> None:
    """Raise a `ConfigError` that says what to install if a library of `web` or of more extras is missing."""
    extras = ("web", *more)
    libraries = [library for extra in extras for library in LIBRARIES[extra]]
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"pages in the browser need {' and '.join(missing)}:"
            f" pip install 'coterie[{','.join(extras)}]'"
        )
