"""Calls to a cluster of etcd over one channel that finds a member which answers."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from coterie.engines.etcd.messages import chunk, text
from coterie.engines.queue.nonsense import sensible
from coterie.engines.queue.url import TLS_PARAMETERS
from coterie.errors import ConfigError, CoterieError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.queue.url import ServerUrl

LOGIN_SECONDS_MAX = 5.0
# Before what went wrong with a connection: all addresses have failed, which we name ourselves.
NOISE = re.compile(r".*last error: [A-Z_]+: (ipv[46]:\S+: )?(Failed to connect to remote host: )?")
NAMELESS = "user name is empty"  # where authentication is on, and the call names no user
TLS_ADVICE = "look at ca=, certificate= and key= in the URL, and at etcd's own files"
# What gRPC says of TLS, and what is wrong then. Waiting does not mend a certificate, so it is a mistake
# and not an outage: an error of the channel means that no other member could be reached, either.
CERTIFICATE_TROUBLES = {
    re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: )?([a-z ]*)"): "its certificate was not accepted",
    re.compile(r"Hostname Verification Check failed"): "its certificate is for another host",
    re.compile(r"SSLV3_ALERT_\w*CERTIFICATE\w*|TLSV1_ALERT_UNKNOWN_CA|CERTIFICATE_REQUIRED"): (
        "it does not accept our certificate"
    ),
}
OPTIONS: list[tuple[str, Any]] = [
    # A line that is dead without a word is noticed (etcd#8980), and a member that is back is tried.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # How long a member may take to accept a connection: some round trips, over any distance.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    # Several coordinators of one process are to have connections of their own.
    ("grpc.use_local_subchannel_pool", 1),
]


class EtcdChannel:
    """A connection to one member at a time, with the credentials of a user.

    Watches and reads go to the same member (pick_first): over several members a read may be older
    than the event that caused it.
    """

    def __init__(self, url: ServerUrl) -> None:
        """Prepare; `open` connects."""
        self._url = url
        self._shown = f"etcd at {url.shown}"
        self._channel: grpc.aio.Channel | None = None
        self._metadata: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Name the cluster for people."""
        return self._shown

    async def open(self, limit: float) -> None:
        """Connect to a member and log in, if the URL names a user."""
        target = await self._target()
        tls = _tls(self._url)
        options = list(OPTIONS)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(target, options)
        else:
            options.append(("grpc.ssl_target_name_override", self._url.addresses[0][0]))
            self._channel = grpc.aio.secure_channel(target, tls, options)
        if self._url.user:
            await self._log_in(limit)

    async def close(self) -> None:
        """Disconnect; calls are over from now on.

        gRPC closes its sockets when nothing refers to the channel. The session that uses us may be
        part of a cycle of references, which stays until a collection, so ours is dropped here.
        """
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def call(self, method: str, request: bytes, limit: float) -> bytes:
        """Call a method and return its answer; raises `Unavailable` where there is none."""
        for last in (False, True):
            try:
                return await self._call(method, request, limit)
            except grpc.aio.AioRpcError as error:
                if last or error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                    raise self.error(error) from None
            await self._log_in(limit)  # tokens expire
        raise AssertionError("the second attempt has an end")

    def stream(self, method: str) -> grpc.aio.StreamStreamCall[bytes, bytes]:
        """Begin a call in which both sides send many messages."""
        assert self._channel is not None, "it is open"
        call: Any = self._channel.stream_stream(f"/etcdserverpb.{method}")
        stream: grpc.aio.StreamStreamCall[bytes, bytes] = call(metadata=self._metadata)
        return stream

    async def _call(self, method: str, request: bytes, limit: float) -> bytes:
        assert self._channel is not None, "it is open"
        call: Any = self._channel.unary_unary(f"/etcdserverpb.{method}")
        answer: bytes | None = await call(request, timeout=limit, metadata=self._metadata)
        if answer is None:  # a stream that ends well without a message
            raise Unavailable(f"{self}: an empty answer")
        return answer

    async def renew_login(self) -> None:
        """Log in again: a token may have expired. Raises `ConfigError` where there is no user."""
        await self._log_in(LOGIN_SECONDS_MAX)

    async def _log_in(self, limit: float) -> None:
        if not self._url.user:
            raise self._nameless()
        request = chunk(1, self._url.user.encode()) + chunk(2, self._url.secret.encode())
        self._metadata = ()
        try:
            answer = await self._call("Auth/Authenticate", request, limit)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise ConfigError(
                    f"{self}: it has no users (authentication is off), but the URL names one"
                ) from None
            raise self.error(error) from None
        with sensible(self):
            self._metadata = (("token", text(answer, 2)),)

    def error(self, error: grpc.aio.AioRpcError) -> CoterieError:
        """Say what an error of a call means."""
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(f"{self}: no answer in time")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return ConfigError(f"{self}: not an etcd of version 3.4 or newer: {details}")
        if code in {
            grpc.StatusCode.UNAUTHENTICATED,
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.INVALID_ARGUMENT,
        }:
            return self._nameless() if NAMELESS in details else self.refusal(details)
        for pattern, trouble in CERTIFICATE_TROUBLES.items():
            if found := pattern.search(details):
                reason = found[1] if pattern.groups else ""
                return ConfigError(f"{self}: {trouble}{reason and f' ({reason})'}; {TLS_ADVICE}")
        return Unavailable(f"{self}: {NOISE.sub('', details) or code.name}")

    def _nameless(self) -> ConfigError:
        return ConfigError(
            f"{self}: it wants a user; write etcd://USER@host and set COTERIE_PASSWORD"
        )

    def refusal(self, details: str) -> ConfigError:
        """Make the error of a user that may not do what locks need."""
        return ConfigError(
            f"{self}: refused: {details}; the user needs to read and write keys that begin with coterie/"
        )

    async def _target(self) -> str:
        """Resolve all addresses, so that one channel knows all members."""
        loop = asyncio.get_running_loop()
        found: dict[str, list[str]] = {"ipv4": [], "ipv6": []}
        trouble = ""
        for host, port in self._url.addresses:
            try:
                answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                trouble = f"{host}: {error.strerror or error}"
                continue
            for family, _, _, _, (place, *_) in answers:
                if family == socket.AF_INET:
                    found["ipv4"].append(f"{place}:{port}")
                elif family == socket.AF_INET6:
                    found["ipv6"].append(f"[{place}]:{port}")
        for kind, places in found.items():
            if places:
                return f"{kind}:{','.join(dict.fromkeys(places))}"
        raise Unavailable(f"{self}: {trouble}")


def _tls(url: ServerUrl) -> grpc.ChannelCredentials | None:
    """Return the credentials of the URL or the environment; None without TLS."""
    if url.scheme != "etcds" and not any(url.parameters.get(name) for name in TLS_PARAMETERS):
        return None
    ca, certificate, key = (_read(url.tls_file(name)) for name in TLS_PARAMETERS)
    if (certificate is None) != (key is None):
        raise ConfigError("certificate and key belong together: give both or none")
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _read(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
