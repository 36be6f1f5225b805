"""The programs at a node: the number, identity, label and version of each, and what it was told."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import OLDEST_PROTOCOL, PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Container

    import msgspec

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.frames import Hello
    from coterie.process import ProcessId

logger = logging.getLogger("coterie.cluster")


class FrameSink(Protocol):
    """Takes frames for a program: a connection, or the participant in this very process."""

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame."""


def too_old(label: str, required: int) -> str:
    """Say why a program is refused that does not speak the protocol of the cluster."""
    return (
        f"{label!r} does not speak protocol {required}, which the cluster asks for now: run a newer"
        " version of coterie there"
    )


class Programs:
    """All programs that are connected to a node, and participants that have a session there.

    A participant has an identity, and keeps its number from one connection to the next. The name of
    another program is not proven, so each of its connections has a number of its own.
    """

    def __init__(self, node: str) -> None:
        """Begin without programs; `node` is the name of the node, for the log."""
        self.labels: dict[str, str] = {}  # of participants with a session or a connection
        self.sinks: dict[ProcessId, FrameSink] = {}  # of programs that are connected, by number
        self.sent: Counter[str] = Counter()  # frames, by kind
        self._node = node
        self._numbers: dict[str, ProcessId] = {}  # of participants, by identity
        self._last_number = 0
        self._versions: dict[str, int] = {}  # of the protocol, that participants speak
        self._operators: dict[ProcessId, str] = {}  # their labels
        self._told: dict[ProcessId, tuple[Configuration, float]] = {}  # what, and when

    def restore(self, numbers: dict[str, ProcessId], labels: dict[str, str]) -> None:
        """Go on with the participants that had a session at an orderly end."""
        self.labels = labels
        self._numbers = numbers
        self._last_number = max(numbers.values(), default=0)

    # Numbers

    def number_of(self, identity: str) -> ProcessId:
        """Return the number of a participant; a new one if it has none."""
        if identity not in self._numbers:
            self._numbers[identity] = self.new_number()
        return self._numbers[identity]

    def find(self, identity: str) -> ProcessId | None:
        """Return the number of a participant, or None."""
        return self._numbers.get(identity)

    def new_number(self) -> ProcessId:
        """Return a number that no program has had since the start."""
        self._last_number += 1
        return self._last_number

    # Connections

    def enter(self, number: ProcessId, hello: Hello, sink: FrameSink) -> None:
        """Send frames for that number there from now on."""
        self.sinks[number] = sink
        self._told.pop(number, None)  # it may have been lost with the connection before
        if hello.role == "operator":
            self._operators[number] = hello.label
        if hello.role == "participant":
            self._versions[hello.identity] = hello.highest
            self.labels[hello.identity] = hello.label

    def dismiss(self, number: ProcessId) -> None:
        """Forget a connection."""
        self.sinks.pop(number, None)
        self._operators.pop(number, None)
        self._told.pop(number, None)

    def leave(self, identity: str, sink: FrameSink, sessions: Container[str]) -> None:
        """Forget a connection, unless a newer one of the same participant has taken its place."""
        number = self._numbers.get(identity)
        if number is None:  # the newer one has ended first, and left nothing to forget
            return
        if self.sinks.get(number) is sink:
            self.dismiss(number)
            self._forget_stranger(identity, sessions)

    def forget_strangers(self, sessions: Container[str]) -> None:
        """Keep nothing about participants that have neither a connection nor a session."""
        for identity in list(self._numbers):
            self._forget_stranger(identity, sessions)

    def _forget_stranger(self, identity: str, sessions: Container[str]) -> None:
        if self._numbers[identity] not in self.sinks and identity not in sessions:
            del self._numbers[identity]
            self.labels.pop(identity, None)
            self._versions.pop(identity, None)

    def connected(self) -> list[str]:
        """List the labels of the participants that are connected."""
        here = [name for name, number in self._numbers.items() if number in self.sinks]
        return sorted(self.labels[name] for name in here)

    def is_operator(self, number: ProcessId) -> bool:
        """Return whether a program has proven to be an operator."""
        return number in self._operators

    def operator(self, number: ProcessId) -> str:
        """Return the label of an operator."""
        return self._operators[number]

    # Versions

    def version(self, identity: str, membership: Membership) -> int:
        """Return the newest protocol that a participant is known to speak."""
        return self._versions.get(identity, _lowest_version(membership))

    def slowest(self, membership: Membership) -> tuple[int, str]:
        """Return the protocol that all programs speak, and the label of one that knows no newer."""
        versions, unknown = self._versions, _lowest_version(membership)
        slow = (
            (spoken, label)
            for name, label in self.labels.items()
            if (spoken := versions.get(name, unknown)) < PROTOCOL
        )
        return min(slow, default=(PROTOCOL, ""))

    def _end_old_connections(self, required: int) -> None:
        """Let no program go on that cannot read what it would have to be sent from now on.

        It calls again, and is refused with the reason. Until a configuration asks for another
        protocol its own number is served, and a participant that knows no other hears of none.
        """
        for identity, number in list(self._numbers.items()):
            sink = self.sinks.get(number)
            if isinstance(sink, Connection) and self._versions.get(identity, required) < required:
                reason = too_old(self.labels[identity], required)
                logger.warning(
                    "node %(node)s ends a connection: %(reason)s",
                    {"node": self._node, "reason": reason},
                    extra={"event": "program-too-old"},
                )
                sink.close(reason)

    # Frames

    def announce(self, membership: Membership) -> None:
        """Tell participants of the newest configuration, also those that have nothing to say just now.

        One that hears of no change for long could find none of the voters that it knows.
        """
        self._end_old_connections(membership.configuration.protocol)
        for number in self._numbers.values():
            self.tell(number, membership)

    def tell(self, number: ProcessId, membership: Membership) -> None:
        """Tell one program of the newest configuration, if that was decided."""
        if membership.decided is not None:
            self.send(number, NewConfiguration(membership.decided))

    def send(self, to: ProcessId, frame: Any) -> None:
        """Send a frame, if the program is connected and was not told the same just now."""
        sink = self.sinks.get(to)
        if sink is None or (type(frame) is NewConfiguration and self._is_told(to, frame)):
            return
        self.sent[type(frame).__name__] += 1
        sink.send(frame)

    def _is_told(self, program: ProcessId, news: NewConfiguration) -> bool:
        """Return whether a program was told the same less than a heartbeat ago; else note it.

        One that cannot reach the new voters counts by the number before as long as that is served,
        and each of its frames asks for the news again. Nothing rests on it (19.3).
        """
        configuration, now = news.configuration, system.now()
        told, since = self._told.get(program, (None, now))
        if told is configuration and now < since + configuration.settings.heartbeat:
            return True
        self._told[program] = configuration, now
        return False


def _lowest_version(membership: Membership) -> int:
    """Return the protocol of participants that have not called since our restart, at least."""
    return max(OLDEST_PROTOCOL, membership.configuration.protocol)
