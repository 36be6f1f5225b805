"""Whether the certificate of this process serves its purpose: found by TLS handshakes with itself, in memory.

Nothing but a handshake says all of it as the other end will see it: dates, authority, host and use. A node that
finds out when a program cannot connect finds out too late.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Any

from coterie.cluster.wire.trouble import explain
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.cluster.wire.security import Security

STEPS_MAX = 10  # of a handshake: each end has its turn
DAY_SECONDS = 86_400

logger = logging.getLogger("coterie.cluster")


def days_left(certificate: dict[str, Any], now: float) -> float:
    """Return for how many days a certificate is still good."""
    return (ssl.cert_time_to_seconds(certificate["notAfter"]) - now) / DAY_SECONDS


def own_certificate(security: Security) -> dict[str, Any]:
    """Return our certificate as a node sees that of a caller; raise `ssl.SSLError` for what it will not accept.

    It is empty where we have none.
    """
    server, client = security.server_context(), security.client_context()
    if server is None or client is None:
        return {}
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return _shake_hands(server, client, "")


def own_trouble(security: Security, host: str = "") -> str:
    """Say what others find wrong with our certificate, at a host also those that call it; empty if nothing."""
    try:
        if not own_certificate(security):
            return ""
    except ssl.SSLError as error:
        return f"nodes will not accept it: {reason_of(error)}"
    server, client = security.server_context(), security.client_context()
    if host and server is not None and client is not None:
        try:
            _shake_hands(server, client, host)
        except (ssl.SSLError, ValueError) as error:
            return f"callers of {host} will not accept it: {reason_of(error)}"
    return ""


def reason_of(error: Exception) -> str:
    """Return what a verification says, without the words around it."""
    return getattr(error, "verify_message", "") or explain(error)


def warn_of_own_certificate(security: Security, host: str = "") -> None:
    """Log what is wrong with our certificate, so that not only the other ends say it."""
    try:
        trouble = own_trouble(security, host)
    except ConfigError:
        return  # what is wrong with the files is said where they are used
    if trouble:
        logger.warning(
            "our certificate %(path)s: %(trouble)s",
            {"path": security.certificate, "trouble": trouble},
            extra={"event": "certificate-unfit"},
        )


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> dict[str, Any]:
    """Let two ends greet each other; return the caller's certificate, or raise what one finds wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    listens = server.wrap_bio(to_server, to_client, server_side=True)
    calls = client.wrap_bio(to_client, to_server, server_hostname=host or None)
    waiting = [calls, listens]
    for _ in range(STEPS_MAX):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    found = listens.getpeercert()
    assert found, "the caller has shown one"
    return dict(found)
