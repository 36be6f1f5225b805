"""What the version before ours has sent and saved is read, and it can read what we send and save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased import frames as leased
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.saved import Saved, read_saved
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.membership import Membership, check_learnt
from coterie.cluster.voter.storage import MEMORY_VERSION, Memory, Storage
from coterie.cluster.wire import frames as wire
from coterie.cluster.wire.handshake import Credentials
from coterie.cluster.wire.voter_frames import FromVoter, ToVoter, decode_from_voter, decode_to_voter
from coterie.process import Outbox
from tests.cluster import protocol_6

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

encode = msgspec.msgpack.encode
KINDS = {type(frame).__name__: (frame, bytes.fromhex(text)) for frame, text in protocol_6.BYTES}
HANDSHAKE: dict[str, Callable[[bytes], Any]] = {
    "Hello": wire.decode_hello,
    "Welcome": wire.decode_welcome,
    "Proof": wire.decode_proof,
    "Refusal": wire.decode_welcome,
    "Letter": wire.decode_letter,
    "Receipt": wire.decode_receipt,
}
FROM_VOTER = {each.__name__ for each in FromVoter.__args__}
SESSION = leased.SessionName("p", 1, "n/1")
CONFIGURATION = founding(Settings(3))


def read(kind: str, content: bytes) -> Any:
    if kind in HANDSHAKE:
        return HANDSHAKE[kind](content)
    return (decode_from_voter if kind in FROM_VOTER else decode_to_voter)(content)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_version_6_are_read_and_ours_are_read_there(kind: str) -> None:
    frame, content = KINDS[kind]
    assert encode(frame) == content, "the copy of version 6 is what it was"
    known = read(kind, content)
    ours = msgspec.msgpack.decode(encode(known))
    theirs = msgspec.msgpack.decode(content)
    assert ours[: len(theirs)] == theirs, "new fields stand at the end"
    assert protocol_6.decode(encode(known)) == frame, "and are skipped"


@pytest.mark.parametrize(
    ("frame", "fields"),
    [
        (leased.Beat(SESSION, 2, 3, 4.5, number=5, known=6), 4),
        (leased.Data(SESSION, 1, 2, 3, 4.5, (), number=5, known=6), 6),
        (leased.Probe(SESSION, number=5, known=6), 1),
        (leased.Ack(SESSION, 1, 2, 3.5, grace=True, number=5), 5),
        (leased.Reply(SESSION, 1, 2, 3, 4.5, grace=False, bodies=(), number=5), 7),
    ],
)
def test_version_6_skips_the_numbers_of_configurations(frame: msgspec.Struct, fields: int) -> None:
    read_there = protocol_6.decode(encode(frame))
    whole = msgspec.msgpack.decode(encode(frame))
    assert msgspec.msgpack.decode(encode(read_there)) == whole[: 1 + fields]


NEW_KINDS: list[msgspec.Struct] = [
    leased.NewConfiguration(CONFIGURATION),
    leased.Stale(CONFIGURATION),
    leased.Behind(3),
    leased.Query(),
    leased.Condition(CONFIGURATION, 1, abstains=False),
    leased.Close(1),
    leased.Closed(1, finished=True, bound=7),
    leased.Prepare(1, leased.Attempt(1, "me")),
    leased.Refused(1, None),
]


@pytest.mark.parametrize("frame", NEW_KINDS, ids=lambda frame: type(frame).__name__)
def test_version_6_cannot_read_what_is_about_configurations(frame: msgspec.Struct) -> None:
    with pytest.raises(msgspec.ValidationError):
        protocol_6.decode(encode(frame))


@pytest.mark.parametrize("kind", [*KINDS, *(type(frame).__name__ for frame in NEW_KINDS)])
def test_fields_that_a_later_version_adds_at_the_end_are_skipped(kind: str) -> None:
    new = {type(frame).__name__: encode(frame) for frame in NEW_KINDS}
    known = read(kind, new[kind] if kind in new else KINDS[kind][1])
    whole: list[Any] = msgspec.msgpack.decode(encode(known))
    assert read(kind, encode([*whole, ["more"], 8])) == known


def test_a_configuration_and_what_was_saved_skip_later_fields_too() -> None:
    saved = Saved(17, CONFIGURATION, leased.Attempt(1, "me"))
    whole = msgspec.msgpack.decode(saved.encode())
    whole[1] = [*whole[1], "more"]
    assert read_saved(encode([*whole, "more"])) == saved


def test_every_kind_that_version_6_knows_is_pinned_or_unchanged_in_form() -> None:
    passed_on = {"NodeStatus", "Owners", "AskOwner", "OwnerReport"}  # what they carry is a value
    since = {type(frame).__name__ for frame in NEW_KINDS} | {
        "Accept", "Accepted", "Promise", "Reach", "Reached", "Impose", "BreakHold", "HoldBroken",
        "AskDeath", "Deaths",
        "EndAbstention", "AbstentionEnded",
        "Look", "Seen", "ListValues", "ValueList", "GetValue", "ValueFound", "CopyValue", "ValueCopied",
    }  # fmt: skip
    kinds = {each.__name__ for each in (*FromVoter.__args__, *ToVoter.__args__)}
    assert kinds - since == (set(KINDS) | passed_on) - set(HANDSHAKE)


@pytest.mark.parametrize("side", protocol_6.PROOFS)
def test_the_proofs_of_version_6_are_ours_over_such_a_connection(side: bytes) -> None:
    hello = wire.decode_hello(encode(protocol_6.HELLO))
    newer = msgspec.structs.replace(hello, newest=wire.PROTOCOL, number=3)
    welcome = wire.decode_welcome(encode(protocol_6.WELCOME))
    assert isinstance(welcome, wire.Welcome)
    own = Credentials("test", protocol_6.DIGEST, protocol_6.SECRET)
    for each in (hello, newer):  # an old program calls us, and we call an old node
        assert own.prove(side, each, welcome) == protocol_6.PROOFS[side]


def test_proofs_of_our_own_version_cover_the_versions_and_numbers() -> None:
    hello = wire.decode_hello(encode(protocol_6.HELLO))
    welcome = wire.decode_welcome(encode(protocol_6.WELCOME))
    assert isinstance(welcome, wire.Welcome)
    ours = msgspec.structs.replace(welcome, protocol=wire.PROTOCOL)
    own = Credentials("test", protocol_6.DIGEST, protocol_6.SECRET)
    proof = own.prove(b"node", hello, ours)
    assert proof != own.prove(b"node", msgspec.structs.replace(hello, number=1), ours)
    assert proof != own.prove(b"node", hello, msgspec.structs.replace(ours, number=1))


def test_the_configuration_of_a_file_has_the_digest_that_it_had() -> None:
    names = {"a": 7421, "b": 7422, "c": 7423}
    nodes = {name: {"address": f"127.0.0.1:{port}"} for name, port in names.items()}
    membership = convert({"cluster": "test", "lease": 10.0, "nodes": nodes}).membership
    assert membership.digest == protocol_6.DIGEST
    learnt = msgspec.msgpack.decode(protocol_6.SHARED, type=Membership)
    check_learnt(learnt, protocol_6.DIGEST)
    assert learnt == membership
    there = msgspec.msgpack.decode(encode(membership), type=protocol_6.Membership)
    assert encode(there) == protocol_6.SHARED


# The data directory


def test_a_bound_of_version_6_is_read_and_the_voter_abstains_once(tmp_path: Path) -> None:
    (tmp_path / "bound").write_bytes(protocol_6.BOUND)
    storage = Storage(tmp_path)
    storage.open()
    out: Outbox[leased.Frame] = Outbox(1, now=5.0)
    out.saved, _ = storage.load()
    storage.close()
    voter = Voter(CONFIGURATION)
    voter.start("start", out)
    assert voter.bound == voter.floor == protocol_6.read_bound(protocol_6.BOUND)
    assert voter.abstains_until == 5.0 + CONFIGURATION.settings.expiry


@pytest.mark.parametrize("abstention", [0.0, 22.4])
def test_a_bound_that_we_have_saved_before_there_was_a_number_is_read_there(
    tmp_path: Path, abstention: float
) -> None:
    storage = Storage(tmp_path)
    storage.open()
    storage.save(Saved(910185574791734, abstention=abstention).encode())
    storage.close()
    assert (tmp_path / "bound").read_bytes() == protocol_6.BOUND


@pytest.mark.parametrize(
    "saved", [Saved(17, CONFIGURATION), Saved(17, None, leased.Attempt(1, "me"))]
)
def test_version_6_refuses_what_was_decided_or_promised(tmp_path: Path, saved: Saved) -> None:
    storage = Storage(tmp_path)
    storage.open()
    storage.save(saved.encode())
    storage.close()
    with pytest.raises(ValueError, match="damaged"):
        protocol_6.read_bound((tmp_path / "bound").read_bytes())


def test_neither_version_takes_the_memory_of_the_other_for_its_own() -> None:
    assert protocol_6.read_memory(protocol_6.MEMORY) is not None
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(protocol_6.MEMORY, type=Memory)
    ours = Memory(MEMORY_VERSION, "boot", protocol_6.DIGEST, Voter(CONFIGURATION), {}, 1.0)
    assert protocol_6.read_memory(encode(ours)) is None
