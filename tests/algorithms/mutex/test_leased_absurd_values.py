"""Frames of legal types with absurd values: no other participant suffers, and tokens stay sane.

A faulty program sends them to the voters, and a faulty node to the programs. Each frame is encoded
and decoded, as on its way: what the decoder refuses ends a connection and reaches no value.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Beat,
    Data,
    Downward,
    Grant,
    Raise,
    Release,
    Reply,
    Request,
    Session,
    SessionName,
    UpBody,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.participant import Acquired, Participant, participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import FAR, LEAP_PAUSE, NEAR, VOTER, Voter
from coterie.errors import ProtocolError
from coterie.process import Outbox

SETTINGS = Settings(3, lease=10.0)
HONEST, LIAR, LATER = 11, 12, 13  # where frames of participants come from
LOCK = "lock"
decode_upward = msgspec.msgpack.Decoder(Session).decode
decode_downward = msgspec.msgpack.Decoder(Downward).decode

integers = st.one_of(
    st.sampled_from(
        [0, 1, 2, 3, -1, -(1 << 63), (1 << 40) + 7, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    ),
    st.integers(-(1 << 63), (1 << 64) - 1),
)
times = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e308, math.inf, -math.inf, math.nan])
texts = st.sampled_from(["", LOCK, "other", "x" * 300, "y" * 100_000, "\0"])


class Voters:
    """Three voters and some participants; every frame arrives at once and in order."""

    def __init__(self) -> None:
        self.now = 100.0
        self.voters = [Voter(founding(SETTINGS)) for _ in range(3)]
        self.participants: dict[int, Participant] = {}
        self.names: dict[int, str] = {}
        self.tokens: list[int] = []
        for number, voter in enumerate(self.voters, 1):
            self.step(number, voter.start, f"v{number}")

    def add(self, where: int, name: str) -> Participant:
        self.names[where] = name
        part = self.participants[where] = participant(founding(SETTINGS), 1)
        self.step(where, part.start, name)
        return part

    def step(self, where: int, handler: Any, *arguments: Any) -> None:
        out: Outbox[Any] = Outbox(where, self.now)
        handler(*arguments, out)
        self.tokens += [event.token for event in out.events if isinstance(event, Acquired)]
        for to, frame in out.sends:
            self.deliver(where, to, msgspec.msgpack.encode(frame))

    def deliver(self, where: int, to: int, frame: bytes) -> None:
        """Deliver what a connection carries; a refusal ends the connection and nothing else."""
        try:
            if to <= 3:
                upward = decode_upward(frame)
                if upward.session.participant == self.names.get(where):  # as hosts of voters check
                    self.step(to, self.voters[to - 1].receive, where, upward)
            elif to in self.participants:
                self.step(to, self.participants[to].receive, where, decode_downward(frame))
        except (ProtocolError, msgspec.MsgspecError):
            if LIAR not in (where, to) and where > 3:
                raise

    def pass_time(self, seconds: float) -> None:
        """Let all sessions that are not kept alive expire."""
        self.now += seconds
        for number, voter in enumerate(self.voters, 1):
            self.step(number, voter.ring, VOTER)

    def entry(self, where: int, name: str) -> int:
        """Acquire and release once as a new participant, and return the token."""
        before = len(self.tokens)
        part = self.add(where, name)
        self.step(where, part.acquire, LOCK)
        assert len(self.tokens) == before + 1, f"{name} cannot acquire"
        self.step(where, part.release, LOCK)
        self.step(where, part.close)
        return self.tokens[-1]


@st.composite
def frames(draw: Any, kinds: Any, name: str) -> Any:
    """Draw a frame of one of the kinds, its session being the liar's own, with bodies of any kind."""
    kind = draw(st.sampled_from(get_args(kinds)))
    nonce = draw(st.sampled_from([None, "v1/2", "v2/2", "v3/2", ""]))
    session = SessionName(name, draw(st.sampled_from([1, 2])), nonce)
    return kind(*(field_of(draw, kind, field, session) for field in kind.__struct_fields__))


def field_of(draw: Any, kind: Any, field: str, session: SessionName) -> Any:
    if field == "session":
        return draw(
            st.sampled_from([session, msgspec.structs.replace(session, number=draw(integers))])
        )
    if field == "seq":
        return draw(st.one_of(st.sampled_from([1, 2, 3]), integers))
    if field == "bodies":
        hints = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
        union = next(f for f in hints if f.name == "bodies").type.item_type
        classes = [part.cls for part in union.types]
        return tuple(
            body(*(body_field(draw, name) for name in body.__struct_fields__))
            for body in draw(st.lists(st.sampled_from(classes), max_size=3))
        )
    if field in ("time", "echo", "lease"):
        return draw(times)
    if field in ("grace", "alive"):
        return draw(st.booleans())
    return draw(integers)


def body_field(draw: Any, name: str) -> Any:
    if name == "lock":
        return draw(st.one_of(st.just(LOCK), texts))
    if name == "number":
        return draw(st.one_of(st.just(1), integers))
    if name in ("more", "shared"):
        return draw(st.booleans())
    return draw(integers)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(1, 3), frames(Session, "liar")), max_size=8))
