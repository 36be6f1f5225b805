"""The lock of one machine between machines: test-and-set, as two messages. It is wrong.

Process 1 has the word. In one machine who finds the word clear has set it in the same instruction.
Here a question and an answer lie between the test and the set, and another may test meanwhile.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

OWNER = 1  # of the word
AGAIN = "again"  # time to test once more


class Test(Payload, frozen=True):
    """Is the word set?"""

    __test__ = False  # a message, and no class of tests


class Word(Payload, frozen=True):
    """That is what it was."""

    was_set: bool


class Set(Payload, frozen=True):
    """Set the word."""


class Clear(Payload, frozen=True):
    """Clear the word."""


Message: TypeAlias = Test | Word | Set | Clear


class TestAndSet(Mutex[Message]):
    """Ask for the word until it is clear, set it, and enter."""

    __test__ = False

    size: int
    word: bool = False  # at its owner

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask for the word."""
        out.send(OWNER, Test())

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Ask again."""
        out.send(OWNER, Test())

    def release(self, out: Outbox[Message]) -> None:
        """Clear the word."""
        out.send(OWNER, Clear())

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Answer for the word, or enter if it was clear."""
        match message:
            case Test():
                out.send(sender, Word(self.word))
            case Word(was_set=True):
                out.set_timer(AGAIN, 1.0)
            case Word():
                out.send(OWNER, Set())
                out.tell(Entered())
            case Set() | Clear():
                self.word = isinstance(message, Set)
