"""What the processes of a node do, noted while a program asks for it; else nothing is noted.

A node that is not recorded pays one look at an empty table for each input, message and event. While it
is recorded, each of them becomes a record in the memory of the node, up to a bound; further ones are
counted. Records name a message by the number that its letter has on the link between two nodes, so that
the records of all nodes can be put in an order in which nothing arrives before it was sent, whatever
their clocks show.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from coterie import system
from coterie.cluster.runtime.host import decoder
from coterie.trace import AnyRecord, Called, Delivered, Noticed, Rang, Started, sent, told

if TYPE_CHECKING:
    from collections.abc import Hashable

    from coterie.cluster.runtime.host import Hosted
    from coterie.cluster.wire.frames import ClassicMessage
    from coterie.process import Event, Outbox, Payload, ProcessId, Seat

RECORDS_MAX = 100_000  # of one recording at one node
RECORDINGS_MAX = 4  # at a time at one node


class Recording:
    """The records of one recording that have not been fetched."""

    def __init__(self) -> None:
        """Begin with none."""
        self.records: deque[tuple[str, AnyRecord]] = deque()  # each with its lock
        self.left_out = 0
        self._count = 0

    def add(self, lock: str, record: AnyRecord) -> None:
        """Keep a record, or count it if there are too many."""
        if self._count < RECORDS_MAX:
            self._count += 1
            self.records.append((lock, record))
        else:
            self.left_out += 1

    def take(self, most: int) -> list[tuple[str, AnyRecord]]:
        """Return the oldest records, at most so many, and keep them no longer."""
        return [self.records.popleft() for _ in range(min(most, len(self.records)))]


class Tape:
    """The recordings under way at a node, each for the connection that asked for it."""

    def __init__(self, me: ProcessId) -> None:
        """Begin with none, at the node of this number."""
        self.me = me
        self.recordings: dict[Hashable, Recording] = {}

    def begin(self, asker: Hashable) -> bool:
        """Record for an asker from now on; False if there are too many of them."""
        if asker not in self.recordings and len(self.recordings) >= RECORDINGS_MAX:
            return False
        self.recordings[asker] = Recording()
        return True

    def end(self, asker: Hashable) -> None:
        """Record no more for an asker, and forget what it has not fetched."""
        self.recordings.pop(asker, None)

    def note(self, lock: str, record: AnyRecord) -> None:
        """Note what happened to the process of a lock."""
        for recording in self.recordings.values():
            recording.add(lock, record)

    def note_sent(self, lock: str, number: int, to: ProcessId, message: Payload) -> None:
        """Note a message that leaves as the letter of this number."""
        if self.recordings:
            self.note(lock, sent(system.now(), number, self.me, to, message))

    def note_told(self, lock: str, event: Event) -> None:
        """Note what a process tells its user."""
        if self.recordings:
            self.note(lock, told(system.now(), self.me, event))


class TapedProcess:
    """A process as its host drives it, with its inputs noted once they have been handled.

    What a handler refuses has not happened; what it sends and tells is carried out after it has
    returned, and so noted after its input.
    """

    def __init__(self, hosted: Hosted, seat: Seat, lock: str, tape: Tape) -> None:
        """Put a tape between a process and its host."""
        self._hosted = hosted
        self._seat = seat
        self._lock = lock
        self._tape = tape
        self._decode = decoder(hosted.messages)
        self.messages = hosted.messages
        self.receive = hosted.receive

    def start(self, out: Outbox[Any]) -> None:
        """Begin."""
        self._hosted.start(out)
        if self._tape.recordings:
            self._tape.note(self._lock, Started(system.now(), self._tape.me))

    def call(self, verb: str, out: Outbox[Any]) -> None:
        """Let the user acquire or release, or begin an election."""
        self._seat.call(verb, out)
        if self._tape.recordings:
            self._tape.note(self._lock, Called(system.now(), self._tape.me, verb))

    def take(self, sender: ProcessId, letter: ClassicMessage, out: Outbox[Any]) -> None:
        """Decode a message and handle it; one that is none of this process's raises."""
        self._hosted.receive(sender, self._decode(letter.content), out)
        if self._tape.recordings:
            record = Delivered(system.now(), letter.seq, sender, self._tape.me)
            self._tape.note(self._lock, record)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """Handle a timer that has run out."""
        self._hosted.ring(timer, out)
        if self._tape.recordings:
            self._tape.note(self._lock, Rang(system.now(), self._tape.me, timer))

    def down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Handle the crash of a process that was watched."""
        self._hosted.down(peer, out)
        if self._tape.recordings:
            self._tape.note(self._lock, Noticed(system.now(), self._tape.me, peer))
