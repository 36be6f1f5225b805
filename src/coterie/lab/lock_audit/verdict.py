"""What an audit has found of a lock, from the record of its programs.

Three things are judged, since each lock promises them by its name: that at most one program has it, that a fence only
grows where there is one, and that a program which waits gets in. Everything else is measured.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.lab.lock_audit.notes import BY_ITSELF, BY_QUESTION, BY_RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.lab.lock_audit.notes import Turn
    from coterie.lab.lock_audit.trial import Happened, Kill

LEASE_SHARE = 0.9  # of a lease, counted from the return of the call, after which it may be over
LATER_SECONDS = (
    0.1  # by which one has asked later than another, if neither queue nor clock is in doubt
)


class Overlap(NamedTuple):
    """Two programs that had the lock at the same time, as the library calls it."""

    first: Turn
    second: Turn
    seconds: float
    is_beyond_lease: (
        bool  # the first had had it for about its lease when the second entered, or for longer
    )


class Exclusion(msgspec.Struct, frozen=True):
    """Whether at most one program had the lock."""

    overlaps: int
    beyond_lease: int  # of these, where the first had it for longer than its lease
    seconds_max: float
    after: dict[str, int]  # overlaps by the fault that happened last


class FenceFinding(msgspec.Struct, frozen=True):
    """Whether holds have a number that grows."""

    is_given: bool
    back: int  # entries whose number is not above all of those that had entered before they asked


class Service(msgspec.Struct, frozen=True):
    """How waiting programs were served while nothing happened."""

    entries: int
    overtaken_max: int  # by how many that had asked later
    seconds_max: float  # of a wait


class LeftBehind(msgspec.Struct, frozen=True):
    """How long a lock stays taken whose holder was killed."""

    kills: int  # of holders
    seconds_median: float | None
    seconds_max: float | None


class Told(msgspec.Struct, frozen=True):
    """When a holder learns that it has lost the lock."""

    before: int  # by itself, before another had entered
    after: int  # by itself, but another was inside already
    asked: int  # by its question
    at_release: int
    never: int  # another was inside, and `release` has returned as if nothing had happened


class LockVerdict(msgspec.Struct, frozen=True):
    """The result of an audit."""

    target: str
    version: str
    server: str
    seed: int
    rounds: int
    programs: int
    lease: float | None
    holds: int
    faults: dict[str, int]
    exclusion: Exclusion
    exclusion_asked: (
        Exclusion | None
    )  # of programs that ask the server at each step; None: there is no question
    fence: FenceFinding
    forgotten: tuple[str, ...]
    service: Service
    left_behind: LeftBehind
    told: Told
    errors: dict[str, int]  # that the library has raised, the most frequent first

    @property
    def is_kept(self) -> bool:
        """Whether nothing was found that a lock must not do."""
        return not self.exclusion.overlaps and not self.fence.back and not self.forgotten


ERRORS_SHOWN = 5


def find_overlaps(turns: Iterable[Turn], lease: float | None) -> list[Overlap]:
    """List the holds of two programs that overlap, in the order of entry."""
    found: list[Overlap] = []
    inside: list[Turn] = []
    for turn in entered(turns):
        assert turn.entered is not None
        inside = [other for other in inside if other.until > turn.entered]
        for other in inside:
            seconds = min(other.until, turn.until) - turn.entered
            # The lease begins while the call is under way, so a little before it has returned.
            stayed = turn.entered - (other.entered or 0.0)
            beyond = lease is not None and stayed >= lease * LEASE_SHARE
            found.append(Overlap(other, turn, max(seconds, 0.0), beyond))
        inside.append(turn)
    return found


def entered(turns: Iterable[Turn]) -> list[Turn]:
    """List the turns that have entered, in that order."""
    found = [turn for turn in turns if turn.entered is not None]
    return sorted(found, key=lambda turn: turn.entered or 0.0)


def as_asked(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns of programs that have asked the server, as long as it has confirmed them."""
    return [
        msgspec.structs.replace(turn, until=turn.confirmed)
        for turn in turns
        if turn.confirmed is not None
    ]


