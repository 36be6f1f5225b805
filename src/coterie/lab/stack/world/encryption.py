"""TLS in the simulated world: the SSL protocol of asyncio and OpenSSL, over a simulated transport.

A seed decides what happens and when, although OpenSSL draws its keys and nonces for itself: all that the
world looks at is how many bytes there are, and these are the same in each run. So the certificates are
signed by Ed25519, whose signatures have one length (those of ECDSA do not), and no server sends tickets
for another session, which have the age of a session in them with as many bytes as it needs.
The digest of a run has the plain bytes, and of the encrypted ones their number.
"""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from coterie.lab.stack.world.network import Socket

# One certificate for all machines that a plan can name, good from 2000 to 2199. The key is public, and
# protects nothing: there is no such machine outside of the simulated world.
AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBLjCB4aADAgECAgEBMAUGAytlcDAeMRwwGgYDVQQDDBNzaW11bGF0ZWQgYXV0
aG9yaXR5MCAXDTAwMDEwMTAwMDAwMFoYDzIxOTkxMjMxMDAwMDAwWjAeMRwwGgYD
VQQDDBNzaW11bGF0ZWQgYXV0aG9yaXR5MCowBQYDK2VwAyEAfXBdcdJLB/RYEhiI
HnaI4BqxkBpr1swOwgUbjDvMm2OjQjBAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0P
AQH/BAQDAgIEMB0GA1UdDgQWBBQfXF1hMS3lQ7h6dR5i/O2EG0gI7DAFBgMrZXAD
QQBTLYrHpe7qQu3mFRkfEX6CCLlhCW+rG8ZEEe8F35qMelWPe5OdTB4kD3qgt41S
SviRYsBKD2mQAeB/17GxQi4I
-----END CERTIFICATE-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIB0zCCAYWgAwIBAgIBAjAFBgMrZXAwHjEcMBoGA1UEAwwTc2ltdWxhdGVkIGF1
dGhvcml0eTAgFw0wMDAxMDEwMDAwMDBaGA8yMTk5MTIzMTAwMDAwMFowHDEaMBgG
A1UEAwwRc2ltdWxhdGVkIG1hY2hpbmUwKjAFBgMrZXADIQC2gpkhLxlCT6WfAbmZ
pTz711ZQoen2tLbgUPFogu/GeKOB5zCB5DAMBgNVHRMBAf8EAjAAMB0GA1UdJQQW
MBQGCCsGAQUFBwMBBggrBgEFBQcDAjAfBgNVHSMEGDAWgBQfXF1hMS3lQ7h6dR5i
/O2EG0gI7DB1BgNVHREEbjBsggJuMYICbjKCAm4zggJuNIICbjWCAm42ggJuN4IC
bjiCAm45ggJzMYICczKCAnMzggJzNIICczWCAnM2ggJzN4ICcziCAnM5ggJvMYIC
bzKCAm8zggJvNIICbzWCAm82ggJvN4ICbziCAm85MB0GA1UdDgQWBBTyiY8GEgf7
YBYOJn+d3jiWXxOOKjAFBgMrZXADQQAvl7FCbvvflIvqkIc1CNGQzcXZUGgbr+XB
ewG5SZJYIQYpZfJdiM6knC5VQbIyFyhkKmyQAAhPWd9qqef7VFUN
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDBFAJoWQZVsNhSkhiupfEo3fl4/xl596i6e4ifj2LD5
-----END PRIVATE KEY-----
"""


def write_certificates(folder: Path) -> dict[str, str]:
    """Write what all nodes and programs show each other; return the table `[tls]` of the file."""
    texts = {"ca": AUTHORITY, "certificate": CERTIFICATE, "key": KEY}
    paths = {name: folder / f"{name}.pem" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name], encoding="ascii")
    return {name: str(path) for name, path in paths.items()}


class PlainText(asyncio.Protocol):
    """Stands between TLS and the protocol of the product, and takes note of what was decrypted."""

    def __init__(self, socket: Socket, protocol: asyncio.Protocol) -> None:
        """Pass everything on to the protocol."""
        self._socket = socket
        self._protocol = protocol
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        """Take note of bytes, and pass them on."""
        self._socket.machine.world.note_plain_text(self._socket, data)
        self._protocol.data_received(data)


def caller_over_tls(
    loop: asyncio.AbstractEventLoop,
    plain: PlainText,
    context: ssl.SSLContext,
    host: str,
    made: asyncio.Future[None],
) -> sslproto.SSLProtocol:
    """Return what asyncio puts between the transport and the protocol of a caller."""
    return sslproto.SSLProtocol(loop, plain, context, made, server_hostname=host)
