from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.errors import UsageError
from coterie.process import Payload
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Delivered,
    Dropped,
    Header,
    Noticed,
    Paused,
    Rang,
    Repeated,
    Resumed,
    Sent,
    Started,
    Told,
    Trace,
    Violated,
    label,
    parse_trace,
    sent,
)

if TYPE_CHECKING:
    from pathlib import Path


class Grant(Payload, frozen=True):
    stamp: Stamp
    waiting: tuple[int, ...] = ()


class Nothing(Payload, frozen=True):
    pass


HEADER = Header(
    algorithm="maekawa",
    size=3,
    variant="deferred",
    parameters={"coterie": "grid"},
    seed=7,
    title="“Quoted” <title>",
)

ONE_OF_EACH: list[AnyRecord] = [
    Started(0.0, 1),
    Started(0.5, 2, amnesia=False),
    Called(1.0, 1, "acquire"),
    Sent(1.0, 1, 1, 2, ["Request", [1, 1]], "Request(1.1)"),
    Delivered(2.25, 1, 1, 2),
    Dropped(2.5, 1, 1, 2, "partition"),
    Rang(3.0, 2, "SILENCE"),
    Noticed(3.5, 2, 3),
    Told(4.0, 1, ["Entered"], "Entered"),
    Paused(5.0, 3),
    Resumed(6.0, 3),
    Crashed(7.0, 3),
    Repeated(7.5),
    Violated(8.0, "mutual exclusion", "1 and 2 are inside together"),
]


def test_every_kind_of_record_survives_the_way_through_a_file(tmp_path: Path) -> None:
    trace = Trace(HEADER, ONE_OF_EACH)
    trace.save(tmp_path / "trace.jsonl")
    assert parse_trace((tmp_path / "trace.jsonl").read_text(encoding="utf-8")) == trace


def test_the_test_above_has_every_kind_of_record() -> None:
    assert {type(record) for record in ONE_OF_EACH} == set(AnyRecord.__args__)


def test_a_record_is_a_line_that_names_its_kind() -> None:
    lines = Trace(HEADER, [Called(1.0, 1, "acquire")]).to_lines().splitlines()
    assert lines[1] == '{"kind":"called","time":1.0,"process":1,"call":"acquire"}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not a trace: line 1: "),
        ("{}\n", "not a trace: line 1: .*`algorithm`"),
        (
            '{"algorithm":"a","size":2}\n{"kind":"delivered","time":1,"number":1,"sender":1,"receiver":2}',
            "not a trace: line 2: message 1 was never sent",
        ),
        (
            '{"algorithm":"a","size":2}\n{"kind":"called","time":1,"process":3,"call":"acquire"}\n',
            "not a trace: line 2: no process 3 among 2",
        ),
        ('{"algorithm":"a","size":2}\nnonsense\n', "not a trace: line 2: "),
        (
            '{"algorithm":"a","size":2}\n{"kind":"crashed","time":1,"process":"two"}\n',
            r"not a trace: line 2: .*\$.process",
        ),
        ('{"algorithm":"a","size":2}\n{"kind":"vanished"}\n', "not a trace: line 2: .*'vanished'"),
        (
            '{"algorithm":"a","size":2}\n\n',
            "not a trace: line 2: ",
        ),
    ],
)
def test_a_line_that_is_no_record_is_named(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_trace(text)


def test_labels_are_written_as_people_write_them() -> None:
    assert label(Nothing()) == "Nothing"
    assert label(Grant(Stamp(3, 1), (4, 2))) == "Grant(3.1, [4 2])"


def test_a_sent_message_is_recorded_in_plain_values() -> None:
    record = sent(1.0, 5, 1, 2, Grant(Stamp(3, 1), (4, 2)))
    assert parse_trace(Trace(HEADER, [record]).to_lines()).records == [
        Sent(1.0, 5, 1, 2, ["Grant", [3, 1], [4, 2]], "Grant(3.1, [4 2])")
    ]
