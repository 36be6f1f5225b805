"""What a task awaits that stands in a line: the token of its lock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context


class Grant(asyncio.Future["int | None"]):
    """Becomes the token.

    The task that awaits it goes on within `give`. A plain future would have the event loop take another turn
    before, with a call to the system, and that is what a hand-off mostly consists of there.
    """

    _awaiting: tuple[Callable[[Any], object], Context] | None = None

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Call that when it is done; the first with a context is what makes a task go on."""
        if context is None or self._awaiting is not None or self.done():
            super().add_done_callback(fn, context=context)
        else:
            self._awaiting = (fn, context)

    def give(self, token: int) -> None:
        """Let the task go on with that token; no task may be running."""
        awaiting, self._awaiting = self._awaiting, None
        self.set_result(token)
        if awaiting is not None:
            go_on, context = awaiting
            context.run(go_on, self)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Fail, and let the task go on in a later turn: what fails a wait may be another task."""
        self._wait_for_turn()
        super().set_exception(exception)

    def cancel(self, msg: object = None) -> bool:
        """Cancel it, in the same way."""
        self._wait_for_turn()
        return super().cancel(msg)

    def _wait_for_turn(self) -> None:
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is not None:
            go_on, context = awaiting
            super().add_done_callback(go_on, context=context)
