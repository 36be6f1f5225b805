"""The protocol of NATS as bytes: lines of text, some followed by a body. A value: it reads and writes no socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_BYTES_MAX = 1 << 20  # INFO names all servers of a cluster
BODY_BYTES_MAX = 1 << 26  # no server takes more
END = b"\r\n"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"


class NatsFrame(NamedTuple):
    """What a server says at once."""

    kind: str
    text: str  # of its line, without the kind
    body: bytes = b""  # of a message


class FrameReader:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[NatsFrame]:
        """Take what has arrived; yield each frame that is complete. Raises `ValueError` for what is none."""
        self._buffer += data
        at = 0
        try:
            while (end := self._buffer.find(END, at)) >= 0:
                kind, _, text = self._buffer[at:end].decode(errors="replace").partition(" ")
                kind, begin, at, body = kind.upper(), at, end + len(END), b""
                if kind in {"MSG", "HMSG"}:
                    size = int(text.rpartition(" ")[2])
                    if not 0 <= size <= BODY_BYTES_MAX:
                        raise ValueError(f"a message of {size} bytes")
                    if len(self._buffer) < at + size + len(END):
                        at = begin  # the line is read again, with its body
                        break
                    body = bytes(self._buffer[at : at + size])
                    at += size + len(END)
                yield NatsFrame(kind, text, body)
            if self._buffer.find(END, at) < 0 and len(self._buffer) - at > LINE_BYTES_MAX:
                raise ValueError("a line without an end")
        finally:
            del self._buffer[:at]


class NatsAnswer(NamedTuple):
    """One message of those that answer a request."""

    status: int  # 0: it has none, so it is what was asked for
    headers: dict[str, str]
    body: bytes


def line(*words: object) -> bytes:
    """Write a line; words that are empty are left out."""
    return " ".join(str(word) for word in words if word != "").encode() + END


def message(subject: str, inbox: str, body: bytes, expected: int | None = None) -> bytes:
    """Write a message.

    Args:
        subject: Where it goes.
        inbox: Where it is answered; empty if it is not.
        body: What it says.
        expected: The number of the last message that a stream must have of this subject.
    """
    if expected is None:
        return line("PUB", subject, inbox, len(body)) + body + END
    head = f"NATS/1.0\r\n{EXPECTED}: {expected}\r\n\r\n".encode()
    return line("HPUB", subject, inbox, len(head), len(head) + len(body)) + head + body + END


def read_message(frame: NatsFrame) -> tuple[str, NatsAnswer]:
    """Read a message: its subject, and what it says."""
    words = frame.text.split(" ")
    if frame.kind == "MSG":
        return words[0], NatsAnswer(0, {}, frame.body)
    size = int(words[-2])
    first, *lines = frame.body[:size].decode(errors="replace").split("\r\n")
    status = first.removeprefix("NATS/1.0").strip().partition(" ")[0]
    pairs = (each.partition(": ") for each in lines if each)
    headers = {name: value for name, _, value in pairs}
    return words[0], NatsAnswer(int(status or 0), headers, frame.body[size:])
