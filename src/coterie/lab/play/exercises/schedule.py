"""Schedules as textbooks write them, judged: `r1(x) w2(x) c2 w1(x) c1`.

Each operation takes effect where it stands: a read sees the last write before it that was not undone. The
checker of histories has the verdict; the schemes of the catalogue are then asked for the same
operations in the same order, and each says what it would have done otherwise. A schedule may write locks
too; they are held against the rules of locking, and change neither the history nor what the schemes are asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from coterie.errors import UsageError
from coterie.lab.play.exercises.lock_rule import LockRule, judge_locking
from coterie.lab.play.exercises.operation import Operation
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial
from coterie.transactions.catalogue import schemes
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.scheduler import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.transactions.catalogue import Scheme

TEXT_MAX = 2_000  # characters
TRANSACTIONS_MAX = 12
OPERATION = re.compile(r"([rwslu])([0-9]{1,3})\(([A-Za-z]\w{0,15})\)|([ca])([0-9]{1,3})", re.ASCII)


class Conflict(msgspec.Struct, frozen=True):
    """Two operations whose order matters: an edge of the serialization graph."""

    source: str
    target: str
    kind: str  # ww, wr or rw
    key: str
    text: str


class Finding(msgspec.Struct, frozen=True):
    """Something that no serial schedule shows."""

    name: str
    meaning: str
    cycle: list[str]
    sentences: list[str]


class SchemeAnswer(msgspec.Struct, frozen=True):
    """What a scheme does when it is asked for the operations of a schedule in their order."""

    name: str
    title: str
    outcome: Literal["as written", "reordered", "otherwise"]
    text: str


class ScheduleAnswer(msgspec.Struct, frozen=True):
    """Everything that a page shows of a schedule."""

    operations: list[str]
    assumed: list[str]  # commits that were not written
    transactions: list[str]
    conflicts: list[Conflict]
    serializable: bool | None
    order: list[str]
    findings: list[Finding]
    locking: list[LockRule]  # none without locks
    schemes: list[SchemeAnswer]


def parse_schedule(text: str) -> list[Operation]:
    """Read a schedule; raise `UsageError` that names what is wrong with it."""
    if len(text) > TEXT_MAX:
        raise UsageError(f"a schedule has at most {TEXT_MAX:,} characters, not {len(text):,}")
    operations: list[Operation] = []
    ended: set[int] = set()
    for word in re.sub(r"[,;]", " ", text).split():
        found = OPERATION.fullmatch(word)
        if found is None:
            raise UsageError(
                f"expected an operation such as r1(x), w1(x), c1 or a1, got {word[:40]!r}"
            )
        number = int(found[2] or found[5])
        if number in ended:
            raise UsageError(f"transaction {number} has ended before {word}")
        operations.append(Operation(found[1] or found[4], number, found[3] or ""))
        if found[4]:
            ended.add(number)
    if len({each.transaction for each in operations}) > TRANSACTIONS_MAX:
        raise UsageError(f"a schedule on a page has at most {TRANSACTIONS_MAX} transactions")
    if all(each.locks for each in operations):
        raise UsageError("a schedule needs an operation besides locks, such as r1(x)")
    return operations


def judge_schedule(text: str) -> ScheduleAnswer:
    """Find the conflicts, the verdict with its proof, and what each scheme would have done."""
    written = parse_schedule(text)
    numbers = list(dict.fromkeys(each.transaction for each in written))
    ended = {each.transaction for each in written if each.ends}
    assumed = [Operation("c", number) for number in numbers if number not in ended]
    operations = [each for each in (*written, *assumed) if not each.locks]
    report = check(_history(operations))
    return ScheduleAnswer(
        operations=[str(each) for each in written],
        assumed=[str(each) for each in assumed],
        transactions=[f"T{number}" for number in numbers],
        conflicts=_conflicts(operations),
        serializable=report.serializable,
        order=[str(name) for name in report.order or ()],
        findings=[
            Finding(
                each.name,
                each.meaning,
                [str(name) for name in each.cycle],
                [dependency.text for dependency in each.dependencies],
            )
            for each in report.anomalies
        ],
        locking=judge_locking(written),
        schemes=[_ask(scheme, operations) for scheme in schemes().values()],
    )


def _history(operations: Sequence[Operation]) -> History:
    """Write the schedule as a history: what each read has seen, and the versions in their order."""
    history = History()
    for place, each in enumerate(operations):
        name = f"T{each.transaction}"
        match each.kind:
            case "r":
                seen = _seen(operations[:place], each.key)
                event = HistoryEvent(name, "read", each.key, None if seen is None else seen)
            case "w":
                event = HistoryEvent(name, "write", each.key, place + 1, place + 1)
            case kind:
                event = HistoryEvent(name, "commit" if kind == "c" else "abort")
        history.add(event)
    return history


def _seen(before: Sequence[Operation], key: str) -> int | None:
    """Return the place of the write that a read sees, from 1 on; what was undone is not seen."""
    undone = {each.transaction for each in before if each.kind == "a"}
    for place in range(len(before), 0, -1):
        each = before[place - 1]
        if each.kind == "w" and each.key == key and each.transaction not in undone:
            return place
    return None


def _conflicts(operations: Sequence[Operation]) -> list[Conflict]:
    """Find the edges, one for each pair, kind and key; what was undone conflicts with nothing."""
    undone = {each.transaction for each in operations if each.kind == "a"}
    found: dict[tuple[Any, ...], Conflict] = {}
    for place, first in enumerate(operations):
        for second in operations[place + 1 :]:
            apart = first.transaction != second.transaction and first.key == second.key != ""
            if not apart or "w" not in first.kind + second.kind:
                continue
            if {first.transaction, second.transaction} & undone:
                continue
            kind = first.kind + second.kind
            key = first.transaction, second.transaction, kind, first.key
            text = f"{first} stands before {second}"
            source, target = f"T{first.transaction}", f"T{second.transaction}"
            found.setdefault(key, Conflict(source, target, kind, first.key, text))
    return list(found.values())


def _ask(scheme: Scheme, operations: Sequence[Operation]) -> SchemeAnswer:
    """Make the requests of a schedule in their order, up to the first that goes another way."""
    trial = Trial(scheme.build(), tuple(sorted({each.key for each in operations if each.key})))
    numbers = dict.fromkeys(each.transaction for each in operations)
    for stamp, number in enumerate(numbers, 1):
        trial.add(f"T{number}", stamp, _script(operations, number))
    for place in range(len(operations)):
        otherwise = _request(trial, operations, place)
        if otherwise:
            return SchemeAnswer(scheme.name, scheme.title, "otherwise", otherwise)
    reordered = _reordered(trial, operations)
    if reordered:
        return SchemeAnswer(scheme.name, scheme.title, "reordered", reordered)
    return SchemeAnswer(scheme.name, scheme.title, "as written", "allows it as it is written")


def _script(operations: Sequence[Operation], number: int) -> str:
    own = [each for each in operations if each.transaction == number]
    accesses = [f"{each.kind}({each.key})" for each in own if each.key]
    return " ".join([*accesses, *("a" for each in own if each.kind == "a")])


def _request(trial: Trial, operations: Sequence[Operation], place: int) -> str:
    """Make one request; return what happens otherwise than in the schedule, or nothing."""
    each = operations[place]
    name = f"T{each.transaction}"
    runner = trial.runners[name]
    for _ in range(2 if each.kind == "c" else 1):  # a commit is prepared first
        if runner.over:
            break
        trial.move(name)
        if runner.waiting:
            return f"delays {each}: it waits for another transaction"
    for other, gone in trial.runners.items():
        if gone.refusal is not None:
            return f"refuses {other} at {each}: {gone.refusal.rule}"
    if each.kind == "r":
        return _read_otherwise(runner.doings[-1].value, operations, place)
    return ""


def _reordered(trial: Trial, operations: Sequence[Operation]) -> str:
    """Say which key's versions a scheme has put in another order than that of the writes."""
    for key in trial.universe:
        writers = [f"T{x.transaction}" for x in operations if (x.kind, x.key) == ("w", key)]
        last = list(dict.fromkeys(reversed(writers)))[::-1]  # each where it wrote last
        numbers = {name: trial.runners[name].number for name in last}
        kept = [name for name in last if numbers[name] is not None]
        by_number = sorted(kept, key=lambda name: numbers[name] or BEGINNING)
        if by_number != kept:
            order = ", ".join(by_number)
            return f"accepts every operation, and puts the writes of {key} in the order {order}"
    return ""


def _read_otherwise(value: str | None, operations: Sequence[Operation], place: int) -> str:
    seen = _seen(operations[:place], operations[place].key)
    wanted = None if seen is None else f"T{operations[seen - 1].transaction}"
    got = None if value is None else value.partition("/")[0]
    if got == wanted:
        return ""
    which = "what was there at first" if got is None else f"what {got} wrote"
    instead = "what was there at first" if wanted is None else f"what {wanted} wrote"
    return f"answers {operations[place]} with {which}, not with {instead}"
