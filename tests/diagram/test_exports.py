from __future__ import annotations

import json
import re
from typing import Any

from coterie.diagram import perfetto, shiviz
from coterie.lab.scenario import perform
from coterie.trace import Header, Paused, Resumed, Sent, Trace, Violated

PLAIN = "ricart-agrawala 2\nacquire 1\nrun\nrelease 1\n"
CONTENDED = "ricart-agrawala 3\nacquire 1\nacquire 3\nrun\nrelease 1\nrun\nrelease 3\n"


def parse_shiviz(text: str) -> list[tuple[str, dict[str, int], str]]:
    """Read a log as ShiViz does: by the pattern of its first line, below the empty second."""
    pattern, separator, *log = text.split("\n")
    assert separator == ""
    named = pattern.replace("(?<", "(?P<")
    return [
        (match["host"], json.loads(match["clock"]), match["event"])
        for match in re.finditer(named, "\n".join(log))
    ]


def test_the_pattern_of_a_shiviz_log_reads_every_event() -> None:
    events = parse_shiviz(shiviz(perform(PLAIN).trace))
    assert [(host, event) for host, _, event in events] == [
        ("process1", "has started"),
        ("process2", "has started"),
        ("process1", "is asked to acquire"),
        ("process1", "sends Request(1.1) to 2"),
        ("process2", "gets Request(1.1) from 1"),
        ("process2", "sends Reply to 1"),
        ("process1", "gets Reply from 2"),
        ("process1", "tells Entered"),
        ("process1", "is asked to release"),
    ]


def test_each_host_counts_its_own_events_from_one() -> None:
    own: dict[str, list[int]] = {}
    for host, clock, _ in parse_shiviz(shiviz(perform(CONTENDED).trace)):
        own.setdefault(host, []).append(clock[host])
    assert all(counts == list(range(1, len(counts) + 1)) for counts in own.values())


def test_the_clock_of_a_receipt_includes_that_of_the_sending() -> None:
    events = parse_shiviz(shiviz(perform(PLAIN).trace))
    clocks = {event: clock for _, clock, event in events}
    assert clocks["gets Request(1.1) from 1"] == {"process1": 3, "process2": 2}
    assert clocks["tells Entered"] == {"process1": 5, "process2": 3}


def test_what_no_host_did_is_not_in_a_shiviz_log() -> None:
    trace = perform("ricart-agrawala 2\nacquire 1\ndrop 1 > 2\n").trace
    before = shiviz(Trace(trace.header, trace.records[:-1]))
    assert shiviz(trace) == before
    assert shiviz(Trace(trace.header, [*trace.records, Violated(3, "a", "b")])) == before


def parse_perfetto(trace: Trace) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(perfetto(trace))["traceEvents"]
    return events


def test_stays_are_slices_of_the_condition_track() -> None:
    slices = [
        (event["name"], event["pid"], event["ts"], event["dur"])
        for event in parse_perfetto(perform(PLAIN).trace)
        if event["ph"] == "X" and event["tid"] == 1
    ]
    assert slices == [("waiting", 1, 1000, 2000), ("inside", 1, 3000, 1000)]


def test_each_message_flows_from_a_step_to_a_step() -> None:
    trace = perform(CONTENDED).trace
    events = parse_perfetto(trace)
    steps = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(isinstance(record, Sent) for record in trace.records)
    for end in (*starts.values(), *ends.values()):
        assert any(
            step["pid"] == end["pid"] and step["ts"] <= end["ts"] <= step["ts"] + step["dur"]
            for step in steps
        )


def test_processes_and_tracks_have_names() -> None:
    names = [
        (event["name"], event["pid"], event["args"].get("name"))
        for event in parse_perfetto(perform(PLAIN).trace)
        if event["ph"] == "M" and event["pid"] == 2
    ]
    assert names == [
        ("process_name", 2, "process 2"),
        ("process_sort_index", 2, None),
        ("thread_name", 2, "condition"),
        ("thread_name", 2, "steps"),
    ]


def test_pauses_and_violations_are_shown() -> None:
    header = Header(algorithm="ricart-agrawala", size=1)
    trace = Trace(header, [Paused(1, 1), Resumed(3, 1), Violated(4, "order", "1 before 2")])
    events = parse_perfetto(trace)
    assert {"ph": "X", "name": "paused", "pid": 1, "tid": 2, "ts": 1000, "dur": 2000} in events
    assert events[-1] == {
        "ph": "i",
        "name": "violated: order; 1 before 2",
        "pid": 1,
        "tid": 2,
        "ts": 4000,
        "s": "g",
    }
