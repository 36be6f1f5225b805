"""Wait-for graphs as JSON, for people and programs to write.

    {"P1": {"all": ["P2", {"any": ["P3", "P4"]}], "since": "10:31"},
     "P2": "A",
     "A": {"held": ["P1"]},
     "P3": {"of": 2, "from": ["P1", "P2", "P4"]}}

A process that is absent or null runs; one that is null is shown, too. `held` names the holders of a resource.
"""

from __future__ import annotations

import json
from typing import Any

from coterie.algorithms.deadlock.condition import Condition, all_of, some_of
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.errors import UsageError

SHAPES = '"NAME", {"all": [...]}, {"any": [...]} or {"of": k, "from": [...]}'


def parse_graph(text: str) -> Graph[str]:
    """Read a graph, or say what is wrong with it and where."""
    try:
        content = json.loads(text, object_pairs_hook=_Members)
        return _graph(content)
    except json.JSONDecodeError as error:
        raise UsageError(f"not JSON: line {error.lineno}: {error.msg}") from None
    except ValueError:  # of `int`
        raise UsageError("a number has too many digits") from None
    except RecursionError:
        raise UsageError("conditions are nested too deep") from None


class _Members(dict[str, Any]):
    """The members of a JSON object, which must not overwrite each other."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{twice!r} stands twice in the same object")


def _graph(content: Any) -> Graph[str]:
    if not isinstance(content, dict):
        raise UsageError(f"expected an object of processes, got {_brief(content)}")
    waits, since, resources, running = {}, {}, set(), []
    for name, value in content.items():
        if not name:
            raise UsageError("a process has an empty name")
        if value is None:
            running.append(name)
            continue
        condition = value
        if isinstance(value, dict):
            condition = dict(value)
            if "since" in condition:
                since[name] = _since(f"{name}.since", condition.pop("since"))
        if isinstance(condition, dict) and set(condition) == {"held"}:
            resources.add(name)
            condition = {"all": condition["held"]}
        waits[name] = _condition(name, condition)
    return Graph(waits, since, frozenset(resources), tuple(running))


def write_graph(graph: Graph[str]) -> dict[str, Any]:
    """Return what `parse_graph` reads, ready to be written as JSON."""
    content: dict[str, Any] = {}
    for name, condition in graph.waits.items():
        if name in graph.resources:
            content[name] = {"held": list(condition.targets())}
            continue
        written = _written(condition)
        content[name] = written if isinstance(written, dict) else {"all": [written]}
        if name in graph.since:
            content[name]["since"] = graph.since[name]
    return content | dict.fromkeys(graph.running)


def _written(condition: Condition[str]) -> str | dict[str, Any]:
    parts = [*condition.nodes, *map(_written, condition.groups)]
    if len(parts) == 1:
        return parts[0]
    if condition.quantity in ("all", "any"):
        return {condition.quantity: parts}
    return {"of": condition.needed, "from": parts}


def _condition(place: str, value: Any) -> Condition[str]:
    part = _part(place, value)
    return part if isinstance(part, Condition) else all_of(part)


def _part(place: str, value: Any) -> str | Condition[str]:
    if isinstance(value, str) and value:
        return value
    keys = set(value) if isinstance(value, dict) else set()
    if keys == {"all"}:
        parts = _parts(f"{place}.all", value["all"])
        return all_of(*parts)
    if keys == {"any"}:
        return some_of(1, *_parts(f"{place}.any", value["any"]))
    if keys == {"of", "from"}:
        parts = _parts(f"{place}.from", value["from"])
        return some_of(_needed(f"{place}.of", value["of"], len(parts)), *parts)
    raise UsageError(f"{place}: expected {SHAPES}, got {_brief(value)}")


def _parts(place: str, value: Any) -> list[str | Condition[str]]:
    if not isinstance(value, list) or not value:
        raise UsageError(f"{place}: expected a list of at least one, got {_brief(value)}")
    parts = [_part(f"{place}[{index}]", item) for index, item in enumerate(value)]
    for index, part in enumerate(parts):
        if isinstance(part, str) and part in parts[:index]:
            raise UsageError(f"{place}: {part} is named twice")
    return parts


def _needed(place: str, value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise UsageError(f"{place}: expected a number from 1 to {most}, got {_brief(value)}")
    return value


def _since(place: str, value: Any) -> str:
    if type(value) not in (int, float, str):
        raise UsageError(f"{place}: expected a time as number or text, got {_brief(value)}")
    return str(value)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
