"""The rooms of the code: which imports which. docs/drawings/rooms.py draws them for CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "coterie"

HOUSES = ("algorithms", "cluster", "lab", "transactions")  # packages that have rooms of their own

# Which room imports which others when it runs. A new arrow is a decision, not an accident.
ROOMS = {
    "__main__": "cli",
    "algorithms.deadlock": "errors process",
    "algorithms.election": "catalogue clocks errors process",
    "algorithms.mutex": "catalogue clocks coteries errors process",
    "catalogue": "errors process",
    "cli": "algorithms.deadlock cluster cluster.admin cluster.change cluster.classic"
    " cluster.client cluster.membership cluster.runtime cluster.wire coterie"
    " dashboard diagram engines errors locks system testing",
    "cli.lab": "algorithms.deadlock catalogue cli cluster cluster.classic dashboard diagram errors lab.audit"
    " lab.charts lab.detect lab.explore lab.isolation lab.lock_audit lab.play lab.prove"
    " lab.scenario lab.serializability lab.simulate lab.sources lab.stack lab.trials lab.web locks process system"
    " trace transactions",
    "clocks": "errors process",
    "cluster": "catalogue cluster.admin cluster.change cluster.classic cluster.client"
    " cluster.membership cluster.runtime cluster.voter cluster.wire errors locks"
    " process system",
    "cluster.admin": "cluster.membership cluster.voter cluster.wire errors locks",
    "cluster.change": "algorithms.mutex cluster.membership cluster.runtime cluster.voter cluster.wire"
    " coteries errors locks system",
    "cluster.classic": "catalogue cluster.runtime cluster.wire errors locks process system trace",
    "cluster.client": "algorithms.mutex cluster.membership cluster.runtime cluster.wire errors locks"
    " system telemetry",
    "cluster.membership": "algorithms.mutex catalogue cluster.runtime cluster.wire coteries errors locks"
    " process",
    "cluster.runtime": "errors process system",
    "cluster.store": "cluster.membership cluster.runtime cluster.wire errors process system"
    " transactions transactions.schemes transactions.site transactions.store",
    "cluster.voter": "algorithms.mutex cluster.membership cluster.runtime cluster.wire errors locks"
    " system telemetry",
    "cluster.wire": "algorithms.mutex cluster.runtime errors locks system telemetry",
    "contrib": "errors locks sync",
    "coteries": "errors",
    "dashboard": "algorithms.deadlock diagram errors locks",
    "diagram": "trace",
    "engines": "algorithms.deadlock errors locks system",
    "lab": "diagram errors lab.play lab.web",
    "lab.audit": "engines errors lab.isolation lab.serializability locks system transactions",
    "lab.charts": "diagram errors",
    "lab.detect": "algorithms.deadlock catalogue errors lab.explore lab.simulate trace",
    "lab.explore": "clocks errors process trace",
    "lab.isolation": "lab.serializability",
    "lab.lock_audit": "diagram errors lab.servers sync system",
    "lab.play": "algorithms.deadlock catalogue coteries diagram errors lab.explore lab.prove"
    " lab.scenario lab.serializability lab.simulate lab.trials process trace transactions"
    " transactions.schemes",
    "lab.prove": "algorithms.election algorithms.mutex catalogue clocks diagram errors lab.explore"
    " lab.trials process"
    " transactions transactions.site",
    "lab.scenario": "catalogue errors process trace",
    "lab.serializability": "algorithms.deadlock errors lab.charts transactions",
    "lab.servers": "cluster.membership cluster.wire testing",
    "lab.simulate": "catalogue clocks errors lab.scenario process trace",
    "lab.sources": "errors",
    "lab.stack": "catalogue cluster cluster.admin cluster.change cluster.classic cluster.membership"
    " cluster.store cluster.wire errors lab.serializability lab.trials locks process"
    " system trace transactions transactions.store",
    "lab.trials": "clocks errors lab.serializability lab.simulate process transactions transactions.schemes"
    " transactions.site",
    "lab.web": "algorithms.deadlock catalogue dashboard diagram errors lab.play lab.scenario trace",
    "locks": "algorithms.deadlock errors system telemetry",
    "process": "errors",
    "sync": "errors locks system",
    "system": "errors",
    "telemetry": "errors system",
    "testing": "cluster cluster.membership errors locks sync system",
    "trace": "errors",
    "transactions": "errors",
    "transactions.schemes": "algorithms.deadlock clocks errors transactions",
    "transactions.site": "algorithms.deadlock clocks errors process transactions.schemes",
    "transactions.store": "clocks errors locks system transactions transactions.schemes",
}


def room_of(module: str) -> str:
    """Name the room of a module: the first level, and the second where a package has rooms."""
    parts = module.split(".")[1:]
    if parts[:2] == ["cli", "lab"]:
        return "cli.lab"
    if len(parts) > 1 and parts[0] in HOUSES and SOURCE.joinpath(*parts[:2]).is_dir():
        return ".".join(parts[:2])
    return parts[0] if parts else "coterie"
