"""Pages for people: the laboratory and the dashboard of a running cluster, served on this machine.

Only the commands that show pages import it, by way of `require`, since it needs the extra `web`.
"""

from __future__ import annotations

import importlib.util

from coterie.errors import ConfigError

LIBRARIES = ("starlette", "uvicorn")


def require() -> None:
    """Raise a `ConfigError` that says what to install if a library of the pages is missing."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"pages in the browser need {' and '.join(missing)}: pip install 'coterie[web]'"
        )
