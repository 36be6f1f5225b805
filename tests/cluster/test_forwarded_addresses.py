"""A program that sees the nodes at other addresses than they see each other: published ports, a tunnel."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import coterie
from coterie.cluster.wire import link
from coterie.cluster.wire.address import parse_address
from tests.cluster.changed_cluster import fleet
from tests.cluster.test_discovery import slow_line
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    import pytest

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.connection import Connection


@in_loop
async def test_it_takes_locks_also_when_the_configuration_has_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet(tmp_path) as made, contextlib.AsyncExitStack() as stack:
        inside = [parse_address(text) for text in made.addresses.values()]
        outside = [await stack.enter_async_context(slow_line(each, 0.0)) for each in inside]
        dial = link.dial

        async def dial_from_outside(address: Address, tls: ssl.SSLContext | None) -> Connection:
            if address in inside:
                raise OSError("no route to host")
            return await dial(address, tls)

        monkeypatch.setattr(link, "dial", dial_from_outside)
        url = f"coterie://{','.join(map(str, outside))}"
        async with coterie.connect(url) as program, program.lock("x", timeout=5) as held:
            assert held.valid
