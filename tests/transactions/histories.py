"""Histories for tests: written in textbooks' notation, or drawn at random."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from coterie.transactions.history import History, HistoryEvent

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = re.compile(r"([rwca])(\d+)(?:\((\w)(?:=(\w+))?(?:@(\d+))?\))?")
Stating = Literal["all", "none", "some"]


# Serializable in one of two ways, of which the likelier leads nowhere; and one in which both do.
SECOND_WAY = (
    "w1(x) w1(z) w2(x) w2(y) w3(y) w3(u) r4(y=2) r4(z=1) r5(u=3) r5(z=1) r6(u=3) r6(x=2)"
    " r7(x=1) r7(u=3) c1 c2 c3 c4 c5 c6 c7"
)
NEITHER_WAY = (
    "w1(y) w1(z) w2(y) w2(x) w3(x) w3(z) r4(y=1) r4(x=3) r5(z=1) r5(x=2) r6(y=2) r6(x=2)"
    " r7(y=2) r7(z=3) c1 c2 c3 c4 c5 c6 c7"
)


def textbook(text: str) -> History:
    """Read `r1(x) w2(x) c1 a2`.

    Writes write the number of the transaction unless `w1(x=5)` says otherwise; a read without a
    value sees null. `w1(x@3)` states a version.
    """
    history = History()
    for step in text.split():
        match = STEP.fullmatch(step)
        assert match, step
        letter, number, key, value, version = match.groups()
        name = f"T{number}"
        if letter in "ca":
            history.add(HistoryEvent(name, "commit" if letter == "c" else "abort"))
            continue
        op = "read" if letter == "r" else "write"
        seen = value or (number if op == "write" else None)
        history.add(HistoryEvent(name, op, key, seen, int(version) if version else None))
    return history


def stated(stating: Stating, key: str) -> bool:
    """Tell whether writes of a key state versions."""
    return stating == "all" or (stating == "some" and key == "x")


def tangled(seed: int) -> History:
    """Draw transactions that read from each other at will, then write; most of them commit."""
    random = Random(seed)
    stating: Stating = random.choice(("all", "none", "none", "some"))
    size, keys = random.randint(2, 6), "xyzw"[: random.randint(1, 4)]
    names = range(size)
    writes = {name: [key for key in keys if random.random() < 0.5] for name in names}
    versions = {key: random.sample(names, size) for key in keys}
    history = History()
    for name in names:
        for key in keys:
            if random.random() < 0.35:
                others = [other for other in names if other != name and key in writes[other]]
                history.add(HistoryEvent(name, "read", key, random.choice([None, *others * 3])))
    for name in names:
        for key in writes[name]:
            version = versions[key][name] if stated(stating, key) else None
            history.add(HistoryEvent(name, "write", key, name, version))
    for name in random.sample(names, size):
        if random.random() < 0.95:
            history.add(HistoryEvent(name, "commit" if random.random() < 0.97 else "abort"))
    return history


def shuffled(seed: int, size: int, keys: int, *, blind: bool, near: int | None = None) -> History:
    """Run transactions one after the other and write them down in another order.

    Each reads two keys and writes two: the same, or others if it is `blind`. The order is any, or
    one in which nobody is further than `near` places from its own.
    """
    random = Random(seed)
    state: dict[int, int] = {}
    transactions: list[list[HistoryEvent]] = []
    for name in range(size):
        chosen = random.sample(range(keys), 4)
        events = [HistoryEvent(name, "read", key, state.get(key)) for key in chosen[:2]]
        for key in chosen[2:] if blind else chosen[:2]:
            state[key] = 2 * name + (key == chosen[3])
            events.append(HistoryEvent(name, "write", key, state[key]))
        transactions.append([*events, HistoryEvent(name, "commit")])
    spread = size * 10 if near is None else near
    history = History()
    for name in sorted(range(size), key=lambda name: name + spread * random.random()):
        for event in transactions[name]:
            history.add(event)
    return history


@st.composite
def interleavings(draw: Callable[..., Any], stating: Stating) -> History:
    """Draw steps of a few transactions, with writes replaced, aborts and ends left open."""
    history = History()
    written: dict[str, list[int | None]] = {"x": [None], "y": [None], "z": [None]}
    versions = {key: draw(st.permutations(range(12))) for key in written}
    open_names = list(range(1, draw(st.integers(2, 5)) + 1))
    count = 0
    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(open_names))
        key = draw(st.sampled_from("xyz"))
        match draw(st.sampled_from(["read"] * 4 + ["write"] * 4 + ["commit", "abort"])):
            case "read":
                seen = draw(st.sampled_from(written[key]))
                history.add(HistoryEvent(name, "read", key, seen))
            case "write":
                version = versions[key][count] if stated(stating, key) else None
                count += 1
                written[key].append(count)
                history.add(HistoryEvent(name, "write", key, count, version))
            case end:
                history.add(HistoryEvent(name, end))
                open_names.remove(name)
        if not open_names:
            return history
    for name in open_names:
        if draw(st.integers(0, 4)):
            history.add(HistoryEvent(name, "commit"))
    return history
