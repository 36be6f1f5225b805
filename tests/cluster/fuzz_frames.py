"""Random frames after the handshake: every kind, from every role, to a node and to a program.

    python -m tests.cluster.fuzz_frames [FIRST [SEEDS]]

Values are of legal types, and anything else but that. What is refused has to be refused as a fault of the
sender; a seed that ends otherwise is printed with its traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from coterie.algorithms.mutex.quorum.leased.bid import State
from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration, SessionName, Stale
from coterie.cluster.client.participant import ParticipantHost, Upcalls
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.proof import Prover
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.connection import FAULTS
from coterie.cluster.wire.frames import PROTOCOL, Hello
from coterie.cluster.wire.handshake import new_identity
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import (
    FromVoter,
    ToVoter,
    decode_from_voter,
    decode_to_voter,
)
from coterie.locks.leases.frames import OwnerReport
from tests.cluster.absurd import Drawer, absurd
from tests.cluster.local_cluster import document
from tests.cluster.test_who_may_say_what import frames_to_a_program, frames_to_a_voter, next_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.cluster.membership.membership import Membership

ROLES = ("participant", "admin", "operator")
LENGTH_MAX = 100_000  # of a frame, in bytes
ABSURD_MAX = 400  # of each kind
PER_KIND = 3  # frames of each kind, from each role, in each seed
type_of = functools.cache(msgspec.inspect.type_info)  # takes a millisecond
SECRETS = Security("s" * 16, operator_secret="o" * 16)


class Sink:
    """Takes what a node or a program sends: all of it can travel."""

    is_up = True
    is_untried = False
    trouble = ""
    sent = 0

    def send(self, frame: msgspec.Struct) -> None:
        msgspec.msgpack.encode(frame)
        self.sent += 1

    def start(self) -> None:
        """Do nothing: it stands."""

    def insist_on(self, disk: str) -> None:
        """Do nothing: every disk is the right one."""

    async def stop(self) -> None:
        """Do nothing."""


class Links:
    """Makes links that lead nowhere."""

    def note(self, membership: Membership) -> None:
        """Do nothing: no voter is looked for."""

    def link(self, *_: Any) -> Sink:
        return Sink()


def encoded(values: Iterable[Any]) -> list[bytes]:
    """Encode what can be sent, and is not so long that little else would be."""
    found = []
    for value in values:
        with contextlib.suppress(UnicodeEncodeError, OverflowError):
            found.append(msgspec.msgpack.encode(value))
    return [each for each in found if len(each) < LENGTH_MAX]


class Frames:
    """Draws frames: of random values, or sensible ones of which one value is absurd."""

    def __init__(
        self, seed: int, sensible: dict[type, Any], decode: Callable[[bytes], Any]
    ) -> None:
        self._drawer = Drawer(seed)
        self.dice = self._drawer.dice
        self._sensible = {
            kind: encoded((frame, *itertools.islice(absurd(frame), ABSURD_MAX)))
            for kind, frame in sensible.items()
        }
        self._decode = decode

    def draw(self, kind: type) -> Any:
        """Return a frame as its receiver decodes it; None if that is refused."""
        try:
            if self.dice.random() < 0.3:
                return self._decode(msgspec.msgpack.encode(self._drawer.draw(type_of(kind))))
            return self._decode(self.dice.choice(self._sensible[kind]))
        except (*FAULTS, OverflowError):
            return None


def addressed(frame: Any, identity: str, nonce: str | None) -> Any:
    """Return a frame as its sender could have sent it, so that it is not refused for its name alone."""
    if isinstance(frame, OwnerReport):
        return msgspec.structs.replace(frame, identity=identity)
    if hasattr(frame, "session"):
        return msgspec.structs.replace(frame, session=SessionName(identity, 1, nonce))
    return frame


def fuzz_node(seed: int, folder: Path) -> int:
    """Send a node frames of every kind from every role; return how many it has handled."""
    config, handled = convert(document(1)), 0
    frames = Frames(seed, frames_to_a_voter(config, "participant's identity"), decode_to_voter)
    membership = config.membership
    storage = Storage(folder / str(seed)) if frames.dice.random() < 0.2 else None
    if storage is not None:
        storage.open()

    def fail(error: OSError) -> None:
        raise error

    voting = VoterHost(
        membership,
        "a",
        storage,
        fail,
        reach=lambda *_: None,
        prover=Prover(membership.cluster, SECRETS),
        new_cluster=True,
    )
    voting.start()
    identities = {role: f"{role}'s identity" for role in ROLES}
    for number, role in enumerate(ROLES, 1):
        name = identities[role] if role == "participant" else ""
        hello = Hello(PROTOCOL, "", "", role, name, role, b"")  # type: ignore[arg-type]
        voting.enter(number, hello, Sink())
    kinds = list(get_args(ToVoter)) * PER_KIND
    frames.dice.shuffle(kinds)
    for kind in kinds:
        for number, role in enumerate(ROLES, 1):
            frame = frames.draw(kind)
            if frame is None:
                continue
            identity = identities[role] if role == "participant" else ""
            sessions = voting.voter.sessions
            nonce = sessions[identity].session.nonce if identity in sessions else None
            try:
                voting.receive(number, identity, addressed(frame, identity, nonce))
            except FAULTS:
                continue
            handled += 1
    decided = voting.voter.configuration
    assert decided is None or Prover(membership.cluster, SECRETS).is_proven(decided)
    voting.stop()
    if storage is not None:
        storage.close()
    return handled


def fuzz_program(seed: int) -> int:
    """Send a program frames of every kind from each voter; return how many it has handled."""
    membership, handled = convert(document(3)).membership, 0
    identity = new_identity("program:1")
    upcalls = Upcalls(
        lambda _: None,
        lambda asked: OwnerReport(asked.route, asked.question, identity.name, ()),
        lambda *_: None,
        list,
        lambda _: False,
    )
    host = ParticipantHost(membership, identity, 1, Links(), upcalls)
    host.acquire("x", shared=False)
    news = next_of(host)
    sensible = frames_to_a_program(host)
    sensible |= {kind: kind(news) for kind in (NewConfiguration, Stale)}
    frames = Frames(seed, sensible, decode_from_voter)
    kinds = list(get_args(FromVoter)) * PER_KIND
    frames.dice.shuffle(kinds)
    for kind in kinds:
        for voter in (1, 2, 3):
            frame = frames.draw(kind)
            if frame is None:
                continue
            try:
                host.receive(voter, addressed(frame, identity.name, f"voter {voter}"))
            except FAULTS:
                continue
            handled += 1
    bid = host.participant.bids.get("x")
    if bid is not None:
        (host.withdraw if bid.state is State.WAIT else host.release)("x")
    host.stop()
    return handled


async def fuzz(seed: int, folder: Path) -> tuple[int, int]:
    """Run one seed in an event loop, whose handler of errors must not be called."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    counts = fuzz_node(seed, folder), fuzz_program(seed)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not errors, errors
    return counts


def main() -> None:
    """Run seeds until one fails."""
    first, seeds = [*map(int, sys.argv[1:]), *(0, 1000)[len(sys.argv) - 1 :]]
    logging.disable()
    totals = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + seeds):
            try:
                counts = asyncio.run(fuzz(seed, Path(folder)))
            except BaseException:
                print(f"seed {seed}")  # noqa: T201 - a command
                raise
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
    print(f"{seeds} seeds: {totals[0]} frames handled by nodes, {totals[1]} by programs")  # noqa: T201 - as above


if __name__ == "__main__":
    main()
