"""Wait-for graphs as JSON, and the command that reads them."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING
from xml.dom import minidom

import pytest

from coterie.algorithms.deadlock.condition import all_of, any_of, some_of
from coterie.algorithms.deadlock.graph_file import parse_graph, write_graph
from coterie.cli import run
from coterie.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

ISSUE = (
    '{"P1": {"all": ["P2", {"any": ["P3", "P4"]}]}, "P2": {"any": ["P1"]},'
    ' "P3": {"of": 2, "from": ["P1", "P2", "P4"]}}'
)
CROSSED = (
    '{"ann": {"all": ["A"], "since": 12.5}, "A": {"held": ["bob"]},'
    ' "bob": {"any": ["B", "C"]}, "B": {"held": ["ann"]}, "C": null}'
)


def test_conditions_nest() -> None:
    assert parse_graph(ISSUE).waits == {
        "P1": all_of("P2", any_of("P3", "P4")),
        "P2": any_of("P1"),
        "P3": some_of(2, "P1", "P2", "P4"),
    }


@pytest.mark.parametrize("text", [ISSUE, CROSSED])
def test_what_is_written_is_read_as_the_same_graph(text: str) -> None:
    graph = parse_graph(text)
    assert parse_graph(json.dumps(write_graph(graph))) == graph


def test_a_process_that_is_null_runs_and_one_name_is_a_condition() -> None:
    assert parse_graph('{"P1": null, "P2": "P1"}').waits == {"P2": all_of("P1")}


def test_a_process_that_is_null_is_shown_also_if_nobody_waits_for_it() -> None:
    graph = parse_graph('{"P1": null, "P2": "P3"}')
    assert graph.nodes() == ("P2", "P3", "P1")
    assert parse_graph(json.dumps(write_graph(graph))) == graph


def test_resources_have_holders_and_waits_have_times() -> None:
    graph = parse_graph(CROSSED)
    assert graph.resources == {"A", "B"}
    assert graph.since == {"ann": "12.5"}
    assert graph.deadlocked() == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: line 1"),
        ("[1]", "expected an object of processes, got [1]"),
        ('{"": "P1"}', "a process has an empty name"),
        ('{"P1": 3}', 'P1: expected "NAME"'),
        ('{"P1": ""}', 'P1: expected "NAME"'),
        ('{"P1": {}}', 'P1: expected "NAME"'),
        ('{"P1": {"all": ["P2"], "any": ["P3"]}}', 'P1: expected "NAME"'),
        ('{"P1": {"all": []}}', "P1.all: expected a list of at least one, got []"),
        ('{"P1": {"all": ["P2", {"any": 3}]}}', "P1.all[1].any: expected a list"),
        ('{"P1": {"of": 4, "from": ["P2", "P3"]}}', "P1.of: expected a number from 1 to 2, got 4"),
        ('{"P1": {"of": true, "from": ["P2"]}}', "P1.of: expected a number"),
        ('{"P1": {"any": ["P2", "P2"]}}', "P1.any: P2 is named twice"),
        ('{"P1": {"any": [{"held": ["P2"]}]}}', 'P1.any[0]: expected "NAME"'),
        ('{"P1": {"all": ["P2"], "since": []}}', "P1.since: expected a time"),
        ('{"P1": "P2", "P1": "P3"}', "'P1' stands twice"),
        ('{"P1": ' + '{"all": [' * 5000 + '"P2"' + "]}" * 5000 + "}", "nested too deep"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_graph(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def issue_file(tmp_path: Path) -> str:
    path = tmp_path / "graph.json"
    path.write_text(ISSUE)
    return str(path)


def test_the_command_says_who_is_deadlocked_and_exits_with_1(
    issue_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["deadlock", issue_file, "-o", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["deadlocked"] == ["P1", "P2", "P3"]
    assert facts["cores"] == [["P1", "P2"]]
    assert facts["explanation"]["P3"]["core"] == ["P1", "P2"]
    assert facts["explanation"]["P3"]["members"][0] == "P3"


def test_the_command_reads_standard_input_and_exits_with_0_if_all_can_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(CROSSED.encode())))
    assert run(["deadlock", "-"]) == 0
    assert "no deadlock" in capsys.readouterr().out


def test_the_table_tells_each_cycle_once(
    issue_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["deadlock", issue_file])
    text = capsys.readouterr().out
    assert text.count("in a cycle of 2:") == 1
    assert "P3 is deadlocked, waiting for a cycle of 2:" in text


def test_the_table_shows_a_process_that_is_null_as_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"P1": null}')
    assert run(["deadlock", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["P1", "runs"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{"])
def test_a_file_that_makes_no_sense_is_a_usage_error(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(content)
    assert run(["deadlock", str(path)]) == 64
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert run(["deadlock", str(tmp_path / "absent.json")]) == 64


def test_the_picture_marks_the_cycle(issue_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deadlock", issue_file, "-o", "svg"]) == 1
    picture = minidom.parseString(capsys.readouterr().out)  # noqa: S318 - our own picture
    boxes = {
        box.getElementsByTagName("title")[0].firstChild.data: box.getAttribute("stroke")  # type: ignore[union-attr]  # titles are text
        for box in picture.getElementsByTagName("rect")[1:]
    }
    red = {title.partition(":")[0] for title, stroke in boxes.items() if stroke == "#c81e1e"}
    assert red == {"P1", "P2"}
    assert set(boxes) == {"P1: deadlocked", "P2: deadlocked", "P3: deadlocked", "P4: runs"}


def test_dot_has_the_nodes_the_gates_and_the_marks(
    issue_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["deadlock", issue_file, "-o", "dot"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "digraph wait_for {"
    assert '  "gate of P1" -> "P2" [color="#c81e1e"];' in lines
    assert '  "gate of P1.0" -> "P4";' in lines
    assert '  "gate of P3" [shape=circle, style="", fontsize=9, label="2"];' in lines


def test_names_cannot_break_out_of_the_pictures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({'a"<b>&\\': 'a"<b>&\\'}))
    run(["deadlock", str(path), "-o", "svg"])
    minidom.parseString(capsys.readouterr().out)  # noqa: S318 - our own picture
    run(["deadlock", str(path), "-o", "dot"])
    assert r'"a\"<b>&\\" -> "a\"<b>&\\"' in capsys.readouterr().out
