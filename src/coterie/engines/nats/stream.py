"""The stream that locks are kept in: messages that are compared and set, each by the number of the one before it.

Of each subject the stream keeps the last message. A message is written if the last one of its subject has the number
that is expected, 0 if there is none; numbers are drawn by the stream as it writes, and never used again.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coterie.engines.nats.connection import NO_RESPONDERS, NOT_FOUND, TOO_MANY
from coterie.engines.queue.nonsense import sensible
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.engines.nats.connection import NatsConnection
    from coterie.engines.nats.frames import NatsAnswer

PAGE = 500  # messages that are asked for at a time
SUBJECTS_MAX = 200  # that are named in one request
WRONG_LAST, NO_STREAM, NO_MESSAGE = 10071, 10059, 10043
REPLICAS = 3  # in a cluster
LAG_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
READY_TRIES, READY_SECONDS = 20, 0.1
VERSION_MIN = (2, 11)


class Stored(NamedTuple):
    """A message of the stream."""

    subject: str
    number: int
    body: bytes


class StreamState(NamedTuple):
    """What the servers say of the stream."""

    created: str
    last: int  # the number of its last message
    leader: str  # the name of the server that leads it; empty where that is not said


class TooMany(Exception):  # noqa: N818 - says what is the matter
    """More messages were asked for at once than a server shows."""


class LockStream:
    """The stream, over one connection."""

    def __init__(self, connection: NatsConnection, name: str, subjects: str) -> None:
        """Name the stream, and what it keeps."""
        self.connection = connection
        self._name = name
        self._subjects = subjects
        self._direct = f"$JS.API.DIRECT.GET.{name}"

    # Writing

    async def put(self, subject: str, body: bytes, expected: int) -> int | None:
        """Write a message if the last one of the subject is the expected one; None if another is there."""
        answer = await self.connection.ask(subject, body, expected=expected)
        found = self._read(answer)
        if "error" not in found:
            with sensible(self.connection):
                return int(found["seq"])
        if _code(found) != WRONG_LAST:
            raise self._trouble(found)
        return None

    async def mark(self, subject: str) -> int:
        """Write a message that says nothing, whatever is there, and return its number: all before it is in the stream."""
        found = self._read(await self.connection.ask(subject))
        if "error" in found:
            raise self._trouble(found)
        with sensible(self.connection):
            return int(found["seq"])

    async def delete(self, number: int) -> None:
        """Remove a message, if it is there: no other one ever has its number."""
        request = {"seq": number, "no_erase": True}
        found = await self._call("STREAM.MSG.DELETE", request)
        if "error" in found and _code(found) != NO_MESSAGE:
            raise self._trouble(found)

    async def purge(self, subjects: str) -> None:
        """Remove all messages of some subjects."""
        found = await self._call("STREAM.PURGE", {"filter": subjects})
        if "error" in found:
            raise self._trouble(found)

    # Reading

    async def get(self, subject: str) -> Stored | None:
        """Return the message of a subject."""
        answer = await self.connection.ask(f"{self._direct}.{subject}")
        return self._stored(answer)

    async def get_when_ready(self, subject: str) -> Stored | None:
        """Return the message of a subject; in a cluster a stream is there a moment before it can be read."""
        for _ in range(READY_TRIES):
            with contextlib.suppress(Unavailable):
                return await self.get(subject)
            await asyncio.sleep(READY_SECONDS)
        return await self.get(subject)

    async def first(self, subjects: str, count: int) -> list[Stored]:
        """Return the messages of some subjects that were written before all others."""
        return await self._page(subjects, 1, count)

    async def last(self, subjects: Sequence[str], least: int = 0) -> list[Stored]:
        """Return the messages of some subjects in the order of their numbers, all of one moment.

        One that is replaced at this moment may be left out. Raises `TooMany`.

        Args:
            subjects: Which may stand for several.
            least: A number that the stream has reached: replicas that have not are asked again.
        """
        request = msgspec.json.encode({"multi_last": subjects})
        for pause in LAG_SECONDS:
            answers = await self.connection.ask_for_batch(self._direct, request)
            if answers[-1].status == TOO_MANY:
                raise TooMany
            found = self._batch(answers)
            with sensible(self.connection):
                reached = int(answers[-1].headers.get("Nats-UpTo-Sequence", 0))
            if reached >= least:
                return found
            await asyncio.sleep(pause)
        raise Unavailable(f"{self.connection}: its replica of the stream lags behind")

    async def all(self, subjects: str) -> list[Stored]:
        """Return the messages of some subjects in the order of their numbers, some at a time.

        Of those that are there all the time none is left out.
        """
        found: list[Stored] = []
        number = 1
        while True:
            page = await self._page(subjects, number, PAGE)
            found += page
            if len(page) < PAGE:
                return found
            number = page[-1].number + 1

    async def _page(self, subjects: str, number: int, count: int) -> list[Stored]:
        request = msgspec.json.encode({"seq": number, "next_by_subj": subjects, "batch": count})
        return self._batch(await self.connection.ask_for_batch(self._direct, request))

    # The stream itself

    async def enter(self) -> StreamState:
        """Return what the stream is; make it if there is none, and refuse one that locks cannot be kept in."""
        info = self.connection.info
        if _version(info.version) < VERSION_MIN:
            raise ConfigError(
                f"{self.connection}: version {info.version} is too old; locks need NATS"
                f" {VERSION_MIN[0]}.{VERSION_MIN[1]} or newer"
            )
        found = await self._call("STREAM.INFO", {})
        if _code(found) == NO_STREAM:
            found = await self._call("STREAM.CREATE", self._config())
        if "error" in found:
            raise self._trouble(found)
        with sensible(self.connection):
            objection = _objection(found["config"], is_cluster=bool(info.cluster))
            leader = found.get("cluster", {}).get("leader", "")
            state = StreamState(found["created"], int(found["state"]["last_seq"]), leader)
        if objection:
            raise ConfigError(
                f"{self.connection}: locks cannot be kept in the stream {self._name!r}: {objection}; name another"
                " one in the URL, or remove it when all programs that use it have ended"
            )
        return state

    async def state(self) -> StreamState | None:
        """Return what the stream is, if there is one."""
        found = await self._call("STREAM.INFO", {})
        if "error" in found:
            return None
        with sensible(self.connection):
            leader = found.get("cluster", {}).get("leader", "")
            return StreamState(found["created"], int(found["state"]["last_seq"]), leader)

    async def time(self) -> float:
        """Return the time of day of the server that leads the stream, in seconds since 1970."""
        found = await self._call("STREAM.INFO", {})
        if "error" in found:
            raise self._trouble(found)
        with sensible(self.connection):
            return datetime.fromisoformat(found["ts"]).timestamp()

    def _config(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "subjects": [self._subjects],
            "description": "locks of coterie",
            "retention": "limits",
            "discard": "new",
            "max_msgs_per_subject": 1,
            "storage": "file",
            "allow_direct": True,
            "num_replicas": REPLICAS if self.connection.info.cluster else 1,
        }

    # Answers

    async def _call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode(request)
        return self._read(await self.connection.ask(f"$JS.API.{method}.{self._name}", body))

    def _read(self, answer: NatsAnswer) -> dict[str, Any]:
        self._check(answer)
        with sensible(self.connection):
            return msgspec.json.decode(answer.body, type=dict[str, Any])

    def _check(self, answer: NatsAnswer) -> None:
        if answer.status == NO_RESPONDERS:
            known = self.connection.info
            if not known.jetstream and not known.cluster:
                raise ConfigError(f"{self.connection}: JetStream is off; start the server with -js")
            raise Unavailable(f"{self.connection}: JetStream does not answer")

    def _batch(self, answers: Sequence[NatsAnswer]) -> list[Stored]:
        self._check(answers[-1])
        return [found for answer in answers if (found := self._stored(answer)) is not None]

    def _stored(self, answer: NatsAnswer) -> Stored | None:
        self._check(answer)
        if answer.status == NOT_FOUND or answer.status // 100 == 2:
            return None
        if answer.status:
            raise Unavailable(f"{self.connection}: a read was answered with {answer.status}")
        with sensible(self.connection):
            headers = answer.headers
            return Stored(headers["Nats-Subject"], int(headers["Nats-Sequence"]), answer.body)

    def _trouble(self, found: dict[str, Any]) -> ConfigError | Unavailable:
        error = found["error"]
        text = error.get("description", "") if isinstance(error, dict) else ""
        return Unavailable(f"{self.connection}: {text or 'an error without a description'}")


def _code(found: dict[str, Any]) -> int:
    error = found.get("error")
    code = error.get("err_code", 0) if isinstance(error, dict) else 0
    return code if isinstance(code, int) else 0


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.partition("-")[0].split(".")[:2] if part.isdecimal())


def _objection(config: dict[str, Any], *, is_cluster: bool) -> str:
    """Say why locks cannot be kept in a stream; empty if they can."""
    full = any(config.get(limit, -1) > 0 for limit in ("max_msgs", "max_bytes"))
    kept = any(config.get(rule) for rule in ("deny_delete", "deny_purge", "sealed"))
    objections = {
        "it keeps more than the last message of a subject": config.get("max_msgs_per_subject") != 1,
        "it does not allow direct reads": not config.get("allow_direct"),
        "it removes messages by itself": config.get("retention") != "limits"
        or config.get("max_age"),
        "it removes messages when it is full": full and config.get("discard") != "new",
        "it does not let messages be removed": kept,
        f"the servers are a cluster, and it has fewer than {REPLICAS} replicas": is_cluster
        and config.get("num_replicas", 1) < REPLICAS,
    }
    return next((text for text, is_so in objections.items() if is_so), "")
