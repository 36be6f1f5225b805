"""Why a node cannot be reached, in words."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.cluster.wire.address import Address

ERRNO = re.compile(
    r"\[Errno (\d+)\]"
)  # as the system writes them; a host may have several addresses
NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")


def explain(error: Exception) -> str:
    """Say what an error of a connection means, without the numbers and calls of the system."""
    text = str(error)
    if isinstance(error, ssl.SSLError):
        return _explain_tls(error)
    if isinstance(error, socket.gaierror):
        return "unknown host name"
    numbers = ERRNO.findall(text) if isinstance(error, OSError) else []
    if numbers:
        return ", ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ConnectionResetError) and not text:
        return "connection reset by peer"  # asyncio leaves the number out, where the system has one
    return text or type(error).__name__


def _explain_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted here: {error.verify_message}"
    reason = error.reason or ""
    if reason in NO_TLS:
        return "it does not speak TLS"
    if "CERTIFICATE" in reason or reason.endswith("UNKNOWN_CA"):
        words = reason.partition("ALERT_")[2].lower().replace("_", " ")
        return f"it does not accept our certificate: {words or reason}"
    return f"TLS: {reason.lower().replace('_', ' ') or error}"


def explain_at(address: Address, error: Exception) -> str:
    """Say the same with the address: of the network at the end, of what a node says before it."""
    words = explain(error)
    return f"{words} at {address}" if isinstance(error, OSError) else f"{address}: {words}"
