"""What a voter has on stable storage: everything that it must not forget over a crash.

The bound of its tokens is written seldom, and all else only when the configuration changes. Until
then the value is the bound and the time to abstain, as text, which a world may keep apart: before
configurations had numbers, the value was the bound alone.
"""

from __future__ import annotations

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.algorithms.mutex.quorum.leased.frames import Attempt, Proposal
from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
from coterie.errors import ConfigError


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """The value."""

    bound: int = 0  # no token above it was ever handed out
    configuration: Configuration | None = None  # None: number 0, or none at all
    promised: Attempt | None = None
    accepted: Proposal | None = None
    abstention: float = 0.0  # for how long to give no votes after a start; 0: by number 0
    values: tuple[tuple[str, StoredValue], ...] = ()  # of locks, by name; none before number 1

    def encode(self) -> bytes:
        """Return the bytes to save."""
        if self.configuration is None and self.promised is None:
            text = f"{self.bound} {self.abstention!r}" if self.abstention else str(self.bound)
            return text.encode()
        return msgspec.msgpack.encode(self)


def is_unnumbered(value: bytes) -> bool:
    """Return whether a value was saved before anything was decided or promised."""
    return value.partition(b" ")[0].isdigit()


def read_saved(value: bytes) -> Saved:
    """Return what was saved; raise `ConfigError` if this is nothing that a voter has saved."""
    if not value:
        return Saved()
    try:
        if is_unnumbered(value):
            bound, _, abstention = value.partition(b" ")
            return Saved(int(bound), abstention=float(abstention or 0))
        return msgspec.msgpack.decode(value, type=Saved)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"what the voter has saved cannot be read: {error}") from None
