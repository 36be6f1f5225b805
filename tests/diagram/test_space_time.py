from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from coterie.diagram import space_time
from coterie.diagram.space_time import RECORDS_MAX, WIDTH_MAX
from coterie.diagram.svg import text_width
from coterie.lab.scenario import perform
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Header,
    Paused,
    Rang,
    Resumed,
    Sent,
    Told,
    Trace,
    Violated,
)

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("ricart-agrawala-*.txt"))
SVG = "{http://www.w3.org/2000/svg}"
PLAIN = "ricart-agrawala 2\nacquire 1\nrun\nrelease 1\n"


def draw(trace: Trace) -> ET.Element:
    return ET.fromstring(space_time(trace))  # noqa: S314 - our own output


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def tips(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}title")]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_each_message_and_each_call_has_its_mark(path: Path) -> None:
    trace = perform(path.read_text(encoding="utf-8")).trace
    shown = tips(draw(trace))
    for record in trace.records:
        if isinstance(record, Sent):
            words = f"{record.label} from {record.sender} to {record.receiver}"
            assert words in shown
            shown.remove(words)
        elif isinstance(record, Called):
            shown.remove(f"{record.call} by {record.process}")
    assert shown == [trace.header.title]


def test_lanes_steps_and_legend_are_named() -> None:
    shown = texts(draw(perform(PLAIN).trace))
    assert shown == [
        *("ricart-agrawala, 2 processes", "", "1", "2", "3", "4", "step", "process 1", "process 2"),
        *("Request(1.1)", "Reply", "Request", "Reply", "waiting", "inside", "call"),
    ]


def test_a_title_and_the_choices_of_the_header_stand_above() -> None:
    header = Header(
        algorithm="maekawa", size=3, variant="basic", parameters={"coterie": "grid"}, seed=7,
        title="Five & <more>",
    )  # fmt: skip
    shown = texts(draw(Trace(header)))
    assert shown[:2] == [
        "Five & <more>",
        "maekawa · 3 processes · variant basic · coterie grid · seed 7",
    ]
    assert "time" in shown, "a seeded run has times, not steps"


def test_a_picture_of_few_steps_is_wide_enough_for_its_title() -> None:
    def width(title: str) -> float:
        header = Header(algorithm="maekawa", size=3, title=title)
        return float(draw(Trace(header)).attrib["width"])

    assert width("a" * 100) > text_width("a" * 100, 15)


def test_a_crash_a_loss_and_a_message_on_its_way_are_named_in_the_legend() -> None:
    trace = perform("ricart-agrawala 4\nacquire 1\ndrop 1 > 2\ncrash 4\n").trace
    shown = texts(draw(trace))
    assert shown[-6:] == ["Request", "waiting", "crashed", "lost", "still on its way", "call"]


@pytest.mark.parametrize(
    ("name", "text", "caption"),
    [
        (
            "mutual exclusion",
            "1 and 2 are inside together",
            "violated: mutual exclusion; 1 and 2 are inside together",
        ),
        ("no deadlock", "process 1 waits forever", "deadlock: process 1 waits forever"),
    ],
)
def test_a_violation_is_told_in_words(name: str, text: str, caption: str) -> None:
    trace = perform(PLAIN).trace
    trace.records.append(Violated(4, name, text))
    assert caption in " ".join(texts(draw(trace)))


def test_timers_events_and_pauses_are_drawn() -> None:
    records: list[AnyRecord] = [
        Paused(0.5, 1),
        Resumed(1.5, 1),
        Rang(2.0, 2, "SILENCE"),
        Told(2.0, 2, ["Elected", 2], "Elected(2)"),
        Crashed(3.0, 1),
    ]
    shown = texts(draw(Trace(Header(algorithm="bully", size=2), records)))
    assert {"SILENCE", "Elected(2)", "paused", "crashed", "timer"} <= set(shown)


@pytest.mark.slow
def test_a_long_run_is_drawn_within_bounds_and_says_what_is_left_out() -> None:
    step = "acquire 1\nrun\nrelease 1\n"
    trace = perform("ricart-agrawala 2\n" + step * 2000).trace
    picture = draw(trace)
    assert float(picture.attrib["width"]) < WIDTH_MAX + 200
    assert len(trace.records) > RECORDS_MAX
    assert f"the first {RECORDS_MAX:,} of {len(trace.records):,} records" in texts(picture)
    assert "Request(1.1)" not in texts(picture), "colours must do where there are many"


def test_a_picture_without_records_is_a_picture() -> None:
    assert draw(Trace(Header(algorithm="ricart-agrawala", size=1))).tag == f"{SVG}svg"


def test_nothing_is_fetched_and_nothing_has_an_id() -> None:
    text = space_time(perform(PLAIN).trace)
    assert "href" not in text
    assert "url(" not in text
    assert " id=" not in text
    assert "@import" not in text


@pytest.mark.slow
def test_the_same_trace_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    program = (
        "from coterie.lab.scenario import perform; from coterie.diagram import space_time;"
        f"print(space_time(perform({PLAIN!r}).trace), end='')"
    )
    pictures = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert pictures == {space_time(perform(PLAIN).trace)}
