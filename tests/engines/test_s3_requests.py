"""Requests to S3: how they are signed and sent, which answers refuse us, and which servers no lock is kept on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

import coterie
from coterie.engines.s3.bucket import Bucket, BucketAccess
from coterie.engines.s3.http import HttpClient
from coterie.engines.s3.polls import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, Polls
from coterie.engines.s3.records import EMPTY_BYTES_MAX, Keys, QueueObject, write
from coterie.engines.s3.signature import AccessKeys, S3Request
from coterie.errors import ConfigError, Unavailable, UsageError
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LIMIT = 5.0
EXAMPLE = AccessKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EXAMPLE_HOST = "examplebucket.s3.amazonaws.com"
EXAMPLE_TIME = 1369353600.0  # 2013-05-24, as in Amazon's description of the signature


@pytest.mark.parametrize(
    ("request_", "signature"),
    [
        (
            S3Request("GET", EXAMPLE_HOST, "/test.txt", {}, {"range": "bytes=0-9"}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            S3Request(
                "PUT",
                EXAMPLE_HOST,
                "/test$file.text",
                {},
                {
                    "date": "Fri, 24 May 2013 00:00:00 GMT",
                    "x-amz-storage-class": "REDUCED_REDUNDANCY",
                },
                b"Welcome to Amazon S3.",
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            S3Request("GET", EXAMPLE_HOST, "/", {"max-keys": "2", "prefix": "J"}, {}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
    ids=["get", "put", "list"],
)
def test_a_signature_is_that_of_amazons_examples(request_: S3Request, signature: str) -> None:
    headers = request_.signed(EXAMPLE, "us-east-1", EXAMPLE_TIME)
    assert headers["authorization"].endswith(f"Signature={signature}")


def test_a_session_token_is_signed_and_without_keys_nothing_is() -> None:
    asked = S3Request("GET", "h", "/b/a b", {"prefix": "x/y"}, {})
    assert asked.target == "/b/a%20b?prefix=x%2Fy"
    headers = asked.signed(AccessKeys("key", "secret", "lent"), "r", 0.0)
    assert headers["x-amz-security-token"] == "lent"
    assert "x-amz-security-token" in headers["authorization"]
    assert asked.signed(AccessKeys("", ""), "r", 0.0) == {"host": "h"}


# Answers


class Store:
    """An object store in memory that answers requests as S3 does, or wrongly on purpose."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.honours = {"if-match", "if-none-match"}
        self.is_slow = False  # between the comparison and the write
        self.refusal: Callable[[str], bytes | None] = lambda _: None
        self.cuts = 0  # connections that are closed when a request comes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split(" ")
                headers = {}
                while (line := await reader.readline()).strip():
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append(method)
                if self.cuts:
                    self.cuts -= 1
                    break
                answer = self.refusal(method) or await self._answer(method, target, headers, body)
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        key = unquote(urlsplit(target).path)
        found = self.objects.get(key)
        honoured = {name: value for name, value in headers.items() if name in self.honours}
        if method == "PUT":
            return await self._put(key, found, honoured, body)
        if method == "DELETE":
            self.objects.pop(key, None)
            return answer_of(204)
        if found is None:
            return answer_of(404, error_of("NoSuchKey"))
        is_known = headers.get("if-none-match") == tag(found)
        return answer_of(304 if is_known else 200, b"" if is_known else found, etag=tag(found))

    async def _put(
        self, key: str, found: bytes | None, headers: dict[str, str], body: bytes
    ) -> bytes:
        if "if-none-match" in headers and found is not None:
            return answer_of(412)
        if "if-match" in headers and (found is None or headers["if-match"] != tag(found)):
            return answer_of(412 if found else 404)
        if self.is_slow:
            await asyncio.sleep(0.01)
        self.objects[key] = body
        return answer_of(200, etag=tag(body))


def tag(body: bytes) -> str:
    return f'"{hash(body) & 0xFFFFFFFF:x}"'


def error_of(code: str, text: str = "") -> bytes:
    return f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()


