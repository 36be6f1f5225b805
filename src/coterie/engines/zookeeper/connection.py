"""One client of kazoo, which is one session with ZooKeeper: requests, their answers, and its end.

kazoo has a thread for each client; what it has to say comes into the event loop through `LoopHandler`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from coterie import system
from coterie.engines.queue.server import ServerNode, SessionLost
from coterie.engines.queue.url import TLS_PARAMETERS
from coterie.errors import ConfigError, CoterieError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.queue.url import ServerUrl

SECURE = "zookeepers"
CALL_SECONDS_MAX = 5.0
GOODBYE_SECONDS_MAX = 0.8
RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5}

# Answers like others: what they mean depends on the request.
USUAL = (exceptions.NoNodeError, exceptions.NodeExistsError, exceptions.NotEmptyError)
# The same in a transaction, and what it says of the steps beside the one that does not fit.
UNFIT = (
    *USUAL,
    exceptions.BadVersionError,
    exceptions.RolledBackError,
    exceptions.RuntimeInconsistency,
)
REFUSED = (exceptions.NoAuthError, exceptions.AuthFailedError, exceptions.InvalidACLError)

logger = logging.getLogger("coterie.engines")


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """How kazoo reaches the network and its callbacks: all callbacks run in the event loop.

    The thread of a client renews the session whether or not the event loop runs. So that a program
    that hangs does not keep its locks, it stops when the loop has not called `live` for a lease.
    """

    running = True  # or else a callback might be called in the thread that stops the client

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None]) -> None:
        """Prepare for one client.

        Args:
            loop: Runs the callbacks.
            on_failure: Is called there when all servers have been tried in vain.
        """
        super().__init__()
        self.completion_queue = self
        self._loop = loop
        self._on_failure = on_failure
        self._live_until = float("inf")
        self._is_over = False
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Do nothing: there are no threads for callbacks."""

    def stop(self) -> None:
        """Do nothing: there are no threads for callbacks."""

    def put(self, work: Callable[[], object]) -> None:
        """Run a callback in the event loop, if that has not ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def dispatch_callback(self, callback: Any) -> None:
        """Run the callback of a watch in the event loop."""
        self.put(partial(callback.func, *callback.args))

    def sleep_func(self, seconds: float) -> None:
        """Pause between two rounds of attempts to connect."""
        self.put(self._on_failure)
        time.sleep(seconds)

    def live(self, seconds: float) -> None:
        """Let the connection live for that time from now on."""
        self._live_until = system.monotonic() + seconds

    def abandon(self) -> None:
        """Break the connection, and let no other be made."""
        self._is_over = True
        line = self._socket
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def select(self, *arguments: Any, **named: Any) -> Any:
        """Wait until a socket is ready."""
        self._check()
        return super().select(*arguments, **named)

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        """Connect to a server."""
        self._check()
        self._socket = super().create_connection(*arguments, **named)
        return self._socket

    def _check(self) -> None:
        if self._is_over:
            raise OSError("the session is over")
        if system.monotonic() > self._live_until:
            raise OSError("the event loop does not run")


class KazooLog:
    """Plays the logger of kazoo, which tells in its log alone what was agreed on, and what went wrong."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.timeout = 0.0  # of the session, as the server has granted it
        self.trouble = "it does not answer"

    def log(self, level: int, text: str, *values: Any) -> None:
        """Note how long a session lasts."""
        if "negotiated session timeout" in text:
            self.timeout = values[2] / 1000

    def warning(self, text: str, *values: Any) -> None:
        """Note why there is no connection."""
        if values:
            self.trouble = str(values[-1]).removeprefix("socket connection error: ")
        logger.debug(text, *values, extra={"event": "zookeeper-warning"})

    def debug(self, text: str, *values: Any) -> None:
        """Leave aside what kazoo says about each request."""

    info = warn = debug

    def exception(self, text: str, *values: Any) -> None:
        """Note an error within kazoo."""
        logger.debug("%s: %r", text % values, sys.exc_info()[1], extra={"event": "zookeeper-error"})


