"""Where the leases of a process come from: the voters of a cluster, or a server that keeps queues.

A supply sees one request of this process for each lock, whatever number of tasks want it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Container

    from coterie.errors import CoterieError


class Stock(Protocol):
    """The locks that this process has, as far as no message is needed to use them again."""

    sound_until: float
    """Before this time no hold can have lapsed that has not been found to be lost."""

    @property
    def cached(self) -> Container[str]:
        """The locks that are kept unused."""

    def try_reacquire(self, lock: str, now: float, *, shared: bool) -> int:
        """Take a lock that is kept, and return its token; 0 if a message is needed."""

    def try_release(self, lock: str, now: float) -> bool:
        """Keep a lock that is not used any more; return False if it has to go back."""

    def try_pass_on(self, lock: str, now: float, *, shared: bool) -> int:
        """Let the next task have a lock that is held, and return the token; 0 if that cannot be."""

    def is_wanted(self, lock: str) -> bool:
        """Return True if another process waits for the lock."""

    def is_shared(self, lock: str) -> bool:
        """Return the mode of the request or the hold."""

    def remaining(self, lock: str, now: float) -> float:
        """Return for how many seconds the hold is in force."""

    def valid(self, lock: str, now: float) -> bool:
        """Return True if the hold is in force."""


class Supply(Protocol):
    """Asks for locks and gives them back; it tells the group what becomes of its requests."""

    @property
    def stock(self) -> Stock:
        """What this process has."""

    @property
    def name(self) -> str:
        """The name of this process, which no other start of any process has had."""

    @property
    def lease(self) -> float:
        """How many seconds a hold lasts that is not renewed."""

    def new_age(self) -> int:
        """Return the age of a claim that begins to wait behind others here; younger ones are larger."""

    def acquire(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Ask for a lock, alone or shared.

        Args:
            lock: Its name.
            shared: Whether others may share it.
            age: Of the claim that it is for; 0 for one that begins now.
            writer: Of a request to share, the age of the claim here that waits for the sharing to
                end; 0 without one.
        """

    def release(self, lock: str) -> None:
        """Give a lock back."""

    def reenter(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Give a lock back and ask for it again, for another task."""

    def announce(self, lock: str, writer: int) -> None:
        """Say that a claim of that age waits here for a hold that is shared to end; 0: none does.

        Requests of other processes to share that are younger wait behind it.
        """

    def withdraw(self, lock: str) -> None:
        """Give up waiting for a lock."""

    def obstacle(self, lock: str) -> CoterieError | None:
        """Return what blocks a lock, if it is not just a holder."""

    def may_grant(self) -> bool:
        """Return True if locks can be granted, or will be when some time has passed."""

    def hopeless(self, lock: str) -> CoterieError | None:
        """Return the error of a claim that has waited in vain for a whole lease; None if it is to go on waiting."""

    def stop(self) -> None:
        """Say goodbye; nothing is held or waited for any more."""
