"""Letters between programs: each program has an object in which others put them, and looks into it now and then.

A letter arrives once or not at all. It is lost if too many others come before it is read, and if the program has no box yet. The
box is removed with the session of its program.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.s3.bucket import PAUSES
from coterie.engines.s3.records import LETTERS_MAX, MailObject, read, write

if TYPE_CHECKING:
    from coterie.engines.s3.bucket import Bucket
    from coterie.engines.s3.records import Keys


class Mailbox:
    """The letters to one program, and those that it sends."""

    def __init__(self, bucket: Bucket, keys: Keys, participant: str) -> None:
        """Prepare; `make` makes the object."""
        self.is_made = False
        self._bucket = bucket
        self._keys = keys
        self._key = keys.mail(participant)
        self._seen: frozenset[str] = frozenset()  # letters that were there when we looked last
        self._outgoing: dict[
            str, list[bytes]
        ] = {}  # by participant; the first that sends takes all

    async def make(self) -> None:
        """Have letters from now on."""
        if not self.is_made:
            await self._bucket.put(self._key, write(MailObject()), None)
            self.is_made = True

    async def read(self) -> list[bytes]:
        """Return the letters that have come since the last look."""
        found = await self._bucket.get(self._key)
        if found is None:
            self.is_made = False
            return []
        letters = dict(read(self._bucket, found.body, MailObject).letters)
        new = [letter for name, letter in letters.items() if name not in self._seen]
        self._seen = frozenset(letters)
        return new

    async def send(self, participant: str, letter: bytes) -> None:
        """Put a letter into the box of another program, if it has one.

        Letters to a program to which others are under way go with the next write: each write is paid for.
        """
        outgoing = self._outgoing.get(participant)
        if outgoing is not None:
            outgoing.append(letter)
            return
        outgoing = self._outgoing[participant] = [letter]
        try:
            while outgoing:
                letters, outgoing[:] = outgoing[:], ()
                await self._put(participant, letters)
        finally:
            del self._outgoing[participant]

    async def _put(self, participant: str, letters: list[bytes]) -> None:
        key = self._keys.mail(participant)
        named = [(system.secret(8).hex(), letter) for letter in letters]
        for pause in PAUSES:
            found = await self._bucket.get(key)
            if found is None:
                return
            kept = (*read(self._bucket, found.body, MailObject).letters, *named)[-LETTERS_MAX:]
            if await self._bucket.put(key, write(MailObject(letters=kept)), found.etag):
                return
            await asyncio.sleep(pause * system.random().random())

    async def remove(self) -> None:
        """Have no more letters."""
        if self.is_made:
            await self._bucket.delete(self._key)
