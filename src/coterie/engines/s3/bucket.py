"""A bucket: objects that are compared and set, each by the ETag of the content that is to be replaced.

An ETag is made from the content: an object with the same content as before has the same ETag as before. So each content that
a program writes has something in it that none had before.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from email.utils import parsedate_to_datetime
from html import unescape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from coterie import system
from coterie.engines.queue.nonsense import sensible
from coterie.engines.s3.signature import S3Request
from coterie.errors import ConfigError, Unavailable
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from coterie.engines.s3.http import HttpAnswer, HttpClient
    from coterie.engines.s3.signature import AccessKeys

OK, NOT_MODIFIED, NOT_FOUND, CONFLICT, PRECONDITION_FAILED = 200, 304, 404, 409, 412
FORBIDDEN, SKEWED = 403, "RequestTimeTooSkewed"
REFUSED = (400, 401, FORBIDDEN, 405, 501)
REDIRECTED = (301, 307)
KNOWN_MAX = 4096  # objects whose content is kept, so that it is not sent again as long as it stays
CONFLICT_PAUSES = (0.01, 0.05, 0.2)  # in which another write of the object was under way
PAUSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.5)
"""Between two tries to change an object that others write at the same moment; each is cut by chance."""
RIVALS = 2  # writes at once, of which one may win
PAGE = 1000  # names that a list has at most
IGNORED = (
    "the server does not honour the conditions of writes ({}), so no locks can be kept there; it has to know If-None-Match"
    " and If-Match of PutObject"
)


class StoredObject(NamedTuple):
    """An object."""

    etag: str
    body: bytes
    at: float  # when the answer had arrived that showed it


class ListedObject(NamedTuple):
    """An object, as a list shows it."""

    key: str
    etag: str
    size: int


class BucketAccess(NamedTuple):
    """Which bucket is meant, and by which keys requests to it are signed."""

    host: str  # with its port, unless it is the usual one
    bucket: str
    region: str  # that the bucket is in, as far as the server knows regions
    credentials: AccessKeys


class Bucket:
    """The objects of one bucket."""

    def __init__(self, shown: str, client: HttpClient, access: BucketAccess) -> None:
        """Prepare; the first request connects.

        Args:
            shown: The server and the bucket, for people.
            client: Sends requests to the server.
            access: Which bucket it is, and who asks.
        """
        self._shown = shown
        self._client = client
        self._access = access
        self.server = ""  # what it calls itself
        self._ahead = 0.0  # that its time of day is ahead of ours
        self._known: OrderedDict[str, StoredObject] = OrderedDict()

    def __str__(self) -> str:
        """Name the bucket for people."""
        return self._shown

    async def get(self, key: str) -> StoredObject | None:
        """Return an object; what is known already is not sent again."""
        known = self._known.get(key)
        answer = await self._ask("GET", key, {"if-none-match": known.etag} if known else {})
        if answer.status == NOT_MODIFIED and known is not None:
            found = self._known[key] = known._replace(at=system.now())
            return found
        if answer.status == NOT_FOUND:
            self._known.pop(key, None)
            return None
        self._expect(answer, OK)
        return self._note(key, answer, answer.body)

    async def get_recent(self, key: str, seconds: float) -> StoredObject | None:
        """Return an object as it was so many seconds ago, or later."""
        known = self._known.get(key)
        if known is not None and system.now() - known.at < seconds:
            return known
        return await self.get(key)

    async def put(self, key: str, body: bytes, etag: str | None) -> str | None:
        """Write an object if it has that ETag, or if there is none; return its new one, or None if another is there.

        Raises `Unavailable` if it is not known whether it was written: it may still be, later.
        """
        headers = {"if-match": etag} if etag is not None else {"if-none-match": "*"}
        answer = await self._ask("PUT", key, headers, body)
        for pause in CONFLICT_PAUSES:
            if answer.status != CONFLICT:
                break
            await asyncio.sleep(pause)
            answer = await self._ask("PUT", key, headers, body)
        if answer.status in (PRECONDITION_FAILED, NOT_FOUND):
            found = await self.get(key) if answer.is_second else None
            # The first time it was sent it may have arrived, and come between.
            return found.etag if found is not None and found.body == body else None
        self._expect(answer, OK)
        return self._note(key, answer, body).etag

    async def delete(self, key: str) -> None:
        """Remove an object, whatever it is."""
        answer = await self._ask("DELETE", key, {})
        self._known.pop(key, None)
        if answer.status != NOT_FOUND:
            self._expect(answer, OK, 204)

    async def list(
        self, prefix: str, *, after: str = "", is_whole: bool = True
    ) -> list[ListedObject]:
        """List objects in the order of their names: all, or the first page of them."""
        found: list[ListedObject] = []
        while True:
            query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
            if after:
                query["start-after"] = after
            answer = await self._ask("GET", "", {}, query=query)
            self._expect(answer, OK)
            with sensible(self):
                page, is_last = _read_list(answer.body.decode())
            found += page
            if is_last or not page or not is_whole:
                return found
            after = page[-1].key

    async def check(self, key: str, body: bytes) -> None:
        """Make sure that the server refuses writes whose conditions do not hold; `key` is of an object that is there."""
        if await self.put(key, body, None) is not None:
            raise ConfigError(f"{self}: {IGNORED.format('If-None-Match: *')}")
        if await self.put(key, body, '"0123456789abcdef0123456789abcdef"') is not None:
            raise ConfigError(f"{self}: {IGNORED.format('If-Match')}")

    async def check_rivals(self, key: str) -> None:
        """Make sure that of several writes at once one wins, with an object of no use; remove it."""
        try:
            etag: str | None = None
            for turn in range(2):
                writes = (self.put(key, b"%d.%d" % (turn, n), etag) for n in range(RIVALS))
                answers = await asyncio.gather(*writes, return_exceptions=True)
                for answer in answers:
                    if isinstance(answer, BaseException):
                        raise answer
                won = [each for each in answers if isinstance(each, str)]
                if len(won) != 1:
                    text = f"{len(won)} of {RIVALS} writes at once won"
                    raise ConfigError(f"{self}: {IGNORED.format(text)}")
                etag = won[0]
        finally:
            await self.delete(key)

    async def time(self, key: str) -> float:
        """Return the time of day of the server, which each answer has in whole seconds; here one about an object."""
        answer = await self._ask("GET", key, {})
        return self._time_of(answer) + 0.5

    async def make(self) -> None:
        """Make the bucket, unless it is there."""
        answer = await self._ask("PUT", "", {})
        self._expect(answer, OK, CONFLICT)

    async def close(self) -> None:
        """Cut the connections."""
        await self._client.close()

    # Requests

    async def _ask(
        self,
        method: str,
        key: str,
        headers: dict[str, str],
        body: bytes = b"",
        *,
        query: dict[str, str] | None = None,
    ) -> HttpAnswer:
        path = f"/{self._access.bucket}/{key}" if key else f"/{self._access.bucket}"
        request = S3Request(method, self._access.host, path, query or {}, headers, body)
        answer = await self._send(request)
        if answer.status == FORBIDDEN and _tag(answer.body, "Code") == SKEWED:
            # A signature has a time, which the server compares with its own.
            self._ahead = self._time_of(answer) - system.wall()
            answer = await self._send(request)
        self.server = answer.headers.get("server", self.server)
        if answer.status in (*REFUSED, *REDIRECTED) or (
            answer.status == NOT_FOUND and b"NoSuchBucket" in answer.body
        ):
            raise self._refusal(answer)
        return answer

    async def _send(self, request: S3Request) -> HttpAnswer:
        credentials, region = self._access.credentials, self._access.region
        signed = request.signed(credentials, region, system.wall() + self._ahead)
        return await self._client.ask(request.method, request.target, signed, request.body)

    def _time_of(self, answer: HttpAnswer) -> float:
        with sensible(self):
            return parsedate_to_datetime(answer.headers["date"]).timestamp()

    def _note(self, key: str, answer: HttpAnswer, body: bytes) -> StoredObject:
        with sensible(self):
            found = self._known[key] = StoredObject(answer.headers["etag"], body, system.now())
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found

    def _expect(self, answer: HttpAnswer, *statuses: int) -> None:
        if answer.status not in statuses:
            code = _tag(answer.body, "Code") or f"status {answer.status}"
            raise Unavailable(f"{self}: {legible(code)}")

    def _refusal(self, answer: HttpAnswer) -> ConfigError | Unavailable:
        """Say why we are refused, by the code that S3 has for it."""
        code, text = _tag(answer.body, "Code"), _tag(answer.body, "Message")
        region = answer.headers.get("x-amz-bucket-region") or _tag(answer.body, "Region")
        if answer.status in REDIRECTED or code == "AuthorizationHeaderMalformed":
            return ConfigError(
                f"{self}: the bucket is in another region"
                + (f"; write region={legible(region)} in the URL" if region else "")
            )
        if code == "NoSuchBucket":
            return ConfigError(f"{self}: there is no such bucket; make it first")
        if code in ("RequestTimeout", "IncompleteBody"):
            return Unavailable(f"{self}: {code}")
        return ConfigError(
            f"{self}: refused: {legible(code or str(answer.status))}: {legible(text)}"
        )


def _tag(body: bytes, name: str) -> str:
    """Return what a tag of an answer in XML says; empty if it is not there."""
    found = re.search(rf"<{name}>([^<]*)</{name}>", body[:65536].decode(errors="replace"))
    return unescape(found[1]) if found else ""


def _read_list(text: str) -> tuple[list[ListedObject], bool]:
    """Read one page of a list, and whether it is the last one."""
    found = []
    is_quoted = "<EncodingType>url</EncodingType>" in text
    for each in re.findall(r"<Contents>(.*?)</Contents>", text, re.DOTALL):
        fields = dict(re.findall(r"<(Key|ETag|Size)>([^<]*)</", each))
        etag = unescape(fields["ETag"])
        etag = etag if etag.startswith('"') else f'"{etag}"'
        key = unescape(fields["Key"])
        found.append(
            ListedObject(unquote_plus(key) if is_quoted else key, etag, int(fields["Size"]))
        )
    return found, "<IsTruncated>true</IsTruncated>" not in text
