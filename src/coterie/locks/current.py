"""The locks in whose bodies the running code is, by context: no argument has to carry the token."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from coterie.errors import UsageError
from coterie.locks.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class Tokens(Protocol):
    """What is held, by a task or by a thread."""

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""


_entered: ContextVar[tuple[Tokens, ...]] = ContextVar("coterie.entered", default=())


def enter(held: Tokens) -> None:
    """Note that the body of a `with` begins."""
    _entered.set((*_entered.get(), held))


def leave(held: Tokens) -> None:
    """Note that the body has ended.

    Not by `ContextVar.reset`: a generator, such as a fixture of a test, may end in another context
    than the one that it began in.
    """
    entered = _entered.get()
    if entered and entered[-1] is held:
        _entered.set(entered[:-1])
    else:
        _entered.set(tuple(each for each in entered if each is not held))


def current_token(name: str | None = None) -> int | None:
    """Return the fencing token of the lock in whose body this code runs.

    Bodies are those of `with`, `async with` and decorated functions; tasks that are started in a body
    are in it, too, and know its token also after it has ended: a fence refuses it then.

    Args:
        name: Of the lock; the innermost if it is left out. A permit of a semaphore is a lock `NAME/permit-1` and so on:
            leave the name out there.

    Returns:
        The token, or None outside of all bodies of that lock.
    """
    wanted = None if name is None else check_name(name)
    for held in reversed(_entered.get()):
        tokens = held.tokens
        if wanted is not None:
            if wanted in tokens:
                return tokens[wanted]
        elif len(tokens) == 1:
            return next(iter(tokens.values()))
        else:
            raise UsageError(f"several locks are held together: name one of {', '.join(tokens)}")
    return None
