"""A folder of this machine, for locks that are files: there is no server, but its files can be removed."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from coterie.lab.servers.supplier import FREES_AT_ONCE, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FileSupplier:
    """A directory of this machine; there is no server."""

    name = "file"
    lease = 1.0
    port = 0
    can = frozenset({FREES_AT_ONCE, VALUES})

    def __init__(self, folder: Path) -> None:
        """Lock in this folder."""
        self.folder = folder

    def url(self, port: int | None = None) -> str:
        """Name the folder."""
        return f"file:{self.folder}"

    def clean(self) -> None:
        """Remove what is in the folder, as cleaners of temporary files do."""
        for each in self.folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)

    def kill(self) -> None:
        """Raise: there is no server, and it does not say that it restarts."""
        raise AssertionError("there is no server: it does not say that it restarts")

    start = suspend = resume = kill


@contextlib.contextmanager
def file(folder: Path) -> Iterator[FileSupplier]:
    """Make a folder."""
    folder.mkdir()
    yield FileSupplier(folder)
