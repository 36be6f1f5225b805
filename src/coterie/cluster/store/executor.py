"""Carries out the requests of a `Store` by the site of this process, over all sites."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.cluster.store.node import StoreNode
from coterie.errors import MisuseError, OutcomeUnknown, Unavailable
from coterie.transactions.schemes.scheduler import Accepted, Committed, Refused
from coterie.transactions.site.events import Answered, Doubted
from coterie.transactions.store.executor import conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.clocks import Stamp
    from coterie.cluster.membership.config import Config
    from coterie.process import Event
    from coterie.transactions.schemes.scheduler import (
        Attempt,
        Declaration,
        Found,
        Listed,
        Name,
        Number,
        Value,
    )
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.store.executor import Soon


class SiteExecutor:
    """Runs transactions of this process; their keys may be at any site."""

    def __init__(self, config: Config, node: str) -> None:
        """Prepare; the site starts when it is opened."""
        self.node = StoreNode(config, node, self._hear, self._end)
        self._patience = config.membership.settings.lease
        self._waiting: dict[Name, asyncio.Future[Any]] = {}  # for the answer to a request
        self._deciding: dict[Name, asyncio.Future[Any]] = {}  # for the outcome of a commit
        self._validating: set[Name] = set()
        self._refused: dict[Name, Refused] = {}  # between two requests, and not told so far

    async def open(self) -> None:
        """Start the site."""
        await self.node.start()

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        """Begin an attempt with a new stamp, which no other has once this one got an answer."""
        begun: list[Attempt] = []

        def verb(out: Any) -> None:
            site = self.node.site
            begun.append(site.begin(out, declaration, age=age, failures=failures, above=above))

        self.node.do(verb)
        return begun[0]

    def read(self, name: Name, key: str, *, update: bool = False) -> Soon[Found]:
        """Read a key, with `update` on the way to writing it."""
        verb = partial(self.node.site.read, name, key, update=update)
        found: Soon[Found] = self._ask(name, verb)
        return found

    def scan(self, name: Name, span: Span, limit: int | None) -> Soon[Listed]:
        """Read all keys of a span that are there, or the first few of them."""
        listed: Soon[Listed] = self._ask(name, partial(self.node.site.scan, name, span, limit))
        return listed

    def write(self, name: Name, key: str, value: Value) -> Soon[Any]:
        """Set a key when the transaction commits; None deletes it."""
        if not self.node.has_ended and self.node.site.hold(name, key, value):
            return None  # it rests on nothing that has yet to reach the disk, so nothing waits for that
        return self._ask(name, partial(self.node.site.write, name, key, value))

    def validate(self, name: Name) -> Soon[Any]:
        """End the transaction without effect; raise `Conflict` if it could not have committed."""
        if self.node.has_ended:  # which has ended it
            return None
        self._validating.add(name)
        return self._ask(name, partial(self.node.site.validate, name))

    def commit(self, name: Name) -> Soon[Number]:
        """Let it take effect at all sites or at none, on disk wherever it does."""
        answer: Soon[Number] = self._ask(name, partial(self.node.site.commit, name))
        if isinstance(answer, asyncio.Future):
            self._deciding[name] = answer
            answer.add_done_callback(lambda _: self._deciding.pop(name, None))
        return answer

    def abort(self, name: Name) -> bool:
        """End the transaction without effect, unless its commit is being decided."""
        if not self._ended(name):
            ended: list[bool] = []
            self.node.do(lambda out: ended.append(self.node.site.abort(name, out)))
            if not ended[0]:
                return False
        elif name in self._deciding:
            return False
        self._refused.pop(name, None)
        self._waiting.pop(name, None)
        self._deciding.pop(name, None)
        self._validating.discard(name)
        return True

    def waits_for(self, name: Name) -> tuple[Name, ...]:
        """Return what has to end before its request is answered, here or as other sites have said."""
        return self.node.site.blockers(name)

    def pending(self) -> set[Name]:
        """Return the transactions with a request that waits for its answer."""
        return {*self._waiting, *self._deciding}

    def close_source(self, node: str) -> None:
        """Do not wait for promises of another node, until it is heard again."""
        site, source = self.node.site, self.node.number(node)
        if not site.heeds_promises():
            raise MisuseError(
                "only the schemes conservative and multiversion heed others' promises"
            )
        if source == site.me:
            raise MisuseError(f"node {node!r} is this one, whose word is always at hand")
        self.node.do(partial(site.close_source, source))

    async def close(self) -> None:
        """Wait for what is being decided, as long as a lease; abort the rest, and end the site."""
        for name in self.node.site.open_transactions():
            future = self._waiting.get(name)
            if name not in self._deciding and self.abort(name):
                refused = Refused(name, "the store was closed", (), ())
                if future is None:
                    self._refused[name] = refused
                elif not future.done():
                    future.set_exception(conflict(refused))
        if self._deciding:
            await asyncio.wait(self._deciding.values(), timeout=self._patience)
        await self.node.stop()
        self._end(Unavailable("the site has ended"))

    # Answers

    def _ended(self, name: Name) -> bool:
        """Return whether the site is done with a transaction; how it ended has been told then."""
        node = self.node
        if not node.has_ended and not node.site.is_open(name):
            node.sync()
        return node.has_ended or not node.site.is_open(name)

    def _ask(self, name: Name, verb: Callable[[Any], None]) -> Any:
        if self._ended(name) and name in self._refused:
            raise conflict(self._refused.pop(name))
        future = self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            self.node.do(verb)
        except BaseException:
            self._waiting.pop(name, None)
            raise
        return future.result() if future.done() else future

    def _hear(self, event: Event) -> None:
        match event:
            case Answered(Refused() as refused):
                self._hear_refusal(refused)
            case Answered(Committed(name, number)):
                self._settle(name, number)
            case Answered(Accepted(name)) if name in self._validating:
                asyncio.get_running_loop().call_soon(self._validated, name)
            case Answered(answer):
                self._settle(answer.transaction, answer)
            case Doubted(name):
                text = f"{name} may have been committed or not: the only site that knows is away"
                self._settle(name, OutcomeUnknown(text))
            case _:
                pass

    def _hear_refusal(self, refused: Refused) -> None:
        name = refused.transaction
        self._validating.discard(name)
        if name in self._waiting:
            self._settle(name, conflict(refused))
        else:
            self._refused[name] = refused

    def _validated(self, name: Name) -> None:
        """End a transaction without effect: all that it read was there at one time."""
        future = self._waiting.get(name)
        self.abort(name)
        if future is not None and not future.done():
            future.set_result(None)

    def _settle(self, name: Name, outcome: object) -> None:
        """Answer the request that waits; a future that was cancelled needs no answer."""
        future = self._waiting.pop(name, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _end(self, failure: Unavailable) -> None:
        """Fail all requests: the site takes no more steps, so it will not know what was decided."""
        for name in list(self._waiting):
            if name in self._deciding:
                text = f"{name} may have been committed or not: {failure}"
                self._settle(name, OutcomeUnknown(text))
            else:
                self._settle(name, Unavailable(str(failure)))