def find_fence(turns: Iterable[Turn]) -> tuple[FenceFinding, list[tuple[Turn, Turn]]]:
    """Judge the tokens; return the pairs that go back as well.

    Of two turns the second is certainly later only if it has *asked* after the first had entered.
    """
    numbered = [turn for turn in entered(turns) if turn.token is not None]
    back: list[tuple[Turn, Turn]] = []
    for turn in numbered:
        before = [t for t in numbered if (t.entered or 0.0) < turn.asked]
        highest = max(before, key=lambda t: t.token or 0, default=None)
        if highest is not None and (turn.token or 0) <= (highest.token or 0):
            back.append((highest, turn))
    return FenceFinding(bool(numbered), len(back)), back


def judge_exclusion(overlaps: Sequence[Overlap], happened: Sequence[Happened]) -> Exclusion:
    """Sum up overlaps, and name the faults after which they were."""
    after: Counter[str] = Counter()
    for overlap in overlaps:
        after[fault_before(overlap, happened)] += 1
    return Exclusion(
        overlaps=len(overlaps),
        beyond_lease=sum(overlap.is_beyond_lease for overlap in overlaps),
        seconds_max=max((overlap.seconds for overlap in overlaps), default=0.0),
        after=dict(after.most_common()),
    )


def fault_before(overlap: Overlap, happened: Sequence[Happened]) -> str:
    """Name the faults that were under way, or over last, when the second entered while the first was inside."""
    at = overlap.second.entered or 0.0
    near = [h for h in happened if h.begun < at and h.ended > (overlap.first.entered or 0.0)]
    last = [h for h in happened if h.begun < at][-1:]
    return " and ".join(sorted({h.name for h in near or last})) or "nothing"


def measure_service(turns: Iterable[Turn], calm_until: float) -> Service:
    """Look at the turns before the first fault."""
    calm = [turn for turn in entered(turns) if (turn.entered or 0.0) < calm_until]
    overtaken = [
        sum(
            other.asked > turn.asked + LATER_SECONDS
            and (other.entered or 0.0) < (turn.entered or 0.0)
            for other in calm
        )
        for turn in calm
    ]
    waits = [(turn.entered or 0.0) - turn.asked for turn in calm]
    return Service(len(calm), max(overtaken, default=0), max(waits, default=0.0))


def measure_left_behind(turns: Sequence[Turn], kills: Sequence[Kill]) -> LeftBehind:
    """Look how long after the kill of a holder the next one has entered."""
    waits: list[float] = []
    count = 0
    for kill in kills:
        last = [turn for turn in turns if turn.program == kill.program][-1:]
        if not last or last[0].entered is None or last[0].left or last[0].told:
            continue
        count += 1
        later = [t.entered for t in turns if t.entered and t.entered > kill.at]
        if later:
            waits.append(min(later) - kill.at)
    return LeftBehind(
        count,
        median(waits) if waits else None,
        max(waits) if len(waits) == count and waits else None,
    )


def measure_told(turns: Iterable[Turn], overlaps: Sequence[Overlap]) -> Told:
    """Look when those learn of it who have lost the lock."""
    overlapped: dict[int, float] = {}  # when the first other has entered
    for overlap in overlaps:
        overlapped.setdefault(id(overlap.first), overlap.second.entered or 0.0)
    counts: Counter[str] = Counter()
    for turn in turns:
        is_shared = id(turn) in overlapped
        match turn.told_how:
            case how if how == BY_ITSELF:
                counts["after" if is_shared else "before"] += 1
            case how if how == BY_QUESTION:
                counts["asked"] += 1
            case how if how == BY_RELEASE:
                counts["at_release"] += 1
            case _ if is_shared and turn.left is not None:
                counts["never"] += 1
    names = Told.__struct_fields__
    return Told(**{name: counts[name] for name in names})


def count_errors(turns: Iterable[Turn]) -> dict[str, int]:
    """Count what the library has raised, without the parts that differ each time."""
    texts = (turn.failed or turn.told_text for turn in turns)
    kinds = Counter(text.partition(":")[0] for text in texts if text)
    return dict(kinds.most_common(ERRORS_SHOWN))
