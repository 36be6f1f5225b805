"""The value of a lock, as it lies with a voter (section 21, docs/protocol/values.md)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

VALUES_PROTOCOL = 8  # of the configuration: before it, no voter keeps values
DATA_BYTES_MAX = 1 << 16
INLINE_BYTES_MAX = 1 << 10  # that come along with a vote; more is fetched

Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Writer: TypeAlias = Annotated[str, Meta(max_length=512)]
Content: TypeAlias = Annotated[bytes, Meta(max_length=DATA_BYTES_MAX)]
Stamp: TypeAlias = tuple[
    int, int
]  # a version: the token of the hold that wrote, and the number of the write in it


class StoredValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One version of a value; the default is what a name has that was never written."""

    token: Count = 0
    sequence: Count = 0
    data: Content | None = None  # None: it was deleted, or never written
    written: float = 0.0  # by the writer's time of day; the protocol only passes this on
    by: Writer = ""  # the writer, for people; the same
    doubtful: bool = False  # a later one may have been lost with voters that were given up by force
    # 21.8: a copy of what may be a dead write. A holder takes it as any other report and settles; no
    # reader returns it, and no agreement counts it.
    loose: bool = False
    # The hold that wrote the data, and the number of the write there. Who settles writes the same data as a version of
    # its own, and to programs it is the same value.
    origin: tuple[Count, Count] = (0, 0)

    @property
    def version(self) -> Stamp:
        """Which of two values is the later one."""
        return (self.token, self.sequence)

    @property
    def size(self) -> int:
        """How much room its data takes."""
        return 0 if self.data is None else len(self.data)

    def without_data(self) -> StoredValue:
        """Return what a report says where the data is too large to come along."""
        return msgspec.structs.replace(self, data=None)


NOTHING = StoredValue()
