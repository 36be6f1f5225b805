"""The scripts for Redis, beside the server of the explored worlds: the same requests, the same answers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import redis

import coterie
from coterie.engines.redis import scripts
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.valkey import ValkeySupplier, valkey
from tests.engines.conformance.suppliers import leave_out
from tests.engines.lease_world import PAST, Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from coterie.engines.redis.scripts import Script

pytestmark = pytest.mark.real

SEEDS = 60
STEPS = 60
SESSIONS = (11, 12, 13)  # as many digits, so that their order is that of their names
LEASE_MS = 2000
LOCK = "x"
KINDS = (
    "open",
    "renew",
    "join",
    "join",
    "join",
    "leave",
    "remove",
    "condemn",
    "open the past",
    "empty",
    "run",
)


class Scripts:
    """A server, asked by scripts; its answers are put as the model has them."""

    def __init__(self, supplier: ValkeySupplier) -> None:
        self._client = redis.Redis(port=supplier.port)
        self.run = 1

    def ask(self, script: Script, *arguments: Any) -> Any:
        return self._client.eval(script.text, 0, *arguments)

    def say(self, *words: str) -> Any:
        return self._client.execute_command(*words)  # type: ignore[no-untyped-call]

    def open(self, session: int) -> Any:
        run = f"run {self.run}"
        closed, _ = self.ask(scripts.OPEN, session, 1, LEASE_MS, LEASE_MS, run, 0, "who")
        return shown(closed, [])

    def renew(self, session: int) -> Any:
        counter, *rest = self.ask(scripts.RENEW, session, 1)
        if counter < 0:
            return None
        _, closed, _, *neighbour = rest
        return counter, shown(closed, neighbour)

    def join(self, session: int, attempt: int) -> Any:
        words = (LOCK, f"x.{session}.{attempt}", b"author", "", "")
        number, *rest = self.ask(scripts.JOIN, session, 1, *words)
        if number != 0:
            return None if number < 0 else number
        closed, _, *before = rest
        return shown(closed, before)

    def leave(self, session: int, attempt: int) -> Any:
        found = self.ask(scripts.LEAVE, session, 1, LOCK, f"x.{session}.{attempt}")
        return None if found < 0 else found

    def queue(self) -> list[tuple[int, int]]:
        found = [entry for _, line in self.ask(scripts.LINES, LOCK) for entry in line]
        parts = [member.split(b".") for member, *_ in found]
        return [(int(session), int(attempt)) for _, session, attempt in parts]


def shown(closed: bytes, sessions: Sequence[Any]) -> dict[int, int]:
    found = {int(sessions[at]): sessions[at + 1] for at in range(0, len(sessions), 3)}
    return {PAST: int(closed), **found} if closed else found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeySupplier]:
    folder: Path = tmp_path_factory.mktemp("valkey") / "server"
    try:
        with valkey(folder) as made:
            yield made
    except ServerMissing as error:
        leave_out(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_scripts_answer_as_the_model_does(  # noqa: PLR0912 - one for each request
    server: ValkeySupplier, seed: int
) -> None:
    draw, real, model = random.Random(seed), Scripts(server), Records()
    real.say("FLUSHALL")
    last = 0
    for _ in range(STEPS):
        kind, session = draw.choice(KINDS), draw.choice(SESSIONS)
        number = draw.randint(1, 2)
        answer: Any = None
        said: Any = None
        match kind:
            case "open":
                model, answer = model.open(session, 0)
                said = real.open(session)
            case "renew":
                model, answer = model.renew(session, 0)
                said = real.renew(session)
            case "join":
                model, answer = model.join(session, number)
                said = real.join(session, number)
            case "leave":
                model, answer = model.leave(session, number)
                said = real.leave(session, number)
            case "remove":
                counter = model.counter(session) - draw.randint(0, 1)
                model, _ = model.remove(session, counter)
                real.ask(scripts.REMOVE, session, counter)
            case "condemn":
                model = model.condemn()
                real.ask(scripts.CONDEMN, LOCK, "who")
            case "open the past":
                model, _ = model.remove(PAST, session)
                real.ask(scripts.OPEN_PAST, session, LEASE_MS)
            case "empty":
                model = model.emptied()
                real.say("FLUSHALL")
            case "run":
                model = model.started_again()
                real.run += 1
            case _:
                raise AssertionError(kind)
        if kind == "join" and isinstance(answer, int):
            assert said >= last  # an entry keeps its number, and a later one has a higher one
            last = said
        else:
            assert said == as_dicts(answer), kind
        assert real.queue() == [entry[:2] for entry in model.queue]


def as_dicts(answer: Any) -> Any:
    """Return what an answer shows without repeating a session, whose entries may be several."""
    match answer:
        case (int(counter), tuple(sessions)):
            return counter, dict(sessions)
        case tuple():
            return dict(answer)
        case _:
            return answer


def test_what_comes_late_over_an_earlier_line_does_nothing(server: ValkeySupplier) -> None:
    real = Scripts(server)
    real.say("FLUSHALL")
    real.open(11)
    assert real.ask(scripts.RENEW, 11, 2)[0] == 2
    assert real.renew(11) is None
    assert real.join(11, 1) is None
    assert real.queue() == []


def test_a_session_is_buried_by_its_processes(server: ValkeySupplier) -> None:
    real = Scripts(server)
    real.say("FLUSHALL")
    real.open(11)
    real.open(12)
    assert real.ask(scripts.LIVES, 12, 1, 11, 12, "none") == [b"", b"", b""]
    real.ask(scripts.LIVE, 11, 1, "former")
    real.ask(scripts.LIVE, 11, 1, "own")
    assert real.ask(scripts.LIVES, 12, 1, 11) == [b"own"]
    real.join(11, 1)
    assert real.ask(scripts.BURY, 12, 1, 11, "former") == 0
    assert real.ask(scripts.BURY, 12, 1, 12, "") == 0
    real.renew(11)
    assert real.ask(scripts.BURY, 12, 1, 11, "own") == 1
    assert real.ask(scripts.BURY, 12, 1, 11, "own") == 0
    assert real.renew(11) is None
    assert real.ask(scripts.LIVE, 11, 1, "own") == -1
    assert real.join(11, 2) is None
    assert real.queue() == []


def test_a_pause_is_not_opened_before_the_longest_lease_that_is_known(
    server: ValkeySupplier,
) -> None:
    real = Scripts(server)
    real.say("FLUSHALL")
    real.open(11)
    real.ask(scripts.OPEN, 12, 1, LEASE_MS, 5 * LEASE_MS, "run 1", 0, "who")
    assert real.ask(scripts.OPEN_PAST, 11, LEASE_MS) == 0
    assert real.ask(scripts.OPEN_PAST, 11, 5 * LEASE_MS) == 1


def test_numbers_that_were_drawn_in_the_pause_are_drawn_again_at_its_end(
    server: ValkeySupplier,
) -> None:
    """A program that knew a higher one may have come back in between."""
    real, known = Scripts(server), 10**15
    real.say("FLUSHALL")
    real.open(11)
    assert real.join(11, 1) == {PAST: 11}
    real.ask(scripts.OPEN, 12, 1, LEASE_MS, LEASE_MS, "run 1", known, "who")
    real.ask(scripts.OPEN_PAST, 11, LEASE_MS)
    assert known < real.join(11, 1)
    assert real.join(12, 1) == {11: 1}
    assert real.leave(11, 1)
    assert known + 1 < real.join(12, 1)


def test_programs_of_the_former_format_are_excluded(server: ValkeySupplier) -> None:
    """Their sessions end, their numbers are a floor, and no request of theirs that counts is carried out."""
    real = Scripts(server)
    real.say("FLUSHALL")
    number = 10**15
    real.say("HSET", "{coterie}:run", "id", "run 1", "longest", str(3 * LEASE_MS), "opens", "0")
    real.say("SET", "{coterie}:n", str(number))
    real.say("SADD", "{coterie}:locks", LOCK)
    real.say("ZADD", "{coterie}:q:" + LOCK, "5", "x.old.1")
    real.say("SET", "{coterie}:s:old", "1", "PX", "60000")
    assert real.open(11) == {PAST: 11}
    assert real.ask(scripts.OPEN_PAST, 11, LEASE_MS) == 0, (
        "leases of the former format are waited for"
    )
    assert real.ask(scripts.OPEN_PAST, 11, 3 * LEASE_MS) == 1
    assert real.join(11, 1) > number
    assert real.say("EXISTS", "{coterie}:s:old") == 0
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        real.say("HGET", "{coterie}:run", "opens")


def test_a_lease_that_is_too_short_is_refused() -> None:
    with pytest.raises(coterie.UsageError, match=r"lease must be at least 0\.5 s, got 0\.1 s"):
        coterie.connect("redis://127.0.0.1?lease=0.1")


def test_a_join_leaves_the_entry_of_another_lock(server: ValkeySupplier) -> None:
    real = Scripts(server)
    real.say("FLUSHALL")
    real.open(11)
    real.ask(scripts.OPEN_PAST, 11, LEASE_MS)
    assert real.join(11, 1) > 0
    words = ("other", "x.11.2", b"author", LOCK, "x.11.1")
    number, *_ = real.ask(scripts.JOIN, 11, 1, *words)
    assert number > 0
    assert real.queue() == []
