"""All costs of one algorithm beside those of theory: as rows, and as a table in a notebook."""

from __future__ import annotations

import html
from abc import abstractmethod
from typing import Any

import msgspec

from coterie.lab.simulate.compare.theory import Measure
from coterie.lab.simulate.interval import Interval


class BesideTheory(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one algorithm with one number of processes, beside the formulas."""

    algorithm: str
    variant: str
    processes: int

    @property
    @abstractmethod
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured, and under which workload if one was chosen."""
        return {"seeds": 1, "workload": None}

    @property
    def judged(self) -> bool:
        """Whether theory speaks of the conditions that something was measured under."""
        return any(cost.judged for cost in self.costs.values() if cost)

    @property
    def agrees(self) -> bool:
        """Whether everything measured and judged is what theory says."""
        return all(cost.agrees for cost in self.costs.values() if cost and cost.judged)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat row per cost, as a data frame takes them."""
        about = {
            "algorithm": self.algorithm,
            "variant": self.variant,
            "processes": self.processes,
            **self.extent,
        }
        return [
            {**about, "cost": name, **cost.to_dict()}
            for name, cost in self.costs.items()
            if cost is not None
        ]


class Comparison(BesideTheory, frozen=True, kw_only=True):
    """All costs of one mutex with one number of processes."""

    seeds: int
    idle: Measure  # messages per entry, one requester at a time; they take turns
    again: Measure  # messages per entry when the same process enters again
    saturated: Measure  # messages per entry, everyone always wants in
    client_delay: Measure  # the longest seen; a mean under other conditions than theory assumes
    synchronisation_delay: Measure | None  # likewise; None without a second requester
    messages_by_kind: dict[str, int]  # of the saturated run of the first seed
    waiting_mean: float  # in the saturated run

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured."""
        return {"seeds": self.seeds, "workload": None}

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages_idle": self.idle,
            "messages_again": self.again,
            "messages_saturated": self.saturated,
            "client_delay": self.client_delay,
            "synchronisation_delay": self.synchronisation_delay,
        }

    def _repr_html_(self) -> str:
        """List the costs beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes",
            {
                "messages per entry, one at a time": self.idle,
                "messages per entry, the same again": self.again,
                "messages per entry, saturated": self.saturated,
                "client delay": self.client_delay,
                "synchronisation delay": self.synchronisation_delay,
            },
        )


class LoadComparison(BesideTheory, frozen=True, kw_only=True):
    """What one mutex costs under a workload, in means over seeds, beside the formulas."""

    seeds: int
    workload: str
    messages: Measure  # per entry
    client_delay: Measure | None  # None if no request was made while the section was free
    synchronisation_delay: Measure | None  # None if no request was waiting when a process left
    waiting: Interval | None  # request to entry
    waiting_p99: Interval | None
    jain: Interval | None  # fairness: 1 if all entered equally often
    load_max: Interval | None  # messages sent and received by the busiest process

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured, and under which workload."""
        return {"seeds": self.seeds, "workload": self.workload}

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages": self.messages,
            "client_delay": self.client_delay,
            "synchronisation_delay": self.synchronisation_delay,
        }

    def _repr_html_(self) -> str:
        """List the costs beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes, {self.workload}",
            {
                "messages per entry": self.messages,
                "client delay": self.client_delay,
                "synchronisation delay": self.synchronisation_delay,
            },
        )


class ElectionComparison(BesideTheory, frozen=True, kw_only=True):
    """The messages of one election algorithm with one number of processes, the highest having crashed."""

    best: Measure  # when one process notices: the fewest, over all that may
    worst: Measure  # ... the most
    together: Measure  # when all processes notice at once

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages_best": self.best,
            "messages_worst": self.worst,
            "messages_together": self.together,
        }

    def _repr_html_(self) -> str:
        """List the messages beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes",
            {
                "messages, at least": self.best,
                "messages, at most": self.worst,
                "messages, all notice": self.together,
            },
        )


def _table(title: str, measures: dict[str, Measure | None]) -> str:
    rows = [
        f"<tr><td>{name}</td><td>{_shown(found)}</td><td>{html.escape(found.formula)}</td>"
        f"<td>{('yes' if found.agrees else 'no') if found.judged else '-'}</td></tr>"
        for name, found in measures.items()
        if found is not None
    ]
    head = "<tr><th>cost</th><th>measured</th><th>theory</th><th>agrees</th></tr>"
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _shown(measure: Measure) -> str:
    spread = "" if measure.half_width is None else f" ± {measure.half_width:.2g}"
    return f"{measure.measured:g}{spread}"
