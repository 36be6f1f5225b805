"""The few messages of etcd's API that locks need, in the wire format of protocol buffers.

Field numbers are those of `etcdserverpb/rpc.proto` and `mvccpb/kv.proto`, which etcd keeps for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Enumerations of rpc.proto.
ASCENDING, DESCENDING = 1, 2
BY_CREATION = 2
CREATE_REVISION = 1
MOD_REVISION = 2
VALUE = 3
LESS, NOT_EQUAL = 2, 3
DELETE = 1


# Encoding


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is sent as its two's complement
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """Encode a number or a flag; 0 is the default, and is not sent."""
    return _varint(field << 3) + _varint(value) if value else b""


def chunk(field: int, value: bytes) -> bytes:
    """Encode bytes, text or a message."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def get(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    order: int = 0,
    created_before: int = 0,
    serializable: bool = False,
    keys_only: bool = False,
) -> bytes:
    """Encode a RangeRequest; with `order` sorted by creation."""
    return (
        chunk(1, key)
        + (chunk(2, end) if end else b"")
        + number(3, limit)
        + number(5, order)
        + number(6, BY_CREATION if order else 0)
        + number(7, serializable)
        + number(8, keys_only)
        + number(13, created_before - 1 if created_before else 0)
    )


def put(key: bytes, value: bytes, lease: int) -> bytes:
    """Encode a PutRequest."""
    return chunk(1, key) + chunk(2, value) + number(3, lease)


def delete(key: bytes, end: bytes = b"") -> bytes:
    """Encode a DeleteRangeRequest for one key, or a range of keys."""
    return chunk(1, key) + (chunk(2, end) if end else b"")


def absent(key: bytes) -> bytes:
    """Encode a Compare that holds if the key does not exist; the revision 0 has to be sent."""
    return number(2, CREATE_REVISION) + chunk(3, key) + _varint(5 << 3) + _varint(0)


def exists(key: bytes) -> bytes:
    """Encode a Compare that holds if the key exists; the revision 0 has to be sent here, too."""
    return number(1, NOT_EQUAL) + absent(key)


def holds(key: bytes, value: bytes) -> bytes:
    """Encode a Compare that holds if the key exists and has this value."""
    return number(2, VALUE) + chunk(3, key) + chunk(7, value)


def unchanged(key: bytes, revision: int) -> bytes:
    """Encode a Compare that holds if the key was last changed in that revision; 0 if it is absent."""
    return number(2, MOD_REVISION) + chunk(3, key) + _varint(6 << 3) + _varint(revision)


def created(key: bytes, revision: int) -> bytes:
    """Encode a Compare that holds if the key exists since that revision."""
    return number(2, CREATE_REVISION) + chunk(3, key) + number(5, revision)


def below(key: bytes, value: bytes) -> bytes:
    """Encode a Compare that holds if the key exists and its value comes before this one, byte by byte."""
    return number(1, LESS) + number(2, VALUE) + chunk(3, key) + chunk(7, value)


def transaction(
    compare: Sequence[bytes], then: Sequence[bytes], otherwise: Sequence[bytes] = ()
) -> bytes:
    """Encode a TxnRequest, out of encoded comparisons and operations."""
    return (
        b"".join(chunk(1, comparison) for comparison in compare)
        + b"".join(chunk(2, operation) for operation in then)
        + b"".join(chunk(3, operation) for operation in otherwise)
    )


def watch(watch_id: int, key: bytes, end: bytes) -> bytes:
    """Encode a WatchRequest for a range of keys that begins now."""
    return chunk(1, chunk(1, key) + chunk(2, end) + number(7, watch_id))


def unwatch(watch_id: int) -> bytes:
    """Encode a WatchRequest that ends a watch."""
    return chunk(2, number(1, watch_id))


SERIALIZABLE = number(
    7, 1
)  # appended to a RangeRequest: the member that is asked answers by itself
READ = chunk(1, b"")[:1]  # what an operation of a transaction begins with that reads

