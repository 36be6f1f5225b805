"""The decision on the next configuration of the leased lock: every order of messages, and its bugs.

Three voters and two changers with different goals, all the product's, without a clock. A message that is
never delivered is one that was lost. Voters adopt nothing here, so that the decision stays under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.changer import CHANGER, Changer, Goal, Heard
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Condition,
    Frame,
    NewConfiguration,
    Promise,
    Query,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.succession import Succession
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.explore import Property, Sometimes, at_least, check
from coterie.process import Channel, Mutex, Outbox, ProcessId, Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.algorithms.mutex.quorum.leased.frames import Accept, Accepted, Prepare, Refused
    from coterie.lab.explore import Verdict

VOTERS = (1, 2, 3)
REBOOT = "reboot"
LONG = 1e6  # longer than any pause after another changer came first


def part(lease: float) -> Part:
    return Part(VOTERS, Settings(3, lease=lease))


BASE = Configuration(Rule(1, (part(10.0),)))


class Decider(Mutex[Frame]):
    """A voter without participants, or a changer."""

    messages: ClassVar[Any] = Frame
    channel: ClassVar[Channel] = Channel.UNORDERED

    voter: Voter | None = None
    changer: Changer | None = None
    tries: int = 0  # how often the timer of the changer may still ring
    reboots: int = 0
    time: float = 0.0
    disk: bytes = b""

    def start(self, out: Outbox[Frame]) -> None:
        if self.changer is not None:
            self._hear()
            self._run(out, self.changer.ring, CHANGER)
            out.set_timer(CHANGER, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)

    def acquire(self, out: Outbox[Frame]) -> None:
        raise AssertionError("the decision is modelled, and no lock is asked for")

    def release(self, out: Outbox[Frame]) -> None:
        raise AssertionError("the decision is modelled, and no lock is given back")

    def receive(self, sender: ProcessId, message: Frame, out: Outbox[Frame]) -> None:
        part: Any = self.voter or self.changer
        self._run(out, part.receive, sender, message)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        if timer == REBOOT:
            self.voter = Voter(BASE)
            out.saved = self.disk
            self._run(out, self.voter.start, "again")
        elif self.tries:
            assert self.changer is not None
            self.tries -= 1
            self.time += LONG
            self._hear()
            self._run(out, self.changer.ring, CHANGER)

    def _run(self, out: Outbox[Frame], handler: Any, *arguments: Any) -> None:
        """Take a step at the time of this process; what is about other things than this is cut."""
        made: Outbox[Frame] = Outbox(self.me, self.time)
        made.saved = out.saved
        handler(*arguments, made)
        for receiver, message in made.sends:
            if not isinstance(message, Query | NewConfiguration):
                out.send(receiver, message)
        if made.to_save is not None:
            self.disk = made.to_save if self.reboots else b""
        if self.changer is not None:
            # In which order answers came makes no difference.
            self.changer.vows.sort(key=lambda vow: vow.voter)
            self.changer.accepted.sort()
            if self.tries:
                out.set_timer(CHANGER, 0)

    def _hear(self) -> None:
        """Let the changer believe that all voters have the base, as they had at the beginning."""
        assert self.changer is not None
        condition = Condition(BASE, 0, False)
        self.changer.heard = [Heard(voter, self.time, condition) for voter in VOTERS]


def deciders(tries: tuple[int, ...] = (0, 0), reboots: tuple[ProcessId, ...] = ()) -> list[Decider]:
    voters = [
        Decider(me, voter=Voter(BASE, name=f"v{me}"), reboots=int(me in reboots)) for me in VOTERS
    ]
    changers = [
        Decider(
            4 + place,
            changer=Changer(f"c{place}", BASE, Goal(1, part(20.0 + place))),
            tries=count,
        )
        for place, count in enumerate(tries)
    ]
    return [*voters, *changers]


def _configuration(seat: Seat) -> Configuration:
    process = seat.process
    assert isinstance(process, Decider)
    part = process.voter or process.changer
    assert part is not None
    assert part.configuration is not None
    return part.configuration


def first_wins(seat: Seat) -> bool:
    return _configuration(seat).settings.lease == 20.0


def second_wins(seat: Seat) -> bool:
    return _configuration(seat).settings.lease == 21.0


def helps(seat: Seat) -> bool:
    """Return whether a changer has found out what the other one wanted and has brought it about."""
    assert isinstance(seat.process, Decider)
    changer = seat.process.changer
    decided = _configuration(seat)
    return changer is not None and decided != BASE and decided.rule.parts != (changer.goal.part,)


TWO_VALUES = "two successors of one number"
PROPERTIES: tuple[Property, ...] = (
    Sometimes("the first wins", (at_least(1, first_wins),)),
    Sometimes("the second wins", (at_least(1, second_wins),)),
    Sometimes("one helps the other", (at_least(1, helps),)),
    Sometimes(TWO_VALUES, (at_least(1, first_wins), at_least(1, second_wins))),
)


def explored(**options: Any) -> Verdict:
    return check(
        deciders(**options),
        requesters=(),
        properties=PROPERTIES,
        max_states=20_000_000,
        max_seconds=60,
    )


@pytest.mark.slow
def test_every_order_of_messages_decides_one_successor() -> None:
    """Two changers, an attempt each."""
    verdict = explored()
    assert verdict.verdict == "verified", verdict.reason
    assert not verdict.sometimes.pop(TWO_VALUES)
    assert all(verdict.sometimes.values())
    assert (verdict.states, verdict.transitions) == (1815620, 11654804)


def test_one_changer_decides_its_goal() -> None:
    verdict = explored(tries=(0,))
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes["the first wins"]
    assert (verdict.states, verdict.transitions) == (598, 1949)


def forget_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Succession.prepare

    def forgetful(self: Succession, request: Prepare, present: Configuration) -> Any:
        answer = prepare(self, request, present)
        if isinstance(answer, Promise):
            return msgspec.structs.replace(answer, accepted=None)
        return answer

    monkeypatch.setattr(Succession, "prepare", forgetful)


def ignore_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Succession.accept

    def careless(
        self: Succession, request: Accept, present: Configuration, protocol: int
    ) -> Accepted | Refused:
        self.promised = None
        return accept(self, request, present, protocol)

    monkeypatch.setattr(Succession, "accept", careless)


@pytest.mark.slow
@pytest.mark.parametrize("break_it", [forget_accepted, ignore_promises])
def test_a_rule_that_is_broken_is_noticed(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert explored().sometimes[TWO_VALUES]
