"""Amazon's signature, version 4, as S3 wants it: a request and a secret make the headers that prove the secret. A value."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHM = "AWS4-HMAC-SHA256"


class AccessKeys(NamedTuple):
    """By which a program is known to S3."""

    access_key: str  # empty: requests are not signed
    secret_key: str
    session_token: str = ""  # of credentials that are lent for some hours


class S3Request(NamedTuple):
    """What is asked, before it is signed."""

    method: str
    host: str  # with the port, unless it is the usual one
    path: str  # not quoted
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def target(self) -> str:
        """The path and the query, as they are sent."""
        query = self._query()
        return f"{quote(self.path, safe='/~')}{'?' if query else ''}{query}"

    def _query(self) -> str:
        pairs = sorted((quote(k, safe="~"), quote(v, safe="~")) for k, v in self.query.items())
        return "&".join(f"{name}={value}" for name, value in pairs)

    def signed(self, credentials: AccessKeys, region: str, at: float) -> dict[str, str]:
        """Return all headers, with the signature; `at` is in seconds since 1970."""
        digest = hashlib.sha256(self.body).hexdigest()
        headers = {"host": self.host, **self.headers}
        if not credentials.access_key:
            return headers
        time = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
        headers |= {"x-amz-content-sha256": digest, "x-amz-date": time}
        if credentials.session_token:
            headers["x-amz-security-token"] = credentials.session_token
        names = sorted(headers)
        lines = [f"{name}:{headers[name]}" for name in names]
        path, query = quote(self.path, safe="/~"), self._query()
        canonical = "\n".join((self.method, path, query, *lines, "", ";".join(names), digest))
        scope = f"{time[:8]}/{region}/s3/aws4_request"
        text = "\n".join((ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{credentials.secret_key}".encode()
        for part in scope.split("/"):
            key = _mac(key, part)
        headers["authorization"] = (
            f"{ALGORITHM} Credential={credentials.access_key}/{scope},"
            f"SignedHeaders={';'.join(names)},Signature={_mac(key, text).hex()}"
        )
        return headers


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
