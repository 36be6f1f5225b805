"""Mutual exclusion by a token that goes round a ring, and is replaced when a crash has taken it.

The lowest process that lives cares for the token: it watches all others, and knows that it is the
one because all lower ones are down. After every crash it takes a census; if no process has the
token, it makes a new one. The census begins an epoch, which a token that is found takes on, and
from then on a token of an older epoch is void: one that is still under way does no harm.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeAlias

from msgspec import field

from coterie.algorithms.mutex.token.token_ring.rotating import PAUSE
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Epoch(NamedTuple):
    """The taker of a census and its number; later ones are taken by higher processes."""

    taker: ProcessId
    number: int

    def __str__(self) -> str:
        """Write `taker.number`."""
        return f"{self.taker}.{self.number}"


class Token(Payload, frozen=True):
    """The right to enter, and which processes to skip."""

    epoch: Epoch
    gone: tuple[ProcessId, ...]


class Census(Payload, frozen=True):
    """These are gone. Have you got the token?"""

    epoch: Epoch
    gone: tuple[ProcessId, ...]


class Report(Payload, frozen=True):
    """I have it, or not."""

    epoch: Epoch
    has_token: bool


Message: TypeAlias = Token | Census | Report


class Regenerating(Mutex[Message]):
    """A process that waits for the token to come by, and sees to it that there is one."""

    messages: ClassVar[Any] = Message

    order: tuple[ProcessId, ...]  # in which the token goes round
    pause: float  # how long we keep a token that we do not want
    epoch: Epoch  # of the latest census, which is that of our token
    token: bool = False
    wants: bool = False  # from acquire until release: with the token, inside
    gone: set[ProcessId] = field(default_factory=set)  # those known to be down
    unheard: set[ProcessId] = field(
        default_factory=set
    )  # in our census: which ones have not reported yet
    found: bool = False  # in our census: a process has the token

    def start(self, out: Outbox[Message]) -> None:
        """Watch those whose place we may have to take, and set the token going if it is ours."""
        self._watch(out)
        if self.token:
            out.set_timer(PAUSE, self.pause)

    def acquire(self, out: Outbox[Message]) -> None:
        """Enter with the token in hand, or wait for it."""
        self.wants = True
        if self.token:
            out.cancel_timer(PAUSE)
            out.tell(Entered())

    def release(self, out: Outbox[Message]) -> None:
        """Pass the token on, even if we shall want it again: the others come first."""
        self.wants = False
        self._pass_on(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle the token, the question where it is, and the answers."""
        match message:
            case Token(epoch, gone) if epoch >= self.epoch:
                self._enter_epoch(epoch, gone)
                self._take(out)
            case Token():
                pass  # it was lost when a later census was taken, and has been replaced
            case Census(epoch, gone) if epoch >= self.epoch:
                self._enter_epoch(epoch, gone)
                out.send(sender, Report(epoch, self.token))
            case Census():
                pass  # of one that is down by now
            case Report(epoch, has_token):
                self._count(sender, epoch, out, has_token=has_token)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Pass the token on, the pause being over."""
        self._pass_on(out)

    def down(self, peer: ProcessId, out: Outbox[Message]) -> None:
        """Take a census if that is up to us, in place of any that goes on."""
        self.gone.add(peer)
        if self._is_lowest():
            self._watch(out)
            self._take_census(out)

    def _watch(self, out: Outbox[Message]) -> None:
        """Watch all lower ones; the lowest watches all others."""
        for peer in sorted(self.order):
            if peer not in self.gone and (peer < self.me or (peer > self.me and self._is_lowest())):
                out.watch(peer)

    def _is_lowest(self) -> bool:
        return self.gone >= set(range(1, self.me))

    def _take_census(self, out: Outbox[Message]) -> None:
        number = self.epoch.number + 1 if self.epoch.taker == self.me else 1
        self.epoch = Epoch(self.me, number)
        self.unheard = set(self.order) - self.gone - {self.me}
        self.found = self.token
        out.broadcast(self.unheard, Census(self.epoch, tuple(sorted(self.gone))))
        self._make_if_lost(out)

    def _count(
        self, sender: ProcessId, epoch: Epoch, out: Outbox[Message], *, has_token: bool
    ) -> None:
        """Count a report, unless it is about an earlier census."""
        if epoch == self.epoch:
            self.unheard.remove(sender)
            self.found |= has_token
            self._make_if_lost(out)

    def _make_if_lost(self, out: Outbox[Message]) -> None:
        """Make a token once all that live have reported that they have none of this epoch."""
        if not self.unheard and not self.found:
            self._take(out)

    def _enter_epoch(self, epoch: Epoch, gone: tuple[ProcessId, ...]) -> None:
        self.epoch = epoch
        self.gone.update(gone)

    def _take(self, out: Outbox[Message]) -> None:
        """Enter if we want to, or keep the token for a pause."""
        if self.token:
            raise ProtocolError(f"process {self.me} got a second token")
        self.token = True
        if self.wants:
            out.tell(Entered())
        else:
            out.set_timer(PAUSE, self.pause)

    def _pass_on(self, out: Outbox[Message]) -> None:
        """Pass the token to the next one that is not gone, maybe ourselves."""
        place = self.order.index(self.me) + 1
        ahead = (*self.order[place:], *self.order[:place])
        self.token = False
        successor = next(peer for peer in ahead if peer not in self.gone)
        out.send(successor, Token(self.epoch, tuple(sorted(self.gone))))
