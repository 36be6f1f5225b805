"""How many connections over TLS lose their first frame: python -m benchmarks.first_frames [--connections 1000].

A node runs on asyncio's own event loop, then on uvloop. Each caller of the first kind sends the end of the TLS handshake
and its hello in one write, so that both come in one read before the connection has a user; those of the second
kind are connections as programs make them. A connection without an answer within some seconds has lost a frame.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import socket
import ssl
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.membership.config import convert
from coterie.cluster.wire.connection import LENGTH
from coterie.cluster.wire.frames import Welcome, decode_welcome
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.query import consult
from tests.cluster.certificates import certificates, tls
from tests.cluster.local_cluster import document, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.cluster.membership.config import Config

ANSWER_SECONDS_MAX = 3.0
READ_BYTES = 65536
LOOPS = ("asyncio", "uvloop")


@contextlib.contextmanager
def node(config: Config, loop: str) -> Iterator[None]:
    """Run the node in a thread, on this kind of event loop."""
    is_up, is_over = threading.Event(), threading.Event()

    async def main() -> None:
        async with running(config):
            is_up.set()
            await asyncio.to_thread(is_over.wait)

    def run() -> None:
        with asyncio.Runner(loop_factory=importlib.import_module(loop).new_event_loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    is_up.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def call_in_one_write(config: Config) -> None:
    """Send the hello with the end of the TLS handshake, and wait for the answer."""
    address, context = config.membership.members[0].address, config.security.client_context()
    assert context is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    encrypted = context.wrap_bio(incoming, outgoing, server_hostname=address.host)
    caller = Caller(Credentials(config.membership.cluster, ""), "admin", new_identity("t"), None)
    hello = msgspec.msgpack.encode(caller.hello)
    where = (address.host, address.port)
    with socket.create_connection(where, timeout=ANSWER_SECONDS_MAX) as connection:
        is_greeted = False
        while True:
            try:
                if not is_greeted:
                    encrypted.do_handshake()
                    encrypted.write(LENGTH.pack(len(hello)) + hello)
                    is_greeted = True
                    connection.sendall(outgoing.read())
                answer = encrypted.read()
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(received := connection.recv(READ_BYTES))
                if not received:
                    raise ConnectionResetError from None
            else:
                assert isinstance(decode_welcome(memoryview(answer)[LENGTH.size :]), Welcome)
                return


def call_as_programs_do(config: Config) -> None:
    """Make a connection, and go through the handshake."""

    async def call() -> None:
        credentials = Credentials(config.membership.cluster, "")
        context = config.security.client_context()
        where = config.membership.members[0].address
        async with asyncio.timeout(ANSWER_SECONDS_MAX), consult(where, credentials, context):
            pass

    asyncio.run(call())


def measure(call: Callable[[], None], connections: int) -> tuple[int, list[float]]:
    """Return how many connections got no answer, and the seconds of the others."""
    lost, taken = 0, []
    for _ in range(connections):
        began = time.monotonic()
        try:
            call()
        except (OSError, EOFError, TimeoutError):
            lost += 1
        else:
            taken.append(time.monotonic() - began)
    return lost, taken


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--connections", type=int, default=1000)
    connections = parser.parse_args().connections
    lost_in_all = 0
    print("| event loop of the node | hello | connections | lost | median ms | worst ms |")
    print("|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates(folder, "ours")
        config = convert(document(1, tls=tls(folder, "ours")))
        kinds = {
            "with the handshake": call_in_one_write,
            "as programs send it": call_as_programs_do,
        }
        for loop in LOOPS:
            for kind, call in kinds.items():
                with node(config, loop):
                    lost, taken = measure(partial(call, config), connections)
                lost_in_all += lost
                times = [1000 * seconds for seconds in taken] or [0.0]
                print(
                    f"| {loop} | {kind} | {connections:,} | {lost} | {median(times):.1f} |"
                    f" {max(times):.1f} |",
                    flush=True,
                )
    return 1 if lost_in_all else 0


if __name__ == "__main__":
    sys.exit(main())