def test_whatever_a_program_sends_the_others_still_acquire(sent: list[tuple[int, Any]]) -> None:
    world = Voters()
    first = world.entry(HONEST, "honest")
    world.add(LIAR, "liar")
    for voter, frame in sent:
        world.deliver(LIAR, voter, msgspec.msgpack.encode(frame))
    world.pass_time(SETTINGS.expiry)
    last = world.entry(LATER, "later")
    assert first < last <= first + (len(sent) + 1) * (FAR + 4 * SETTINGS.interval)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(frames(Downward, "honest"), max_size=8), st.booleans())
def test_whatever_one_node_sends_a_program_still_acquires(sent: list[Any], early: bool) -> None:
    """The other two nodes are a quorum, and the first is not believed."""
    world = Voters()
    part = world.add(HONEST, "honest")
    if early:
        world.step(HONEST, part.acquire, LOCK)
        world.step(HONEST, part.release, LOCK)
    for frame in sent:
        world.deliver(1, HONEST, msgspec.msgpack.encode(frame))
    world.step(HONEST, part.acquire, LOCK)
    assert world.tokens, "it cannot acquire"
    assert world.tokens[-1] <= (len(sent) + 2) * (FAR + 4 * SETTINGS.interval)
    assert part.remaining(LOCK, world.now) <= SETTINGS.lease


def destroyed_by(kind: type[Release | Yield]) -> int:
    """Return by how much one frame of a faulty program raises the tokens of all others."""
    world = Voters()
    first = world.entry(HONEST, "honest")
    world.add(LIAR, "liar")
    session = SessionName("liar", 1)
    bodies = (Request(LOCK, 1, 1, 1), kind(LOCK, 1, (1 << 63) - 1))
    for voter in (1, 2, 3):
        for seq, body in enumerate(bodies, 1):
            frame = Data(session, seq, 0, 1, world.now, (body,))
            world.deliver(LIAR, voter, msgspec.msgpack.encode(frame))
    world.pass_time(SETTINGS.expiry)
    return world.entry(LATER, "later") - first


def test_a_release_that_says_all_tokens_are_used_does_not_end_the_cluster() -> None:
    assert destroyed_by(Release) <= 3 * SETTINGS.interval


def test_a_yield_that_says_all_tokens_are_used_does_not_end_the_cluster() -> None:
    assert destroyed_by(Yield) <= 3 * SETTINGS.interval


def test_many_absurd_numbers_in_one_frame_cost_no_more_than_one() -> None:
    world = Voters()
    world.add(LIAR, "liar")
    bodies = (Request(LOCK, 1, 1, 1),)
    raises = tuple(Raise(LOCK, 1, (1 << 63) - 1) for _ in range(1000))
    session = SessionName("liar", 1)
    contents: tuple[tuple[UpBody, ...], ...] = (bodies, raises, raises)
    for seq, content in enumerate(contents, 1):
        frame = Data(session, seq, 0, 1, world.now, content)
        world.deliver(LIAR, 1, msgspec.msgpack.encode(frame))
    assert world.voters[0].clock <= FAR + NEAR + 2 * SETTINGS.interval


def test_a_clock_that_is_behind_catches_up_in_leaps_and_not_at_once() -> None:
    """A node that was away for years comes to vote with the others; a flood of frames is slow."""
    voter = Voter(founding(SETTINGS))
    session = SessionName("p", 1)
    shown = []
    for now in (0.0, 0.1, 0.2, LEAP_PAUSE, LEAP_PAUSE + 0.1):
        voter.receive(HONEST, Beat(session, 0, 1 << 60, now), Outbox(1, now))
        shown.append(voter.clock)
    assert shown == [FAR, FAR + NEAR, FAR + 2 * NEAR, 2 * (FAR + NEAR), 2 * FAR + 3 * NEAR]


def test_an_answer_to_what_was_not_sent_yet_renews_no_lease() -> None:
    world = Voters()
    part = world.add(HONEST, "honest")
    world.step(HONEST, part.acquire, LOCK)
    session = SessionName("honest", 1, "v1/1")
    for voter in (1, 2):
        frame = Ack(msgspec.structs.replace(session, nonce=f"v{voter}/1"), 1, 1, 1e9, grace=False)
        world.deliver(voter, HONEST, msgspec.msgpack.encode(frame))
    assert part.remaining(LOCK, world.now) <= SETTINGS.lease


def test_an_acknowledgement_of_what_was_never_sent_is_ignored() -> None:
    part = participant(founding(Settings(1)), 1)
    out: Outbox[Any] = Outbox(HONEST, 1.0)
    part.start("p", out)
    part.acquire(LOCK, out)
    session = SessionName("p", 1, "v/1")
    part.receive(1, Ack(session, 2, 1, 1.0, grace=False), out)
    assert part.sessions.uplinks[0].unacked, "it will be sent again"
    grant = Grant(LOCK, 1, 1, 9, more=False)
    part.receive(1, Reply(session, 1, 1, 1, 1.0, False, (grant,)), out)
    assert Acquired(LOCK, 1) in out.events