class ZooKeeperConnection:
    """A session with ZooKeeper, over as many connections as its timeout allows."""

    def __init__(self, url: ServerUrl, timeout: float, on_end: Callable[[str], None]) -> None:
        """Prepare; `open` connects.

        Args:
            url: Where the servers are.
            timeout: Of the session that is asked for, in seconds.
            on_end: Is told once why the session is over, unless it was closed.
        """
        loop = asyncio.get_running_loop()
        self.timeout = timeout
        self._shown = f"zookeeper at {url.shown}"
        self._on_end = on_end
        self._over = ""
        self._journal = KazooLog()
        self._first: asyncio.Future[bool] = loop.create_future()  # whether there is a connection
        self._handler = LoopHandler(loop, partial(self._settle_first, False))
        self._outstanding: dict[asyncio.Future[Any], None] = {}
        self._client = KazooClient(
            ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in url.addresses),
            timeout=timeout,
            handler=self._handler,
            connection_retry=KazooRetry(sleep_func=self._handler.sleep_func, **RETRY),
            logger=self._journal,
            **_credentials(url),
            **_tls(url),
        )
        self._client.add_listener(self._hear)

    def __str__(self) -> str:
        """Name the servers for people."""
        return self._shown

    async def open(self) -> None:
        """Connect; raises `Unavailable` when no server can be reached."""
        self._client.start_async()
        limit = min(CALL_SECONDS_MAX, self.timeout)
        await asyncio.wait([self._first], timeout=limit)
        if not self._first.done() or not self._first.result():
            raise Unavailable(f"{self}: {self._journal.trouble}")
        if not self._journal.timeout:
            # It is needed for safety: a session may last shorter than it was asked for.
            raise ConfigError(
                f"{self}: this version of kazoo does not tell how long a session lasts"
            )
        self.timeout = self._journal.timeout
        self.live()

    async def close(self) -> None:
        """End the session; where the server does not answer, it ends there by itself."""
        self._over = self._over or "it was closed"
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()
        self._handler.spawn(self._stop, partial(_settle, stopped, None))
        try:
            await asyncio.wait([stopped], timeout=GOODBYE_SECONDS_MAX)
        finally:
            self._handler.abandon()
            self._drop_outstanding()

    def _stop(self, done: Callable[[], None]) -> None:
        """Stop the client: in a thread of its own, because that waits for the server."""
        with contextlib.suppress(OSError, exceptions.KazooException):
            self._client.stop()
            self._client.close()
        self._handler.put(done)

    # The session

    def live(self) -> None:
        """Say that the event loop runs."""
        self._handler.live(self.timeout)

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return bool(self._client.connected)

    def _hear(self, state: str) -> None:
        """Hear of the state of the client, in its thread."""
        if state == KazooState.LOST:
            # kazoo would begin another session by itself, in which our entries are not.
            self._handler.abandon()
        self._handler.put(partial(self._change, state))

    def _change(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._settle_first(True)
        elif state == KazooState.LOST:
            self._settle_first(False)
            self.end("its session has expired at ZooKeeper")

    def _settle_first(self, is_up: bool) -> None:
        if not self._first.done():
            self._first.set_result(is_up)

    def end(self, reason: str) -> None:
        """Give up the session: no request is sent in it any more."""
        if not self._over:
            self._over = reason
            self._drop_outstanding()
            self._on_end(reason)

    def check(self) -> None:
        """Raise `SessionLost` if the session is over."""
        if self._over:
            raise SessionLost(self._over)

    def _drop_outstanding(self) -> None:
        for future in list(self._outstanding):
            _settle(future, exceptions.ConnectionClosedError())

    # Requests

    def send(self, method: str, *arguments: Any, **named: Any) -> asyncio.Future[Any]:
        """Send a request; the server carries out requests in the order in which they were sent.

        Without a connection none is sent: kazoo would keep it until there is one.
        """
        return self._sent(lambda: getattr(self._client, f"{method}_async")(*arguments, **named))

    def _sent(self, request: Callable[[], Any]) -> asyncio.Future[Any]:
        """Send what a call of the client sends, and return what becomes its answer."""
        self.check()
        if not self.is_up:
            raise Unavailable(f"{self}: {self._journal.trouble}")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._outstanding[future] = None
        future.add_done_callback(self._outstanding.pop)
        request().rawlink(partial(_take, future))
        return future

    async def transact(self, *steps: tuple[Any, ...]) -> bool:
        """Carry out checks and changes together; return False, with nothing changed, if one does not fit the nodes.

        Args:
            steps: Each is the name of a method of kazoo's `TransactionRequest`, and its arguments.
        """

        def commit() -> Any:
            request = self._client.transaction()
            for method, *arguments in steps:
                getattr(request, method)(*arguments)
            return request.commit_async()

        (answers,) = await self.answers(self._sent(commit))
        errors = [each for each in answers if isinstance(each, Exception)]
        for error in errors:
            if not isinstance(error, UNFIT):
                raise self._error(error)
        return not errors

    async def answers(self, *sent: asyncio.Future[Any], limit: float | None = None) -> list[Any]:
        """Wait for the answers to requests; an error that says how a node stands is one, too."""
        if not sent:  # asyncio does not wait for nothing
            return []
        limit = min(CALL_SECONDS_MAX, self.timeout) if limit is None else limit
        _, pending = await asyncio.wait(sent, timeout=limit)
        self.check()
        if pending:
            raise Unavailable(f"{self}: no answer in {limit:g} s")
        return [self._checked(future.result()) for future in sent]

    def _checked(self, answer: Any) -> Any:
        if isinstance(answer, Exception) and not isinstance(answer, USUAL):
            raise self._error(answer)
        return answer

    def _error(self, error: Exception) -> CoterieError | SessionLost:
        """Say what an error means."""
        if isinstance(error, exceptions.SessionExpiredError):
            self.end("its session has expired at ZooKeeper")
            return SessionLost(self._over)
        if isinstance(error, REFUSED):
            return ConfigError(
                f"{self}: refused ({type(error).__name__}): the nodes of locks belong to another user;"
                " write zookeeper://USER:PASSWORD@host"
            )
        return Unavailable(f"{self}: {str(error) or type(error).__name__}")


def _take(future: asyncio.Future[Any], result: Any) -> None:
    _settle(future, result.value if result.successful() else result.exception)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    """Give a future its value; errors are values, too, since not every one is looked at."""
    if not future.done():
        future.set_result(value)


def _credentials(url: ServerUrl) -> dict[str, Any]:
    """Return the user of the URL; nodes that we make are for that user alone."""
    if not url.user:
        return {}
    return {
        "auth_data": [("digest", f"{url.user}:{url.secret}")],
        "default_acl": CREATOR_ALL_ACL,
    }


async def ask_node(url: ServerUrl) -> ServerNode:
    """Ask the one server that a URL names how it is, by a command that needs no session."""
    tls = _tls(url)
    context = None
    if tls:
        context = ssl.create_default_context(cafile=tls["ca"])
        if tls["certfile"]:
            context.load_cert_chain(tls["certfile"], tls["keyfile"])
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(*url.addresses[0], ssl=context)
            writer.write(b"srvr")
            answer = (await reader.read()).decode(errors="replace")
            writer.close()
    except TimeoutError:
        return ServerNode(url.shown, trouble=f"no answer in {CALL_SECONDS_MAX:g} s")
    except ConnectionError as error:
        return ServerNode(url.shown, trouble=os.strerror(error.errno or 0))
    except OSError as error:
        return ServerNode(url.shown, trouble=str(error))
    return _node(url.shown, answer)


def _node(address: str, answer: str) -> ServerNode:
    version = re.match(r"Zookeeper version: ([\d.]+)", answer)
    mode = re.search(r"^Mode: (\w+)$", answer, re.MULTILINE)
    if version is not None and mode is not None:
        role = "" if mode[1] == "standalone" else mode[1]
        return ServerNode(address, version[1], role)
    if "not in the whitelist" in answer:
        return ServerNode(address)  # it answers, and may not say more
    known = "not currently serving requests"
    return ServerNode(address, trouble=f"it is {known}" if known in answer else "not a ZooKeeper")


def _tls(url: ServerUrl) -> dict[str, Any]:
    """Return the TLS settings of the URL or the environment; nothing without TLS."""
    if url.scheme != SECURE and not any(url.parameters.get(name) for name in TLS_PARAMETERS):
        return {}
    paths = {name: url.tls_file(name) or None for name in TLS_PARAMETERS}
    for path in filter(None, paths.values()):
        if not Path(path).is_file():
            raise ConfigError(f"{path}: no such file")
    if (paths["certificate"] is None) != (paths["key"] is None):
        raise ConfigError("certificate and key belong together: give both or none")
    return {
        "use_ssl": True,
        "check_hostname": True,
        "ca": paths["ca"],
        "certfile": paths["certificate"],
        "keyfile": paths["key"],
    }
