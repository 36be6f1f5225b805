"""A scenario as a run to be played on: its commands, without what they caused."""

from __future__ import annotations

from coterie.lab.play.runs.address import RunAddress
from coterie.lab.play.runs.refusal import Refusal


def read_scenario(text: str) -> RunAddress:
    """Read a transcript. `show` changes nothing and is no move: an exported violation ends with it."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and line[0] not in " \t#"]
    if not lines:
        raise Refusal("it is empty: the first line of a scenario is an algorithm and a size")
    return RunAddress(lines[0], [line for line in lines[1:] if line != "show"])
