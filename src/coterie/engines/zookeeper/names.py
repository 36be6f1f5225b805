"""How locks and entries are named as nodes of ZooKeeper.

The queue of a lock is the node `q/LOCK`, its entries are the children of it:
`x-PARTICIPANT-ATTEMPT-SINCE-PROCESS-SEQUENCE` (`s-` where it shares), of which ZooKeeper appends the
sequence. Everything that others want to know stands in the name, so one read lists a queue as it was at
one moment.

A sequence has 32 bits with a sign. What ZooKeeper appends after the last positive one is in no order, so no entry
stands in a queue any more from `SEQUENCE_MAX` on, until it is empty and its node is made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from coterie.engines.queue.nonsense import author_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.engines.queue.server import Author, Ticket

RESERVED = (".", "..")  # cannot be nodes
DIGITS_MAX = 20
SEQUENCE_MAX = 2**31 - 2**24  # as many as that may ask for a lock while those before are served


def escape(lock: str) -> str:
    """Return the node of a lock: with `:` for `/`, and other characters than letters and digits as in a URL."""
    return f"={lock}" if lock in RESERVED else quote(lock, safe="/").replace("/", ":")


def unescape(node: str) -> str:
    """Return the lock of a node."""
    return node[1:] if node.startswith("=") else unquote(node.replace(":", "/"))


class QueueNode(NamedTuple):
    """An entry, as its name tells of it."""

    sequence: int  # in the order of creation, as long as the queue is not removed
    name: str
    shared: bool
    author: Author


def prefix(ticket: Ticket, participant: str) -> str:
    """Return how the name of an entry begins: no other attempt has the same."""
    return f"{'s' if ticket.shared else 'x'}-{participant}-{ticket.attempt}-"


def stem(ticket: Ticket, author: Author) -> str:
    """Return the name of an entry without its sequence."""
    process = quote(author.process, safe=":")
    return f"{prefix(ticket, author.participant)}{round(author.since * 1000)}-{process}-"


def line(names: Iterable[str]) -> list[QueueNode]:
    """Return the entries of a queue in their order; what is no entry of ours is left aside."""
    found = []
    for name in names:
        mode, *rest = name.split("-", 4)
        process, _, sequence = rest[-1].rpartition("-") if len(rest) == 4 else ("", "", "")
        if mode in ("x", "s") and _is_number(sequence) and _is_number(rest[2]):
            author = author_of(rest[0], unquote(process), int(rest[2]) / 1000)
            found.append(QueueNode(int(sequence), name, mode == "s", author))
    return sorted(found)


def is_worn(path: str) -> bool:
    """Return True if an entry, by its path, may not stay: the sequence of its queue is nearly used up."""
    sequence = path.rpartition("-")
    return int(sequence[2]) >= SEQUENCE_MAX or sequence[0].endswith("-")  # that is a sign


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < DIGITS_MAX


def in_the_way(nodes: Iterable[QueueNode], own: QueueNode) -> list[QueueNode]:
    """Return the entries that have to go first: of those before ours all, or those that do not share."""
    return [
        node for node in nodes if node.sequence < own.sequence and not (node.shared and own.shared)
    ]
