"""What several tests of the command line need."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt whoever loses its parent.

    The system then ends nobody for being stopped and an orphan, since a parent of the same session
    is left; so it is in a container whose first process is a shell.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux lets a process adopt others")
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)
    yield
    ctypes.CDLL(None).prctl(set_child_subreaper, 0)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
