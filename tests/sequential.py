"""One entry after another, every message delivered in the order sent: the cost without contention."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from coterie.process import MutexUser, Outbox, Phase, Process, Seat, seat

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sequential:
    """Processes that nobody disturbs while one of them enters and leaves."""

    def __init__(self, processes: Sequence[Process[Any]]) -> None:
        self.seats = [seat(process) for process in processes]

    def enter(self, process: int) -> int:
        """Let one process enter and leave, and count the messages that it took."""
        requester = self.seats[process - 1]
        messages = self._run(requester, "acquire")
        assert isinstance(requester.user, MutexUser)
        assert requester.user.phase is Phase.INSIDE
        return messages + self._run(requester, "release")

    def _run(self, caller: Seat, name: str) -> int:
        out: Outbox[Any] = Outbox(caller.process.me)
        caller.call(name, out)
        under_way = deque((out.me, *sent) for sent in out.sends)
        messages = 0
        while under_way:
            sender, receiver, message = under_way.popleft()
            messages += 1
            out = Outbox(receiver)
            self.seats[receiver - 1].receive(sender, message, out)
            under_way.extend((receiver, *sent) for sent in out.sends)
        return messages
