"""The servers that an audit can start, each with a time of day that can be moved where that is possible."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.servers.cluster import three_nodes
from coterie.lab.servers.etcd import etcd
from coterie.lab.servers.folder import file
from coterie.lab.servers.moved_clock import FAKETIME, moved_clock
from coterie.lab.servers.postgresql import postgresql
from coterie.lab.servers.valkey import WHOLE_LOG, ThreeValkeys, moved_valkey, valkey
from coterie.lab.servers.zookeeper import zookeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from coterie.lab.servers.supplier import Supplier


class Running(NamedTuple):
    """A server, and how its time of day is moved, if it can be."""

    supplier: Supplier
    move: Callable[[int], None] | None


PLAIN: dict[str, Callable[..., AbstractContextManager[Supplier]]] = {
    "postgresql": postgresql,
    "valkey": valkey,
    "zookeeper": zookeeper,
}
SERVERS = ("coterie", "valkey", "valkey3", "postgresql", "etcd", "zookeeper")


@contextlib.contextmanager
def with_clock(
    start: Callable[..., AbstractContextManager[Supplier]], folder: Path
) -> Iterator[Running]:
    """Run a server whose time of day can be moved."""
    with moved_clock() as clock, start(folder, *clock.prefix) as supplier:
        yield Running(supplier, clock.move)


@contextlib.contextmanager
def forgetful_valkey(folder: Path) -> Iterator[Running]:
    """Run a Valkey that keeps its memory over a restart, or loses it, and whose time of day can be moved."""
    with moved_valkey(folder, *WHOLE_LOG) as supplier:
        yield Running(supplier, supplier.move)


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[Running]:
    """Start a server of `SERVERS`, or none for an empty name; raise `ServerMissing` if its program is."""
    with contextlib.ExitStack() as stack:
        match name:
            case "":
                yield Running(stack.enter_context(file(folder)), None)
            case "coterie":
                yield Running(stack.enter_context(three_nodes(folder)), None)
            case "etcd":  # Go reads clocks without the C library
                yield Running(stack.enter_context(etcd(folder)), None)
            case "valkey3":
                folder.mkdir()
                first = stack.enter_context(running("valkey", folder / "0"))
                others = [stack.enter_context(valkey(folder / f"{n}", *WHOLE_LOG)) for n in (1, 2)]
                yield Running(ThreeValkeys(first.supplier, others), first.move)
            case "valkey" if FAKETIME:
                yield stack.enter_context(forgetful_valkey(folder))
            case _:
                plain = PLAIN[name]
                if FAKETIME:
                    yield stack.enter_context(with_clock(plain, folder))
                else:
                    yield Running(stack.enter_context(plain(folder)), None)
