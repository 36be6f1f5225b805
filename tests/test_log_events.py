"""Each line of the log has the name of an event, and the page about logs explains exactly these."""

from __future__ import annotations

import ast
import json
import logging
import re
from collections import defaultdict
from pathlib import Path

import pytest

from coterie.cluster.runtime.logs import make_formatter

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "logs.md"
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
    "log": "info",  # debug for callers that only ask
}


def calls() -> list[tuple[str, ast.Call, str]]:
    """Find all calls that log: where they are, and by which method."""
    found = []
    for path in sorted((ROOT / "src" / "coterie").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            of = ast.unparse(node.func.value)
            if (
                re.search(r"(^|[._])log(ger|ging)?$", of, re.IGNORECASE)
                and node.func.attr in LEVELS
            ):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.append((place, node, node.func.attr))
    return found


def event_of(call: ast.Call) -> str:
    """Return the event that a call names literally; empty if it names none."""
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                named = isinstance(key, ast.Constant) and key.value == "event"
                if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return value.value
    return ""


def test_each_call_names_its_event() -> None:
    found = calls()
    assert len(found) > 50, "the calls are recognised"
    nameless = [
        place for place, call, _ in found if not re.fullmatch(r"[a-z]+(-[a-z]+)*", event_of(call))
    ]
    assert not nameless


def test_the_page_explains_exactly_these() -> None:
    logged = defaultdict(set)
    for _, call, method in calls():
        logged[event_of(call)].add(LEVELS[method])
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (\w+) \| [^|]+ \| [^|]+ \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    explained = [event for event, _ in rows]
    assert len(explained) == len(set(explained)), "an event has one row"
    assert {event: {level} for event, level in rows} == logged


def test_nodes_name_the_values_in_their_messages() -> None:
    """JSON has each of them as a field, beside those that every line has."""
    ours = [
        (place, call, method)
        for place, call, method in calls()
        if re.match(r"src/coterie/(cluster/|cli/serve)", place)
    ]
    assert len(ours) > 40, "the calls are recognised"
    for place, call, method in ours:
        text, *values = call.args[1:] if method == "log" else call.args
        assert len(values) == 1, f"{place}: one dictionary"
        assert isinstance(values[0], ast.Dict), place
        names = [key.value for key in values[0].keys if isinstance(key, ast.Constant)]
        assert set(names) == set(re.findall(r"%\((\w+)\)", ast.literal_eval(text))), place
        assert not {"time", "level", "logger", "message", "event", "error"} & set(names), place


def test_json_has_the_values_as_fields() -> None:
    values = {"peer": "a", "number": 7, "reason": OSError("gone")}
    text = "link to %(peer)s by %(number)d: %(reason)s"
    record = logging.makeLogRecord({"msg": text, "args": values, "event": "link-down"})
    written = json.loads(make_formatter("json").format(record))
    assert written["message"] == "link to a by 7: gone"
    assert (written["peer"], written["number"], written["reason"]) == ("a", 7, "gone")
    assert make_formatter("text").format(record).endswith(" link to a by 7: gone [link-down]")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_node_writes_the_event_and_bears_records_without_one(form: str) -> None:
    formatter = make_formatter(form)
    ours = logging.makeLogRecord({"msg": "link to %s is up", "args": ("a",), "event": "link-up"})
    foreign = logging.makeLogRecord({"msg": "hello"})
    if form == "text":
        assert formatter.format(ours).endswith(" link to a is up [link-up]")
        assert formatter.format(foreign).endswith(" hello [-]")
    else:
        assert json.loads(formatter.format(ours))["event"] == "link-up"
        assert "event" not in json.loads(formatter.format(foreign))
