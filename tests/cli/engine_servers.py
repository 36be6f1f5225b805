"""Servers of tests for the commands, as the conformance suite has them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from coterie.lab.servers.child import ServerMissing
from tests.engines.conformance.suppliers import SUPPLIERS, leave_out
from tests.processes import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.lab.servers.supplier import Supplier

KINDS = ("etcd", "mariadb", "nats", "valkey")


class EngineServer(Directory):
    """A server, and the commands that use it."""

    def __init__(self, supplier: Supplier, folder: Path) -> None:
        super().__init__(folder)
        self.supplier = supplier
        self.port, self.url, self.kill = supplier.port, supplier.url(), supplier.kill
        self.environment["COTERIE_URL"] = self.url


@contextlib.contextmanager
def engine_server(kind: str, folder: Path) -> Iterator[EngineServer]:
    """Run a server, whose commands end with it; a test is skipped where it cannot be had."""
    with contextlib.ExitStack() as stack:
        try:
            supplier = stack.enter_context(SUPPLIERS[kind](folder / "server"))
        except ServerMissing as error:
            leave_out(error)
        server = EngineServer(supplier, folder)
        stack.callback(server.end)
        yield server
