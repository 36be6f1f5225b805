"""What a `Store` stands on: an executor carries out the requests of its transactions.

One executor runs a scheduler in this process (`local.py`); another one may pass the requests on to
the sites that keep the keys. All of the waiting is the store's business: an executor answers at
once, or returns a future that it settles later. So there is one place that knows of timeouts and of
cancellation, and a request that need not wait costs no turn of the event loop.

A transaction has at most one request under way. An executor that refuses it raises `Conflict`, or
sets it on the future; refused between two requests, it hears so in answer to the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from coterie.errors import Conflict

if TYPE_CHECKING:
    from asyncio import Future

    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import (
        Attempt,
        Declaration,
        Found,
        Listed,
        Name,
        Number,
        Refused,
        Value,
    )
    from coterie.transactions.schemes.span import Span

AnswerT = TypeVar("AnswerT")
Soon: TypeAlias = "AnswerT | Future[AnswerT]"


@runtime_checkable
class Executor(Protocol):
    """Carries out the requests of transactions; everything but waiting."""

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        """Begin an attempt with a new stamp, larger than all before it and than `above`.

        A further attempt of the same transaction passes on its age, how many attempts failed
        before, and the stamp that stood in the way of the last one, if that is known.
        """

    def read(self, name: Name, key: str, *, update: bool = False) -> Soon[Found]:
        """Read a key, with `update` on the way to writing it."""

    def scan(self, name: Name, span: Span, limit: int | None) -> Soon[Listed]:
        """Read all keys of a span that are there, or the first few of them."""

    def write(self, name: Name, key: str, value: Value) -> Soon[None]:
        """Set a key when the transaction commits; None deletes it."""

    def validate(self, name: Name) -> Soon[None]:
        """End the transaction without effect; raise `Conflict` if it could not have committed.

        What it has read may then never have been there at one time.
        """

    def commit(self, name: Name) -> Soon[Number]:
        """Let it take effect, durably if this executor promises that; the number of its versions.

        Raises `Conflict` if it has not and never will, `OutcomeUnknown` if that is not known. A
        future that is cancelled changes nothing: to call a commit off, ask to abort.
        """

    def abort(self, name: Name) -> bool:
        """End the transaction without effect, whatever it waits for; never waits itself.

        Returns False, and does nothing, if its commit is being decided: the future of the commit
        tells the outcome.
        """

    def waits_for(self, name: Name) -> tuple[Name, ...]:
        """Name the transactions that its request waits for, as far as that is known here."""

    async def close(self) -> None:
        """Decide what is being decided, then take no more requests."""


def conflict(refused: Refused) -> Conflict:
    """Say to the user of a transaction why it was refused."""
    return Conflict(
        str(refused),
        rule=refused.rule,
        keys=refused.keys,
        others=refused.others,
        above=refused.above,
    )
