from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from coterie.catalogue import find
from coterie.cli import run
from coterie.errors import ReplayError
from coterie.lab.scenario import perform
from coterie.lab.scenario.replay import replay
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Delivered,
    Dropped,
    Rang,
    Resumed,
    Sent,
    Started,
    Told,
    Trace,
    Violated,
    parse_trace,
)

SCENARIOS = sorted(Path(__file__).parents[2].glob("scenarios/*.txt"))


def plain() -> Trace:
    """One entry by one of two processes: 2 starts, 2 messages, 8 records."""
    return perform("ricart-agrawala 2\nacquire 1\nrun\n").trace


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_trace_replays_from_memory_and_from_a_file(path: Path) -> None:
    trace = perform(path.read_text(encoding="utf-8")).trace
    replay(trace)
    replay(parse_trace(trace.to_lines()))


def test_a_trace_without_starts_replays() -> None:
    trace = plain()
    replay(Trace(trace.header, trace.records[2:]))


@pytest.mark.parametrize(
    ("number", "changes", "error"),
    [
        (4, {"receiver": 1}, r"record 4: 1 > 1  Request\(1.1\), but 1 > 2  Request\(1.1\)"),
        (4, {"message": ["Request", [2, 1]]}, r"record 4: "),
        (8, {"process": 2}, r"record 8: 2 Entered, but 1 Entered"),
        (5, {"number": 9}, r"record 5: message 9 from 1 reaches 2, but it was never sent"),
        (3, {"call": "release"}, r"record 3: release 1, but process 1 cannot release"),
        (7, {"receiver": 2, "number": 1}, r"record 8: 1 Entered, but 2 > 1  Reply"),
    ],
)
def test_a_changed_record_is_named(number: int, changes: dict[str, Any], error: str) -> None:
    trace = plain()
    trace.records[number - 1] = msgspec.structs.replace(trace.records[number - 1], **changes)
    with pytest.raises(ReplayError, match=error):
        replay(trace)


def test_a_missing_output_is_named() -> None:
    trace = plain()
    without_reply = [record for number, record in enumerate(trace.records, 1) if number != 6]
    with pytest.raises(ReplayError, match=r"record 6: message 2 .*, but first: 2 > 1  Reply"):
        replay(Trace(trace.header, without_reply))
    with pytest.raises(ReplayError, match="record 8: missing: 1 Entered"):
        replay(Trace(trace.header, trace.records[:-1]))


def test_an_output_too_many_is_named() -> None:
    trace = plain()
    with pytest.raises(ReplayError, match="record 9: 1 Entered, but nothing happens"):
        replay(Trace(trace.header, [*trace.records, trace.records[-1]]))


def test_a_handler_that_raises_must_be_recorded_as_a_violation() -> None:
    trace = perform(
        "ricart-agrawala 3\nacquire 1\ndeliver 1 > 2\nrepeat 2 > 1\ndeliver 2 > 1\n"
    ).trace
    replay(trace)
    with pytest.raises(ReplayError, match="record 11: missing: KeyError: 2"):
        replay(Trace(trace.header, [x for x in trace.records if not isinstance(x, Violated)]))


def test_a_process_restarted_without_memory_has_forgotten() -> None:
    trace = plain()
    restart: list[AnyRecord] = [Crashed(4, 1), Started(5, 1), Called(6, 1, "acquire")]
    request = Sent(6, 3, 1, 2, ["Request", [1, 1]], "Request(1.1)")
    replay(Trace(trace.header, [*trace.records, *restart, request]))


def test_a_process_restarted_with_its_memory_goes_on() -> None:
    trace = plain()
    replay(
        Trace(
            trace.header,
            [
                *trace.records,
                Crashed(4, 1),
                Started(5, 1, amnesia=False),
                Called(6, 1, "release"),
            ],
        )
    )


def test_what_no_process_notices_is_passed_over() -> None:
    trace = plain()
    lost = perform("ricart-agrawala 2\nacquire 1\ndrop 1 > 2\n").trace
    assert isinstance(lost.records[-1], Dropped)
    replay(lost)
    replay(Trace(trace.header, [*trace.records, Resumed(4, 1)]))


def test_a_timer_that_the_process_does_not_know_is_a_failure() -> None:
    trace = plain()
    with pytest.raises(ReplayError, match="missing: ProtocolError: process 2 sets no timers"):
        replay(Trace(trace.header, [*trace.records, Rang(4, 2, "SILENCE")]))


def test_the_plain_trace_is_as_the_tests_above_count_it() -> None:
    assert [type(record) for record in plain().records] == [
        *(Started, Started, Called, Sent),
        *(Delivered, Sent, Delivered, Told),
    ]


def test_a_counterexample_of_an_algorithm_that_reads_its_clock_replays(tmp_path: Path) -> None:
    """The explorer shows no time to processes, and the trace says so."""
    path = tmp_path / "trace.jsonl"
    words = ["check", "leased", "-N", "3", "--crashes", "1", "--trace", str(path)]
    assert run(words) == 1
    replay(parse_trace(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_catalogue_says_which_algorithms_read_a_clock(path: Path) -> None:
    """The others do the same without one."""
    trace = perform(path.read_text(encoding="utf-8")).trace
    if not find(trace.header.algorithm).reads_clock:
        replay(Trace(msgspec.structs.replace(trace.header, clock="none"), trace.records))
