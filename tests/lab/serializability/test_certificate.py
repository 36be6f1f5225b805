"""The certificate of a long history against the checker of single events, over random histories."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from coterie.errors import UsageError
from coterie.lab.serializability import Report, check
from coterie.lab.serializability.certificate import certify
from coterie.transactions.history import LONG, History, HistoryEvent, parse_history
from coterie.transactions.history_columns import UnusualError, read_columns

HISTORIES = 1500
VALUES: list[Any] = ["x", 7, [1], [1, 0], {"a": 1}]
ODD_VALUES: list[Any] = [*VALUES, 1, 1.0, True, [True], [1.0], {"a": 1.0}, None, 10**30]
SLIPS = ("value", "version", "aborted", "intermediate", "late", "begin", "no key", "no version")


class Scribe:
    """Writes a history as transactions over a few keys make it, with slips of the given kinds."""

    def __init__(self, dice: Random, slips: tuple[str, ...], *, stale: float) -> None:
        self.dice = dice
        self.slips = slips
        self.stale = stale
        self.values = ODD_VALUES if "odd" in slips else VALUES
        self.pairs = dice.random() < 0.5
        self.lines: list[dict[str, Any]] = []
        self.versions: dict[str, list[tuple[Any, Any]]] = {key: [] for key in "abc"}  # committed
        self.lost: list[tuple[str, Any, Any]] = []  # written in vain: key, version, value
        self.clock = 0

    def write(self) -> bytes:
        active: list[dict[str, Any]] = []
        for number in range(self.dice.randint(1, 9)):
            active.append({"name": self._name(number), "own": {}, "left": self.dice.randint(1, 4)})
            if self.dice.random() < 0.6:
                self._say(active[-1], "begin")
            while len(active) > self.dice.randint(0, 2):
                one = self.dice.choice(active)
                self._step(one)
                if one["left"] <= 0:
                    self._end(one)
                    active.remove(one)
        text = "\n".join(json.dumps(line) for line in self.lines)
        return (text + self.dice.choice(["", "\n"])).encode()

    def _name(self, number: int) -> str | int:
        return number if self.dice.random() < 0.3 else f"T{number}"

    def _slips(self, kind: str) -> bool:
        return kind in self.slips and self.dice.random() < 0.1

    def _say(self, one: dict[str, Any], op: str, **fields: Any) -> None:
        self.lines.append({"transaction": one["name"], "op": op, **fields})

    def _stamp(self) -> Any:
        self.clock += 1
        return [self.clock, self.dice.randint(0, 2)] if self.pairs else self.clock

    def _step(self, one: dict[str, Any]) -> None:
        one["left"] -= 1
        key = self.dice.choice("abc")
        if self.dice.random() < 0.5:
            self._read(one, key)
        else:
            version, value = self._stamp(), self.dice.choice(self.values)
            if key in one["own"]:
                self.lost.append((key, *one["own"][key]))
            one["own"][key] = (version, value)
            stated = {} if self._slips("no version") else {"version": version}
            self._say(one, "write", value=value, **stated, **self._key(key))
        if self._slips("begin"):
            self._say(one, "begin")

    def _key(self, key: str) -> dict[str, Any]:
        return {} if self._slips("no key") else {"key": key}

    def _read(self, one: dict[str, Any], key: str) -> None:
        versions = self.versions[key]
        if key in one["own"]:
            version, value = one["own"][key]
        elif not versions:
            version, value = ([0, 0] if self.pairs else 0), None
        else:
            back = self.dice.randint(1, len(versions)) if self.dice.random() < self.stale else 1
            version, value = versions[-back]
        if (self._slips("aborted") or self._slips("intermediate")) and self.lost:
            key, version, value = self.dice.choice(self.lost)
        if self._slips("value"):
            value = self.dice.choice([*self.values, None])
        if self._slips("version"):
            version = self._stamp()
        stated = {} if value is None and self.dice.random() < 0.3 else {"version": version}
        if self._slips("no version"):
            stated = {}
        self._say(one, "read", value=value, **stated, **self._key(key))

    def _end(self, one: dict[str, Any]) -> None:
        outcome = self.dice.choices(["commit", "abort", None], [8, 1, 1])[0]
        if outcome is not None:
            self._say(one, outcome)
        for key, (version, value) in one["own"].items():
            if outcome == "abort":
                self.lost.append((key, version, value))
            else:
                self.versions[key].append((version, value))
        if self._slips("late"):
            self._read(one, "a")


def judged(content: bytes) -> Report | None:
    """What the checker of single events says; None if the history is wrong in itself."""
    try:
        return check(parse_history(content))
    except UsageError:
        return None


def certified(content: bytes) -> Report | None:
    """What the certificate says, if there is one."""
    try:
        return certify(read_columns(content))
    except UnusualError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("slips", [(), SLIPS, (*SLIPS, "odd")], ids=["plain", "slips", "odd"])
@pytest.mark.parametrize("stale", [0.0, 0.3])
def test_the_certificate_says_what_the_checker_says_or_nothing(
    slips: tuple[str, ...], stale: float
) -> None:
    sound = proved = 0
    for seed in range(HISTORIES):
        content = Scribe(Random(seed), slips, stale=stale).write()
        expected = judged(content)
        report = certified(content)
        if report is not None:
            assert report == expected, f"seed {seed}"
            proved += 1
        if expected is not None and expected.serializable:
            sound += 1
            assert slips or report is not None or not content.strip(), f"seed {seed}"
    assert 0 < proved <= sound < HISTORIES


def test_an_order_against_that_of_commits_is_found() -> None:
    content = b"\n".join(
        [
            b'{"transaction":"late","op":"read","key":"x","value":null,"version":0}',
            b'{"transaction":"early","op":"write","key":"x","value":1,"version":1}',
            b'{"transaction":"early","op":"commit"}',
            b'{"transaction":"late","op":"commit"}',
        ]
    )
    report = certified(content)
    assert report is not None
    assert report.order == ("late", "early")
    assert report == judged(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b'{"transaction":1,"op":"commit"} {"transaction":2,"op":"commit"}\n',
        b'{"transaction":1,\n"op":"commit"}',
        b'{"transaction":1,"op":"write","key":"x","value":\n{},"version":1} {"transaction":2,"op":"commit"}',
        b'{"transaction":1,"op":"write","key":"x","value":"\xff","version":1}',
        b'{"transaction":1,"op":"write","key":"x","value":1,"version":[]}',
        b'{"transaction":1,"op":"write","key":"x","value":1,"version":99999999999999999999}',
        b'{"transaction":1,"op":"stop"}',
        b"[]",
    ],
)
def test_what_is_written_in_an_unusual_way_is_left_to_the_checker(content: bytes) -> None:
    assert certified(content) is None


def test_versions_that_are_far_apart_keep_their_order() -> None:
    far = [-(2**63), 2**63 - 1, 0, 5]
    lines: list[dict[str, Any]] = []
    for number, version in enumerate(far):
        event = {"transaction": number, "op": "write", "key": "x", "value": number}
        lines += [
            {**event, "version": [version, -version // 2]},
            {"transaction": number, "op": "commit"},
        ]
    content = "\n".join(map(json.dumps, lines)).encode()
    report = certified(content)
    assert report is not None
    assert report.order == (0, 2, 3, 1)
    assert report == judged(content)


PADDING = b'\n{"transaction":"P","op":"begin","talk":"' + b"x" * LONG + b'"}'


def test_a_long_history_is_judged_as_a_short_one() -> None:
    dice = Random(1)  # any other will do
    histories = [Scribe(dice, SLIPS, stale=0.3).write() for _ in range(50)]
    outcomes: list[bool | str | None] = []
    for content in histories:
        for text in (content.rstrip(b"\n") + PADDING, content):
            try:
                outcomes.append(check(parse_history(text)).serializable)
            except UsageError as error:
                outcomes.append(str(error))
    assert outcomes[::2] == outcomes[1::2]
    assert len(set(outcomes)) > 2


@pytest.mark.parametrize(
    "events",
    [
        ["A write 1 1", "A abort", "B read 1 1", "B commit"],
        ["A read 1 1", "A write 1 1", "A commit"],
        ["A write 1 1", "A commit", "B write 1 1", "B commit"],
    ],
    ids=["aborted", "own later write", "version of two"],
)
def test_what_may_be_wrong_is_left_to_the_checker(events: list[str]) -> None:
    lines = []
    for event in events:
        name, op, *rest = event.split()
        fields = {"key": "x", "value": int(rest[0]), "version": int(rest[1])} if rest else {}
        lines.append(json.dumps({"transaction": name, "op": op, **fields}))
    assert certified("\n".join(lines).encode()) is None


def test_what_is_read_in_columns_is_what_is_read_event_by_event() -> None:
    """Every history that is refused, and every transaction of one that is not."""
    dice, in_columns = Random(2), 0
    for _ in range(100):
        content = Scribe(dice, dice.choice([(), SLIPS]), stale=0.3).write().rstrip(b"\n")
        if not content:
            continue
        long, short = told(content + PADDING), told(content)
        if isinstance(short, str):
            assert long == short
            continue
        assert not isinstance(long, str)
        in_columns += long.columns is not None
        of_padding = long.transactions.pop("P")
        assert (of_padding.accesses, of_padding.first) == ([], content.count(b"\n") + 2)
        assert long.transactions == short.transactions
        assert list(long.transactions) == list(short.transactions)
    assert in_columns > 20


def told(content: bytes) -> History | str:
    """Read a history; return the complaint if it is wrong in itself."""
    try:
        return parse_history(content)
    except UsageError as error:
        return str(error)


def test_a_long_history_that_is_added_to_is_judged_with_what_was_added() -> None:
    history = parse_history(b'{"transaction":1,"op":"commit"}' + PADDING)
    assert history.columns is not None
    history.add(HistoryEvent("A", "read", "x", 5, version=1))
    history.add(HistoryEvent("A", "commit"))
    assert history.columns is None
    assert list(history.transactions) == [1, "P", "A"]
    assert history.transactions["A"].last == 4
    assert check(history).serializable is False


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ("s", "t", "line 2: 1 is of session s, not of t"),
        ("s", ["s"], "Expected"),
        ("s", "s", None),
        ("s", None, None),
        (None, "s", None),
    ],
)
def test_a_long_history_names_one_session_for_each_transaction(
    first: Any, second: Any, complaint: str | None
) -> None:
    events = [
        {"transaction": 1, "op": "begin", "session": first},
        {"transaction": 1, "op": "commit", "session": second},
        {"transaction": 2, "op": "commit", "session": "u"},
    ]
    outcome = told("\n".join(map(json.dumps, events)).encode() + PADDING)
    if complaint is not None:
        assert complaint in str(outcome)
        return
    assert not isinstance(outcome, str)
    assert outcome.columns is not None
    assert outcome.transactions[1].session == "s"


def test_of_a_long_history_in_which_all_is_well_no_events_are_made() -> None:
    history = parse_history(b'{"transaction":1,"op":"commit"}' + PADDING)
    assert check(history).serializable
    assert history.columns is not None
    assert check(history, real_time=True).serializable
    assert history.columns is None
