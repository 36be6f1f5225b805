"""The faces for tasks and for threads have the same names, and each takes the same arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import coterie
import coterie.sync
from coterie.locks.held import LossEvent
from coterie.sync.held import LossEvent as SyncLossEvent

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = (
    "Coordinator",
    "GroupMember",
    "Held",
    "HeldAll",
    "Lock",
    "LockAll",
    "LockAny",
    "Once",
    "Run",
    "Semaphore",
)
PAIRS: dict[str, tuple[type[Any], type[Any]]] = {
    name: (getattr(coterie, name), getattr(coterie.sync, name)) for name in KINDS
} | {"LossEvent": (LossEvent, SyncLossEvent)}
# A task is cancelled by `asyncio.timeout`; a thread has to say how long it waits.
MORE_FOR_THREADS = {"LossEvent.wait": ["timeout"]}


def public(kind: type[Any]) -> list[str]:
    """Name what a program may use of a class, fields without a value included."""
    names = {*dir(kind), *(name for base in kind.__mro__ for name in inspect.get_annotations(base))}
    return sorted(name for name in names if not name.startswith("_"))


def parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", PAIRS)
def test_both_have_the_same_names(name: str) -> None:
    ours, theirs = PAIRS[name]
    assert public(ours) == public(theirs)


@pytest.mark.parametrize("name", PAIRS)
def test_each_name_takes_the_same_arguments(name: str) -> None:
    ours, theirs = PAIRS[name]
    compared = 0
    for member in public(ours):
        one, other = (inspect.getattr_static(kind, member, None) for kind in (ours, theirs))
        assert callable(one) == callable(other), f"{name}.{member}"
        if callable(one) and callable(other):
            expected, found = parameters(one), parameters(other)
            for more in MORE_FOR_THREADS.get(f"{name}.{member}", []):
                del found[more]
            assert found == expected, f"{name}.{member}"
            compared += 1
    assert compared >= 1


def test_both_connect_with_the_same_arguments() -> None:
    assert parameters(coterie.connect) == parameters(coterie.sync.connect)


def test_both_say_what_kind_of_lock_they_return() -> None:
    for name in ("lock", "lock_all", "lock_any", "semaphore", "elect", "once"):
        ours, theirs = (
            inspect.signature(getattr(kind, name)).return_annotation
            for kind in PAIRS["Coordinator"]
        )
        assert ours == theirs, name
        assert ours.partition("[")[0] in coterie.sync.__all__


@pytest.mark.parametrize("face", [coterie.connect, coterie.sync.connect], ids=["tasks", "threads"])
def test_an_old_name_is_an_unknown_argument(face: Callable[..., Any], tmp_path: Any) -> None:
    made = face(tmp_path)
    for make in (made.lock, made.lock_all, made.lock_any, made.elect):
        with pytest.raises(TypeError, match="unexpected keyword argument 'ttl'"):
            make("a", ttl=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'ttl'"):
        made.semaphore("a", 2, ttl=1)
