"""Errors of connections in words that users read."""

from __future__ import annotations

import errno
import socket

import pytest

from coterie.cluster.wire.address import Address
from coterie.cluster.wire.trouble import explain, explain_at
from coterie.errors import ProtocolError

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 7400)")
BOTH = OSError(
    "Multiple exceptions: [Errno 111] Connect call failed ('::1', 7400, 0, 0),"
    " [Errno 111] Connect call failed ('127.0.0.1', 7400)"
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (REFUSED, "connection refused"),
        (BOTH, "connection refused"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed"), "no route to host"),
        (TimeoutError(), "no answer"),
        (TimeoutError(errno.ETIMEDOUT, "Connect call failed"), "connection timed out"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "unknown host name"),
        (ProtocolError("the node closed the connection"), "the node closed the connection"),
        (ConnectionResetError(), "connection reset by peer"),
    ],
)
def test_an_error_is_explained_without_numbers_of_the_system(error: Exception, words: str) -> None:
    assert explain(error) == words


def test_the_address_is_named_with_it() -> None:
    address = Address("example.org", 7400)
    assert explain_at(address, REFUSED) == "connection refused at example.org:7400"
    assert explain_at(address, ProtocolError("no")) == "example.org:7400: no"
