"""What is wrong with connections, in the log: with the address of the peer, and with a limit.

Any program that reaches the port of a node can make it log a line, as often as it likes. So the lines of
a minute are bounded, for each address and in all, and what was left out is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from coterie import system

if TYPE_CHECKING:
    from coterie.cluster.wire.connection import Connection

PERIOD_SECONDS = 60.0
LINES_PER_ADDRESS_MAX = 10  # in a period
LINES_MAX = 100  # in a period, of all addresses
UNKNOWN_KIND = "Invalid value ", " - at `$[0]`"  # msgspec's words about the tag of a frame

logger = logging.getLogger("coterie.cluster")


def describe_fault(error: Exception) -> str:
    """Return what is wrong with a frame; one of an unknown kind may be of another version."""
    text = str(error)
    if text.startswith(UNKNOWN_KIND[0]) and text.endswith(UNKNOWN_KIND[1]):
        kind = text.removeprefix(UNKNOWN_KIND[0]).removesuffix(UNKNOWN_KIND[1])
        return f"a frame of a kind that this version of coterie does not know: {kind}"
    return text


class Complaints:
    """The complaints of one listener about the programs that call it."""

    def __init__(self) -> None:
        """Begin with nothing logged."""
        self._since = system.now()
        self._lines: Counter[str] = Counter()  # of this period, by address; bounded by `LINES_MAX`
        self._left_out = 0

    def log(self, connection: Connection, reason: str) -> None:
        """Log a line about a connection, unless there have been too many."""
        if system.now() - self._since >= PERIOD_SECONDS:
            self.close()
        address = connection.peer.rpartition(":")[0]
        lines = self._lines.get(address, 0)
        if lines >= LINES_PER_ADDRESS_MAX or self._lines.total() >= LINES_MAX:
            self._left_out += 1
            return
        self._lines[address] += 1
        logger.warning(
            "connection with %(address)s refused: %(reason)s",
            {"address": connection.peer, "reason": reason},
            extra={"event": "connection-refused"},
        )

    def close(self) -> None:
        """End a period: log how many lines were left out in it, and begin the next one."""
        if self._left_out:
            logger.warning(
                "%(refused)d more connections were refused, which are not listed: at most %(limit)d lines a minute"
                " are logged for an address",
                {"refused": self._left_out, "limit": LINES_PER_ADDRESS_MAX},
                extra={"event": "refusals-left-out"},
            )
        self._since = system.now()
        self._lines.clear()
        self._left_out = 0
