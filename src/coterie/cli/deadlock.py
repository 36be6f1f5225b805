"""`coterie deadlock`: which processes of a wait-for graph are deadlocked, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import click

from coterie.algorithms.deadlock.explanation import Explanation, describe, explain
from coterie.algorithms.deadlock.graph_file import parse_graph, write_graph
from coterie.cli.common.output import naming, print_json, print_table, say
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.algorithms.deadlock.wait_for import Graph


@click.command("deadlock")
@click.argument("file", type=click.File("rb"))
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "svg", "dot"]),
    default="table",
    show_default=True,
    help="How to print the result; svg and dot draw the graph.",
)
def command(file: BinaryIO, output: str) -> int:
    """Print which processes are deadlocked in the wait-for graph of FILE (- for stdin), and why.

    The graph is JSON, with a condition for each process that waits:

    \b
      {"P1": {"all": ["P2", {"any": ["P3", "P4"]}]}, "P2": {"any": ["P1"]},
       "P3": {"of": 2, "from": ["P1", "P2", "P4"]}}

    A process that is absent or null runs. {"held": ["P1"]} marks a resource and names its holders,
    and "since" beside a condition says when the wait began. Exits with 1 if there is a deadlock.
    """  # noqa: D301 - Click needs the character itself
    with naming(getattr(file, "name", "standard input"), "deadlock"):
        graph = parse_graph(_text(file))
    return show(graph, output, graph.deadlocked())


def show(graph: Graph[str], output: str, explained: Iterable[str]) -> int:
    """Print a graph and its deadlocks, and explain some; return 1 if there is a deadlock."""
    explanations = [explain(graph, node) for node in explained]
    match output:
        case "json":
            print_json(_facts(graph, explanations))
        case "svg" | "dot":
            click.echo(_picture(graph, output), nl=False)
        case _:
            _print(graph, explanations)
    return 1 if explanations else 0


def _text(file: BinaryIO) -> str:
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file.name} is not UTF-8 text: {error.reason}") from None


def _picture(graph: Graph[Any], output: str) -> str:
    from coterie.diagram.wait_for import dot, draw_wait_for  # noqa: PLC0415 - only when drawing

    return dot(graph) if output == "dot" else draw_wait_for(graph)


def _facts(graph: Graph[str], explanations: list[Explanation[str]]) -> dict[str, Any]:
    return {
        "deadlocked": graph.deadlocked(),
        "explanation": {
            explanation.node: {
                "kind": explanation.kind,
                "core": explanation.core,
                "members": explanation.members,
                "text": explanation.text,
            }
            for explanation in explanations
        },
        "cores": graph.cores(),
        "graph": write_graph(graph),
    }


def _print(graph: Graph[str], explanations: list[Explanation[str]]) -> None:
    stuck = set(graph.deadlocked())
    rows = [
        [
            node,
            "deadlocked" if node in stuck else "waits" if node in graph.waits else "runs",
            describe(graph, graph.waits[node]) if node in graph.waits else "",
            graph.since.get(node, ""),
        ]
        for node in graph.nodes()
    ]
    print_table(["process", "state", "waits for", "since"], rows)
    told: set[tuple[str, ...]] = set()
    for explanation in explanations:
        members = tuple(sorted(explanation.members))
        if members in told:  # all members of a cycle have the same explanation
            continue
        told.add(members)
        click.echo()
        say(f"{explanation.node} is deadlocked{_how(explanation)}:")
        for line in explanation.text:
            say(f"  {line}")
    if not explanations:
        click.echo("\nno deadlock")


def _how(explanation: Explanation[str]) -> str:
    kind = f"a {explanation.kind} of {len(explanation.core)}"
    return f" in {kind}" if explanation.node in explanation.core else f", waiting for {kind}"
