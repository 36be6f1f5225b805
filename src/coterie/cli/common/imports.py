"""Loading modules in a command, which takes longer where garbage is looked for meanwhile."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def lasting_imports() -> Iterator[None]:
    """Look for no garbage in what is imported here, now or later: it stays until the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
