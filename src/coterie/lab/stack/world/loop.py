"""An event loop in virtual time: one for each simulated process."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVarTuple

from coterie.lab.stack.world.encryption import PlainText, caller_over_tls
from coterie.lab.stack.world.transport import Server, Transport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from contextvars import Context

    from coterie.lab.stack.world.machine import Process
    from coterie.lab.stack.world.network import Listener, Socket

Ts = TypeVarTuple("Ts")


class Loop(asyncio.BaseEventLoop):
    """Does what the event loop of asyncio does in one turn, when the world says so."""

    def __init__(self, process: Process) -> None:
        """Begin with nothing to do."""
        super().__init__()
        self.process = process
        self.tasks: dict[asyncio.Task[Any], None] = {}  # that have not ended
        self._queue: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._arrived: list[asyncio.Handle] = []  # what the kernel has for this process
        self._numbers = 0

    # What the world calls

    def turn(self) -> None:
        """Take one turn: what has arrived, timers that are due, then all that is ready now."""
        arrived, queue, timers = self._arrived, self._queue, self._timers
        if arrived:
            self._arrived = []
            if len(arrived) > 1:
                self.process.world.random.shuffle(arrived)
            queue.extend(arrived)
        if timers:
            now = self.time()
            while timers and timers[0][0] <= now:
                queue.append(heapq.heappop(timers)[2])
        for _ in range(len(queue)):
            handle = queue.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - what event loops are there for

    def next_due(self) -> float | None:
        """Return when there is something to do, by `time`; None if only the kernel can tell."""
        if self._queue or self._arrived:
            return 0.0
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def hand_in(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Let the kernel report something, in the next turn."""
        self._arrived.append(asyncio.Handle(callback, arguments, self))
        self.process.wake(self.process.world.now)

    def bury_tasks(self) -> None:
        """Close the coroutines of tasks that will never end, whatever they do about it."""
        while self.tasks:
            task, _ = self.tasks.popitem()
            work: Any = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            with contextlib.suppress(BaseException):
                work.close()
        self._queue.clear()
        self._timers.clear()
        self._arrived.clear()

    # What the product calls, by way of asyncio

    def time(self) -> float:
        """Read the monotonic clock of the machine."""
        process = self.process
        return process.machine.monotonic(process.read())

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._queue.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at that time of the monotonic clock, or later."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer where it is, until it is due."""

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> Any:
        """Make a task, named by a counter of this process instead of one of the interpreter."""
        self._numbers += 1
        task: asyncio.Task[Any] = asyncio.Task(
            coro, loop=self, name=str(name or f"Task-{self._numbers}"), context=context
        )
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that nothing has caught."""
        self.process.world.note_error(self.process, context)

    def is_running(self) -> bool:
        """Return whether a turn of this loop runs now."""
        return asyncio._get_running_loop() is self  # noqa: SLF001 - what it asks itself

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        """Listen on a port of this machine; called with a factory of protocols, a host and a port."""
        factory, _, port = args
        return Server(self.process.world.network.listen(self.process, port, factory))

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Call a machine; called with a factory of protocols, a host and a port."""
        factory, host, port = args
        answer: asyncio.Future[Socket] = self.create_future()
        dial = self.process.world.network.dial(self.process, host, port, answer)
        try:
            socket = await answer
        except BaseException:
            dial.give_up()
            raise
        protocol: asyncio.Protocol = factory()
        made: asyncio.Future[None] = self.create_future()
        context: ssl.SSLContext | None = kwargs.get("ssl")
        if context is None:
            transport = Transport(self, socket, protocol, made)
            await made
            return transport, protocol
        encrypted = caller_over_tls(self, PlainText(socket, protocol), context, host, made)
        transport = Transport(self, socket, encrypted)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return encrypted._app_transport, protocol  # noqa: SLF001 - as asyncio does

    async def start_tls(self, *args: Any, **kwargs: Any) -> Any:
        """Go over to TLS; called by a node with a transport, a protocol and what it shows to callers."""
        transport, protocol, context = args
        context.num_tickets = 0  # their length is not the same in each run
        plain = PlainText(transport.socket, protocol)
        return await super().start_tls(transport, plain, context, **kwargs)

    def remove_reader(self, fd: Any) -> bool:
        """Accept no more from a listening socket."""
        listener: Listener = fd
        return listener.stop_accepting()
