"""`coterie algorithms`: the catalogue."""

from __future__ import annotations

from typing import Any

import click

from coterie.catalogue import Algorithm, Cost, algorithms
from coterie.cli.output import output_option, print_json, print_table

EXAMPLE_SIZE = 13


@click.command("algorithms")
@output_option
def command(output: str) -> None:
    """List the algorithms: family, costs, assumptions, faults borne, source."""
    known = list(algorithms().values())
    if output == "json":
        print_json([_facts(algorithm) for algorithm in known])
        return
    header = ["algorithm", "family", "messages", "client", "sync", "links", "ordered", "bears"]
    print_table(header, [_row(algorithm) for algorithm in known])
    click.echo(
        "\nmessages: per entry, one requester at a time; client and sync: delays in message times;"
        "\nordered: requests are served in happened-before order; bears: faults that do no harm."
    )


def _row(algorithm: Algorithm) -> list[str]:
    setup = algorithm.setup(EXAMPLE_SIZE)
    costs = algorithm.costs
    return [
        algorithm.name,
        algorithm.family,
        costs.idle(setup).formula,
        costs.client_delay(setup).formula,
        costs.synchronisation_delay(setup).formula,
        algorithm.channel.value,
        "yes" if algorithm.causal else "no",
        ", ".join(algorithm.bears) or "nothing",
    ]


def _facts(algorithm: Algorithm) -> dict[str, Any]:
    setup = algorithm.setup(EXAMPLE_SIZE)
    costs = algorithm.costs
    return {
        "name": algorithm.name,
        "family": algorithm.family,
        "summary": algorithm.summary,
        "citation": algorithm.citation,
        "channel": algorithm.channel.value,
        "assumes": algorithm.assumes,
        "bears": algorithm.bears,
        "causal": algorithm.causal,
        "variants": [
            {"name": variant.name, "summary": variant.summary, "sound": variant.sound}
            for variant in algorithm.variants
        ],
        "parameters": {
            parameter.name: {"default": parameter.default, "summary": parameter.summary}
            for parameter in algorithm.parameters
        },
        "costs": {
            "example_processes": EXAMPLE_SIZE,
            "idle": _cost(costs.idle(setup)),
            "again": _cost(costs.again(setup)),
            "saturated": _cost(costs.saturated(setup)),
            "client_delay": _cost(costs.client_delay(setup)),
            "synchronisation_delay": _cost(costs.synchronisation_delay(setup)),
        },
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {"formula": cost.formula, "value": cost.value()}
