"""Pages for people: the laboratory and the dashboard of a running cluster, served on this machine.

Only the commands that show pages import it, by way of `require`, since it needs the extra `web`;
the laboratory searches, and needs `explore` too.
"""

from __future__ import annotations

import importlib.util

from coterie.errors import ConfigError

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
