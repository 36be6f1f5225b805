"""`coterie algorithms`: the catalogue."""

from __future__ import annotations

from typing import Any

import click

from coterie.catalogue import Algorithm, Cost, Costs, ElectionCosts, every_algorithm
from coterie.catalogue.loader import installed, load_installed
from coterie.cli.common.output import output_option, print_json, print_table
from coterie.errors import UsageError

EXAMPLE_SIZE = 13


@click.command("algorithms")
@output_option
def command(output: str) -> None:
    """List the algorithms: family, costs, assumptions, tolerated faults; with JSON also sources.

    Those of installed packages, in the entry-point group coterie.algorithms, come after ours.
    """
    known = list(every_algorithm().values())
    for point in installed().values():
        try:
            load_installed(point)
        except UsageError as error:
            click.echo(f"coterie: {error}", err=True)
    if output == "json":
        print_json([_facts(algorithm) for algorithm in known])
        return
    header = ["algorithm", "family", "messages", "client", "sync", "links", "ordered", "tolerates"]
    print_table(header, [_row(algorithm) for algorithm in known])
    click.echo(
        "\nmessages: per entry, one requester at a time, or per election, from best to worst;"
        "\nclient and sync: delays in message times; ordered: requests are served in the"
        "\nhappened-before order of the algorithm's own messages; tolerates: faults that do no harm."
    )


def _row(algorithm: Algorithm) -> list[str]:
    return [
        algorithm.name,
        algorithm.family,
        *_summary(algorithm),
        ", ".join(algorithm.tolerates) or ("-" if _states_nothing(algorithm) else "nothing"),
    ]


def _states_nothing(algorithm: Algorithm) -> bool:
    """Return whether this is a class of a user's own, which says nothing of its costs and faults."""
    return algorithm.own and not any(cost.formula for cost in _costs(algorithm).values())


def _summary(algorithm: Algorithm) -> list[str]:
    """Return messages, client delay, synchronisation delay, links and order."""
    setup, links = algorithm.setup(EXAMPLE_SIZE), algorithm.channel.value
    if _states_nothing(algorithm):
        return ["-", "-", "-", links, "-"]
    match algorithm.costs:
        case Costs() as costs:
            return [
                _messages(costs.idle(setup)),
                costs.client_delay(setup).formula,
                costs.synchronisation_delay(setup).formula,
                links,
                "yes" if algorithm.keeps_order(algorithm.variants[0].name) else "no",
            ]
        case ElectionCosts() as costs:
            ends = dict.fromkeys([costs.best(setup).formula, costs.worst(setup).formula])
            return [" to ".join(ends), "-", "-", links, "-"]


def _messages(cost: Cost) -> str:
    """Name a range with its mean over random requesters, where theory knows it."""
    if cost.mean is None or cost.low == cost.high:
        return cost.formula
    return f"{cost.formula}, mean {cost.mean.formula}"


def _facts(algorithm: Algorithm) -> dict[str, Any]:
    return {
        "name": algorithm.name,
        "family": algorithm.family,
        "summary": algorithm.summary,
        "citation": algorithm.citation,
        "channel": algorithm.channel.value,
        "assumes": algorithm.assumes,
        "tolerates": algorithm.tolerates,
        "causal": algorithm.causal,
        "variants": [
            {
                "name": variant.name,
                "summary": variant.summary,
                "sound": variant.sound,
                "tolerates": algorithm.faults_tolerated(variant.name),
                "causal": algorithm.keeps_order(variant.name),
            }
            for variant in algorithm.variants
        ],
        "parameters": {
            parameter.name: {"default": parameter.default, "summary": parameter.summary}
            for parameter in algorithm.parameters
        },
        "costs": {
            "example_processes": EXAMPLE_SIZE,
            **{name: _cost(cost) for name, cost in _costs(algorithm).items()},
        },
    }


def _costs(algorithm: Algorithm) -> dict[str, Cost]:
    setup = algorithm.setup(EXAMPLE_SIZE)
    return {
        name: getattr(algorithm.costs, name)(setup) for name in algorithm.costs.__struct_fields__
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {"formula": cost.formula, "value": cost.value()}
