"""The leased lock while its voters change, with time and the changer taken out of it.

Voters and participants are the product's, without time as in `leased_abstraction`. One configuration
follows another. That it was decided stands at the beginning (the decision is explored by itself, in
`test_leased_decision.py`); then each voter adopts it, and each client hears of it, at any moment, and a
voter that has adopted it may be asked to close the numbers before, again and again. So changers may be
any number, stop anywhere and send in any order. What a voter has reported as finished is remembered.

Of a longer chain of numbers each step is explored by itself. That is enough for two reasons. A step
leaves out of `open` only numbers that are finished, and `properties`
says what that means: no participant holds the lock by them, then or ever again. And every number that is left open is one that some participant here counts by.

The courtesy of a voter that sends its configuration along is left out: a client hears of it anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import Close, Closed, NewConfiguration
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.explore import Always, Property, Sometimes, Together, at_least, at_most
from coterie.process import Outbox, ProcessId, Seat
from tests.algorithms.mutex.leased_abstraction import Message, Timeless, largest_is_in_force, valid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.explore import Verdict
    from coterie.lab.explore.properties import Condition

HEAR = "hear"
CLOSE = "close"

TIMES: dict[str, Any] = {
    "policy": "quorum",
    "lease": 1000.0,
    "heartbeat": 250.0,
    "hedge": 16.0,
    "unwind": 1000.0,
}


class Changing(Timeless):
    """A voter, or a client, before a change of the voters."""

    following: Configuration | None = None  # None: it does not hear of it by itself
    reported: dict[str, int] = field(default_factory=dict)  # finished numbers, and the bound then

    def start(self, out: Outbox[Any]) -> None:
        super().start(out)
        if self.following is not None:
            out.set_timer(HEAR, 0)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Any]) -> None:
        super().receive(sender, message, out)
        self._drop_courtesies(out)

    def _drop_courtesies(self, out: Outbox[Any]) -> None:
        if self.voter is not None:
            kept = [pair for pair in out.sends if not isinstance(pair[1], NewConfiguration)]
            out.sends[:] = kept

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        if timer == HEAR:
            assert self.following is not None
            out.now = self.time
            super().receive(self.me, NewConfiguration(self.following), out)
            if self.voter is not None:
                out.set_timer(CLOSE, 0)
        elif timer == CLOSE:
            self._close(out)
        else:
            super().ring(timer, out)

    def _close(self, out: Outbox[Any]) -> None:
        """Answer a changer that asks to close the numbers before; it asks until it is content."""
        assert self.voter is not None
        assert self.following is not None
        numbers = [rule.number for rule in self.following.open]
        for number in numbers:
            answers: Outbox[Any] = Outbox(0, self.time)
            self.voter.receive(self.me, Close(number), answers)
            for _, answer in answers.sends:
                if isinstance(answer, Closed) and answer.finished:
                    self.reported.setdefault(str(number), answer.bound)
        if len(self.reported) < len(numbers):
            out.set_timer(CLOSE, 0)


def part(*seats: ProcessId, **settings: Any) -> Part:
    """Make a majority of these voters."""
    return Part(seats, Settings(len(seats), **{**TIMES, **settings}))


def beginning(number: int, *parts: Part) -> Configuration:
    """Make a configuration before which nothing is open."""
    return Configuration(Rule(number, parts))


def after(present: Configuration, *parts: Part) -> Configuration:
    """Make the next one."""
    rule = Rule(present.number + 1, parts)
    return Configuration(rule, open=(*present.open, present.rule))


def change(
    present: Configuration,
    following: Configuration,
    *,
    clients: Sequence[Configuration | None] = (None, None),
    lapses: Sequence[int] = (),
    reboots: Sequence[ProcessId] = (),
    watchful: bool = False,
) -> list[Changing]:
    """Build the voters, the newcomers and the clients; these count by `present`, or what is given.

    `lapses` are clients, counted from 0, whose clocks run past their leases once.
    """
    seats = sorted({*present.all_seats(), *following.seats})
    voters = max(seats)
    assert seats == list(range(1, voters + 1))
    return [
        Changing(
            me,
            participant(present, me),
            Voter(present if me in present.all_seats() else None),
            reboots=int(me in reboots),
            participants=len(clients),
            voters=voters,
            origin=present if me in present.all_seats() else None,
            watchful=watchful,
            following=following,
        )
        for me in seats
    ] + [
        Changing(
            voters + 1 + place,
            participant(counts_by or present, present.seats[place % len(present.seats)]),
            None,
            lapses=int(place in lapses),
            participants=len(clients),
            voters=voters,
            watchful=watchful,
            following=following,
        )
        for place, counts_by in enumerate(clients)
    ]


def carried(seat: Seat) -> bool:
    """Return whether the process holds the lock by the configuration that followed."""
    process = seat.process
    assert isinstance(process, Changing)
    return valid(seat) and process.participant.configuration == process.following


def counts_by_old(seat: Seat) -> bool:
    """Return whether the process holds the lock by one of the earlier numbers."""
    return valid(seat) and not carried(seat)


def has_moved(seat: Seat) -> bool:
    """Return whether the process counts by the new configuration."""
    process = seat.process
    assert isinstance(process, Changing)
    return process.participant.configuration == process.following


def finished(rule: Rule) -> list[tuple[Condition, ...]]:
    """Return conditions of which one holds once every quorum of the rule has a voter that has reported.

    Parts are majorities, so it depends on how many of each have reported.
    """

    def has_reported(part: Part) -> Callable[[Seat], bool]:
        def has(seat: Seat) -> bool:
            process = seat.process
            assert isinstance(process, Changing)
            return process.me in part.seats and str(rule.number) in process.reported

        return has

    return [
        (at_least(len(part.seats) - len(part.seats) // 2, has_reported(part)),)
        for part in rule.parts
    ]


def uses(rule: Rule) -> Callable[[Seat], bool]:
    """Return a predicate: the process holds the lock, and counts by this rule."""

    def does(seat: Seat) -> bool:
        process = seat.process
        assert isinstance(process, Changing)
        return valid(seat) and process.participant.configuration.rule == rule

    return does


NEVER = "never: "  # begins the name of what must not happen


def properties(following: Configuration) -> tuple[Property, ...]:
    """Return what is judged: exclusion, and what finished means; and that the interesting happens."""
    over: list[Property] = []
    for rule in following.open:
        for conditions in finished(rule):
            end = f"number {rule.number} by {len(over)}"
            over.append(Sometimes(f"{end} ends", conditions))
            used = (*conditions, at_least(1, uses(rule)))
            over.append(Sometimes(f"{NEVER}{end} is used after its end", used))
    return (
        Always("mutual exclusion", (at_most(1, valid),), "two hold the lock"),
        Sometimes("a hold by the new number", (at_least(1, carried),)),
        Sometimes(
            "a hold by the old one after a move",
            (at_least(1, counts_by_old), at_least(1, has_moved)),
        ),
        *over,
    )


def is_fine(verdict: Verdict) -> bool:
    """Return whether the search is complete, all happens that should and nothing else."""
    return verdict.verdict == "verified" and all(
        seen is not name.startswith(NEVER) for name, seen in verdict.sometimes.items()
    )


FENCING = Always(
    "fencing", (Together(largest_is_in_force),), "a token is used twice or out of order"
)