def answer_of(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def serving(store: Store) -> AsyncIterator[int]:
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def bucket_of(store: Store, limit: float = LIMIT) -> AsyncIterator[Bucket]:
    async with serving(store) as port:
        client = HttpClient("s3 here", ("127.0.0.1", port), None, limit)
        bucket = Bucket("s3 here", client, BucketAccess("h", "b", "us-east-1", EXAMPLE))
        yield bucket
        await bucket.close()


@pytest.mark.parametrize("ignored", ["if-match", "if-none-match"])
@in_loop
async def test_a_server_that_ignores_conditions_is_refused_when_a_program_connects(
    ignored: str,
) -> None:
    store = Store()
    store.honours.remove(ignored)
    async with serving(store) as port:
        c = coterie.connect(f"s3://key:secret@127.0.0.1:{port}/b")
        with pytest.raises(ConfigError, match="does not honour the conditions of writes") as caught:
            await c.open()
        assert "\n" not in str(caught.value)


@in_loop
async def test_a_server_that_compares_and_then_writes_is_refused_by_its_first_program() -> None:
    store = Store()
    store.is_slow = True
    async with bucket_of(store) as bucket:
        with pytest.raises(ConfigError, match="2 of 2 writes at once won"):
            await bucket.check_rivals("x")
    assert not store.objects


@in_loop
async def test_a_write_that_was_sent_twice_is_known_by_what_is_there() -> None:
    store = Store()
    async with bucket_of(store) as bucket:
        first = await bucket.put("x", b"1", None)
        store.cuts = 1
        second = await bucket.put("x", b"2", first)
        assert second == tag(b"2")
        # The server has written it, and its answer was lost with the connection.
        store.objects["/b/x"] = b"3"
        store.cuts = 1
        assert await bucket.put("x", b"3", second) == tag(b"3")
        store.cuts = 1
        assert await bucket.put("x", b"4", second) is None
        store.cuts = 2  # of which one is of a fresh connection
        with pytest.raises(Unavailable, match="the connection ended"):
            await bucket.put("x", b"5", tag(b"3"))


@in_loop
async def test_a_conflict_of_writes_is_no_refusal() -> None:
    store = Store()
    refusals = iter([answer_of(409, error_of("ConditionalRequestConflict"))])
    store.refusal = lambda _: next(refusals, None)
    async with bucket_of(store) as bucket:
        assert await bucket.put("x", b"1", None) == tag(b"1")
    assert store.requests == ["PUT", "PUT"]


@in_loop
async def test_what_is_known_is_not_sent_again() -> None:
    store = Store()
    async with bucket_of(store) as bucket:
        await bucket.put("x", b"1", None)
        found = await bucket.get("x")
        assert found is not None
        assert await bucket.get_recent("x", 60.0) == found
        assert store.requests == ["PUT", "GET"]
        store.objects.clear()
        assert await bucket.get("x") is None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (answer_of(403, error_of("InvalidAccessKeyId", "No such key")), "InvalidAccessKeyId: No such key"),
        (answer_of(403, error_of("SignatureDoesNotMatch")), "SignatureDoesNotMatch"),
        (answer_of(404, error_of("NoSuchBucket")), "there is no such bucket; make it first"),
        (answer_of(301, error_of("PermanentRedirect"), x_amz_bucket_region="eu-west-1"), "write region=eu-west-1"),
        (answer_of(501, error_of("NotImplemented", "A header")), "NotImplemented: A header"),
    ],
    ids=["key", "secret", "bucket", "region", "header"],
)  # fmt: skip
@in_loop
async def test_who_is_refused_is_told_why_in_a_line(answer: bytes, text: str) -> None:
    store = Store()
    store.refusal = lambda _: answer
    async with bucket_of(store) as bucket:
        with pytest.raises(ConfigError) as caught:
            await bucket.get("x")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@in_loop
