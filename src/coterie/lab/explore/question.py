"""A check whose arguments are in order, and its answer by a search through arrays of states."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from coterie.lab.explore.canonical import Canonical
from coterie.lab.explore.counterexample import counterexample
from coterie.lab.explore.findings import DEADLOCK, NO_ERROR
from coterie.lab.explore.growth import find_growth
from coterie.lab.explore.search import Search
from coterie.lab.explore.tables.moves import Moves
from coterie.lab.explore.verdict import Verdict, all_hold
from coterie.process import ElectionUser, InputUser, MutexUser, Seat, SeatCodec, describe_error
from coterie.trace import Header, Trace, Violated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.budget import Watch
    from coterie.lab.explore.device import Gpu
    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.tables.arrays import Rows
    from coterie.lab.explore.tables.faults import Faults
    from coterie.process import Channel


@dataclass(frozen=True)
class Question:
    """What a check consists of once its arguments are in order."""

    seats: Sequence[Seat]
    channel: Channel
    faults: Faults
    properties: Sequence[Property]
    exact: bool
    canonical: bool
    header: Header
    device: Gpu | None

    def answer(self, watch: Watch) -> Verdict:
        """Search all states, and word what came of it."""
        moves = Moves(self._fresh_seats(), self.channel, self.faults)
        try:
            initial = moves.start()
        except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
            return self._failed_start(
                watch, f"a process raised {describe_error(error, self.seats[0].process)}"
            )
        search = self._search(moves, initial, watch)
        verdict = self._verdict(search, moves, watch)
        if search.inspector.finding:
            verdict.counterexample, verdict.depth = counterexample(
                search, moves, initial, self._fresh_seats(), self.header
            )
        return verdict

    def _search(self, moves: Moves, initial: Rows, watch: Watch) -> Search:
        prepare = functools.partial(
            Search,
            moves,
            self.properties,
            watch,
            exact=self.exact,
            canonical=Canonical(moves) if self.canonical else None,
            device=self.device,
            endless=any(_calls_without_end(seat) for seat in self.seats),
        )
        search = prepare()
        search.run(initial)
        if search.needs_edges:
            from coterie.lab.explore.liveness.transitions import (  # noqa: PLC0415 - few need it
                Transitions,
            )

            search = prepare(transitions=Transitions(moves, self.channel))
            search.run(initial)
        return search

    def _fresh_seats(self) -> list[Seat]:
        codecs = [SeatCodec(seat) for seat in self.seats]
        return [
            codec.restore(codec.save(seat)) for codec, seat in zip(codecs, self.seats, strict=True)
        ]

    def _verdict(self, search: Search, moves: Moves, watch: Watch) -> Verdict:
        inspector, states = search.inspector, search.index.size
        finding, vacuous = inspector.finding, _vacuous(search)
        if finding:
            reason = f"deadlock: {finding.reason}" if finding.name == DEADLOCK else finding.reason
        elif search.stopped:
            what = "budget" if not search.full else "memory"
            if search.full and self.device is not None:
                what = f"memory of the GPU ({self.device})"
            reason = f"the {what} ran out after {states:,} states; no violation was found so far"
            growth = find_growth(moves.seats)
            if growth is not None:
                reason = f"{reason}; {growth}"
        elif vacuous:
            reason = f"nothing was shown: {vacuous}"
        else:
            reason = all_hold(states)
        word = _word(search)
        return Verdict(
            verdict=word,
            property=finding.name if finding else None,
            reason=reason,
            states=states,
            transitions=search.transitions,
            depth=search.depth,
            seconds=watch.seconds,
            collision_probability=0.0 if self.exact else min(1.0, states**2 / 2**65),
            sometimes=inspector.sometimes,
            liveness=inspector.liveness if word == "verified" else "",
            overtaking=inspector.overtaking,
        )

    def _failed_start(self, watch: Watch, reason: str) -> Verdict:
        return Verdict(
            verdict="violated",
            property=NO_ERROR,
            reason=reason,
            states=0,
            transitions=0,
            depth=0,
            seconds=watch.seconds,
            collision_probability=0.0,
            counterexample=Trace(self.header, [Violated(0.0, NO_ERROR, reason)]),
        )


def _calls_without_end(seat: Seat) -> bool:
    user = seat.user
    return isinstance(user, MutexUser | ElectionUser | InputUser) and user.entries is None


def _word(search: Search) -> Literal["verified", "violated", "unfinished", "vacuous"]:
    if search.inspector.finding:
        return "violated"
    if search.stopped:
        return "unfinished"
    return "vacuous" if _vacuous(search) else "verified"


def _vacuous(search: Search) -> str | None:
    """Say why a search through all states shows nothing, if it does not."""
    if not search.transitions:
        return "nothing ever happens"
    states = "state" if search.index.size == 1 else f"of {search.index.size:,} reachable states"
    vacuous = search.inspector.vacuous
    return vacuous and f"{vacuous}, in any {states}"
