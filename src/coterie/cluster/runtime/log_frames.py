"""The frames of a log on disk: length, checksum, content. What a crash has torn is the end of the file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from coterie.cluster.runtime.durable import open_private

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

HEAD = struct.Struct(">II")  # length and checksum of what follows


def open_log(path: Path, mode: Literal["wb", "ab"]) -> FileIO:
    """Open a file that its owner alone can read, if it is made here."""
    return open(path, mode, buffering=0, opener=open_private)


def framed(content: bytes) -> bytes:
    """Return a frame with its head."""
    return HEAD.pack(len(content), crc32(content)) + content


def unframed(content: bytes) -> tuple[list[bytes], int]:
    """Return the frames up to the first that is not sound, and where the last of them ends."""
    frames = []
    place = 0
    while place + HEAD.size <= len(content):
        length, checksum = HEAD.unpack_from(content, place)
        frame = content[place + HEAD.size : place + HEAD.size + length]
        if not length or len(frame) < length or crc32(frame) != checksum:
            # sometimes: a record at the end of a log is torn
            break
        frames.append(frame)
        place += HEAD.size + length
    return frames, place


def is_torn(content: bytes, end: int) -> bool:
    """Return whether what follows the sound frames can be one that a crash has cut short."""
    rest = content[end:]
    if len(rest) < HEAD.size or not any(rest):
        return True
    length, _ = HEAD.unpack_from(rest)
    return HEAD.size + int(length) >= len(rest)