async def test_a_server_with_trouble_is_asked_again_later() -> None:
    store = Store()
    store.refusal = lambda _: answer_of(503, error_of("SlowDown"))
    async with bucket_of(store) as bucket:
        with pytest.raises(Unavailable, match="SlowDown"):
            await bucket.get("x")
        store.refusal = lambda _: b"HTTP/2 what\r\n\r\n"
        with pytest.raises(Unavailable, match="makes no sense"):
            await bucket.get("x")
    silent = Store()
    silent.refusal = lambda _: b"HTTP/1.1 200 -\r\n"
    async with bucket_of(silent, 0.05) as bucket:
        with pytest.raises(Unavailable, match="no answer in time"):
            await bucket.get("x")


@in_loop
async def test_a_clock_that_is_wrong_is_set_by_that_of_the_server() -> None:
    store = Store()
    date = "Fri, 24 May 2013 00:00:00 GMT"
    refusals = iter([answer_of(403, error_of("RequestTimeTooSkewed"), date=date)])
    store.refusal = lambda _: next(refusals, None)
    async with bucket_of(store) as bucket:
        assert await bucket.put("x", b"1", None)
        assert await bucket.put("y", b"1", None)
    assert store.requests == ["PUT"] * 3


@in_loop
async def test_an_answer_may_come_in_chunks() -> None:
    store = Store()
    chunks = b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    store.refusal = lambda _: (
        b'HTTP/1.1 200 -\r\netag: "1"\r\nTransfer-Encoding: chunked\r\n\r\n' + chunks
    )
    async with bucket_of(store) as bucket:
        found = await bucket.get("x")
        again = await bucket.get("x")
    assert found is not None
    assert found.body == b"abcde"
    assert again is not None


def test_urls_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("s3://bucket", "s3://a,b/c", "s3://a/b?lease=0.1", "s3s://a/b?sslmode=require"):
        with pytest.raises(UsageError):
            coterie.connect(url)
    monkeypatch.delenv("COTERIE_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match="names an access key, and no secret"):
        coterie.connect("s3://key@a/b")


# Keys


@pytest.mark.parametrize("lock", ["x", "a/b", ".", "..", "x" * 255, "/" * 255, "\u00fc+", "a.json"])
def test_a_key_says_which_lock_it_is_of(lock: str) -> None:
    keys = Keys("coterie")
    key = keys.queue(lock)
    assert keys.lock_of(key) == lock
    assert all(0 < len(part) <= 255 for part in key.split("/"))
    assert not {".", ".."} & set(key.split("/"))


def test_a_queue_without_entries_is_known_by_its_size() -> None:
    assert len(write(QueueObject(number=(1 << 63) - 1))) <= EMPTY_BYTES_MAX


def test_two_records_with_the_same_content_are_not_the_same_object() -> None:
    assert write(QueueObject(number=1)) != write(QueueObject(number=1))


# Looks


def test_looks_become_fewer_as_time_goes_by() -> None:
    polls = Polls(600.0)
    assert polls.next_at() == float("inf")
    now, looks = 0.0, []
    polls.watch("x", 1, now)
    while now < 60:
        now = polls.next_at()
        assert polls.due(now) == ["x"]
        looks.append(now)
    pauses = [after - before for before, after in itertools.pairwise(looks)]
    assert pauses[0] == pytest.approx(PAUSE_SECONDS_MIN)
    assert pauses[-1] == PAUSE_SECONDS_MAX
    assert len(looks) < 60
    polls.hurry("x", now)
    assert polls.next_at() - now == pytest.approx(PAUSE_SECONDS_MIN)
    polls.forget("x")
    assert not polls.due(now + 60)


def test_who_stands_behind_others_looks_less_often() -> None:
    polls = Polls(30.0)
    for rank in (1, 2, 9):
        polls.watch(str(rank), rank, 0.0)
    assert polls.due(1.0) == ["1", "2", "9"]
    assert [name for name in ("1", "2", "9") if name in polls.due(1.0 + 0.3)] == ["1"]
    polls.rest("box", 2.0)
    assert "box" in polls
    assert polls.due(2.0)[-1:] == ["box"]
    assert "box" not in polls.due(3.9)
    assert "box" in polls.due(4.0)