# Decoding


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message, each with its number; raises `ValueError` if it is cut off."""
    at = 0
    while at < len(data):
        tag, at = _read(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _read(data, at)
            yield tag >> 3, value
            continue
        size, at = _read(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        if at + size > len(data):
            raise ValueError("a message that is cut off")
        yield tag >> 3, data[at : at + size]
        at += size


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return (value - (1 << 64) if value >= 1 << 63 else value), at


class KeyValue(NamedTuple):
    """A key with what etcd knows of it."""

    key: bytes
    value: bytes
    created: int  # its revision
    changed: int  # the revision of its last change
    lease: int = 0  # with which it goes; 0 if with none


def key_value(data: bytes) -> KeyValue:
    """Decode a KeyValue."""
    found = dict(fields(data))
    created, changed = _int(found.get(2)), _int(found.get(3))
    lease = _int(found.get(6))
    return KeyValue(_bytes(found.get(1)), _bytes(found.get(5)), created, changed, lease)


class FoundKeys(NamedTuple):
    """The answer to a RangeRequest."""

    revision: int  # of the store; 0 within a transaction
    keys: list[KeyValue]


def found(data: bytes) -> FoundKeys:
    """Decode a RangeResponse."""
    revision, keys = 0, []
    for field, value in fields(data):
        if field == 1:
            revision = revision_of(_bytes(value))
        elif field == 2:
            keys.append(key_value(_bytes(value)))
    return FoundKeys(revision, keys)


def revision_of(header: bytes) -> int:
    """Return the revision in a ResponseHeader."""
    return _int(dict(fields(header)).get(3))


class Done(NamedTuple):
    """The answer to a TxnRequest: the answers to its reads, in their order."""

    revision: int
    succeeded: bool
    reads: list[list[KeyValue]]


def done(data: bytes) -> Done:
    """Decode a TxnResponse."""
    revision, succeeded, reads = 0, False, []
    for field, value in fields(data):
        if field == 1:
            revision = revision_of(_bytes(value))
        elif field == 2:
            succeeded = bool(value)
        elif field == 3:
            reads += [
                found(_bytes(answer)).keys for kind, answer in fields(_bytes(value)) if kind == 1
            ]
    return Done(revision, succeeded, reads)


def carried_out(data: bytes) -> bool:
    """Return True if a TxnResponse says that its comparisons held; where it has transactions in it, those of them."""
    answers = [fields(_bytes(answer)) for field, answer in fields(data) if field == 3]
    nested = [_bytes(inner) for answer in answers for kind, inner in answer if kind == 4]
    if nested:
        return all(map(carried_out, nested))
    return bool(dict(fields(data)).get(2))


class Lease(NamedTuple):
    """The answer to LeaseGrant and LeaseKeepAlive."""

    id: int
    seconds: int


def lease(data: bytes) -> Lease:
    """Decode a LeaseGrantResponse or a LeaseKeepAliveResponse."""
    known = dict(fields(data))
    return Lease(_int(known.get(2)), _int(known.get(3)))


class Status(NamedTuple):
    """What a member says about itself."""

    member: int
    version: str
    leader: int  # the member that leads; 0 if none is known


def status(data: bytes) -> Status:
    """Decode a StatusResponse."""
    known = dict(fields(data))
    member = _int(dict(fields(_bytes(known.get(1)))).get(2))
    return Status(member, text(data, 2), _int(known.get(4)))


class KeyChange(NamedTuple):
    """A key that was put or deleted."""

    deleted: bool
    key: bytes
    value: bytes
    revision: int  # in which that was done


class Watched(NamedTuple):
    """A WatchResponse."""

    revision: int
    watch_id: int
    created: bool
    cancelled: bool
    changes: list[KeyChange]


def watched(data: bytes) -> Watched:
    """Decode a WatchResponse."""
    revision, watch_id, created, cancelled, changes = 0, 0, False, False, []
    for field, value in fields(data):
        match field:
            case 1:
                revision = revision_of(_bytes(value))
            case 2:
                watch_id = _int(value)
            case 3:
                created = bool(value)
            case 4:
                cancelled = bool(value)
            case 11:
                changes.append(_change(_bytes(value)))
            case _:
                pass
    return Watched(revision, watch_id, created, cancelled, changes)


def _change(data: bytes) -> KeyChange:
    known = dict(fields(data))
    entry = key_value(_bytes(known.get(2)))
    return KeyChange(known.get(1) == DELETE, entry.key, entry.value, entry.changed)


def text(data: bytes, field: int) -> str:
    """Return a text field of a message."""
    return _bytes(dict(fields(data)).get(field)).decode()


def _int(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""
