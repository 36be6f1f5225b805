"""The engine behind `file:` and `file:/some/directory`."""

from __future__ import annotations

import asyncio
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from coterie.coordinator.engine import Party
from coterie.engines.file.claim import LOOK_AGAIN_SECONDS, Author, FileClaim
from coterie.engines.file.queue import Queue
from coterie.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

VACANCY_SECONDS = 0.1


class FileEngine:
    """Grants locks to the processes that share a directory of this machine."""

    def __init__(self, folder: Path) -> None:
        """Use that directory; it is made when the engine is opened."""
        self.folder = folder
        self._claims: weakref.WeakSet[FileClaim] = weakref.WeakSet()

    async def open(self) -> None:
        """Make the directory, readable by this user alone unless it is there already."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"the lock directory {self.folder}: {error.strerror}") from None

    async def close(self) -> None:
        """End all claims."""
        for claim in list(self._claims):
            claim.close()

    def place(self, name: str, *, shared: bool, ttl: float | None, wait: bool) -> FileClaim:
        """Ask for a lock. The lease does not matter: the system knows at once who is dead."""
        claim = FileClaim(self.folder, Queue(self.folder, name), shared=shared, wait=wait)
        self._claims.add(claim)
        return claim

    async def holders(self, name: str) -> list[Party]:
        """Name who is inside: the first, or all who share before the first who does not."""
        return self._parties(name)[0]

    async def waiters(self, name: str) -> list[Party]:
        """Name who waits, the next first."""
        return self._parties(name)[1]

    async def watch(self, name: str) -> AsyncGenerator[Party | None, None]:
        """Follow the holder: its end is noticed at once, a successor within a tenth of a second."""
        queue = Queue(self.folder, name)
        seen: Party | None = None
        first = True
        while True:
            holders = self._parties(name)[0]
            now = holders[0] if holders else None
            if first or now != seen:
                yield now
            first, seen = False, now
            if now is None or now.token is None:
                await asyncio.sleep(VACANCY_SECONDS)
            else:
                await queue.place(now.token, shared=now.shared).wait(LOOK_AGAIN_SECONDS)

    def _parties(self, name: str) -> tuple[list[Party], list[Party]]:
        holders: list[Party] = []
        waiters: list[Party] = []
        for place, content in Queue(self.folder, name).living():
            author = msgspec.json.decode(content, type=Author)
            free = not waiters and (not holders or (place.shared and holders[0].shared))
            token = place.number if free else None
            party = Party(name, author.owner, author.since, token, place.shared)
            (holders if free else waiters).append(party)
        return holders, waiters


def make_engine(url: str) -> FileEngine:
    """Make the engine of a URL: `file:` for the user's own directory, or `file:/path`."""
    path = unquote(url.removeprefix("file:"))
    if path.startswith("//"):
        path = path.removeprefix("//")
        if not path.startswith("/"):
            raise UsageError(
                f"{url}: a directory of this machine is meant, such as file:/var/lib/x"
            )
    return FileEngine(Path(path).absolute() if path else default_folder())


def default_folder() -> Path:
    """Find the user's own directory: COTERIE_DIR, or `coterie` among the XDG state.

    Not the runtime directory: that is emptied when the user logs out, and the tokens with it.
    """
    chosen = os.environ.get("COTERIE_DIR")
    if chosen:
        return Path(chosen).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "coterie"
