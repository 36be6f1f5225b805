"""What a user may choose, and whether it fits together."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.fault_tolerant.settings import Settings
from coterie.catalogue import Parameter, Setup, unknown
from coterie.coteries import UpdateTable, parse_coterie
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from coterie.coteries import Keep

T_MAX_IN_T_D = 4  # the default of T_max; it only has to be longer than T_d
LIMIT_IN_T_MAX = 8  # so that three answers double the time to the next question


def settings_of(setup: Setup) -> Settings:
    """Put a user's choices together, or raise `ConfigError` if they do not fit."""
    chosen = setup.parameters
    sigma, lambda_, t_max = chosen["sigma"], chosen["lambda"], chosen["t-max"]
    t_d = 2 * sigma + lambda_
    t_max = t_max or T_MAX_IN_T_D * t_d
    if t_max <= t_d:
        raise ConfigError(
            f"T_max must be longer than T_d = 2 sigma + lambda = {t_d:g}, got {t_max:g}: an answer"
            " to one question could be taken for that to the next"
        )
    limit = chosen["t-limit"] or LIMIT_IN_T_MAX * t_max
    if limit < t_max:
        raise ConfigError(f"the limit of T_max must be at least T_max = {t_max:g}, got {limit:g}")
    table: UpdateTable = chosen["table"]
    table.require(chosen["failures"])
    return Settings(
        quorums=tuple(tuple(sorted(quorum)) for quorum in chosen["coterie"].quorums),
        stand_ins=table.stand_ins,
        sigma=sigma,
        lambda_=lambda_,
        t_max=t_max,
        patience_max=t_max if setup.variant == "published" else limit,
        keep=chosen["keep"],
    )


def _parse_time(name: str, text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 < time < math.inf:
        raise UsageError(f"{name} must be a time greater than 0, got {text!r}")
    return time


def _time(name: str, default: str, summary: str) -> Parameter:
    return Parameter(name, default, summary, lambda text, _: _parse_time(name, text))


def _wait(name: str, summary: str) -> Parameter:
    def parse(text: str, _: int) -> float | None:
        return None if text == "auto" else _parse_time(name, text)

    return Parameter(name, "auto", summary, parse)


def _parse_keep(text: str) -> Keep:
    directions: dict[str, Keep] = {"larger": "larger", "smaller": "smaller"}
    if text not in directions:
        raise UsageError(unknown("quorums to keep", text, directions))
    return directions[text]


def _parse_failures(text: str, size: int) -> int:
    if text == "auto":
        return size - 1
    if not text.isdecimal() or int(text) >= size:
        raise UsageError(f"of {size} processes 0 to {size - 1} may fail, or 'auto', got {text!r}")
    return int(text)


def _parse_table(text: str, size: int) -> UpdateTable:
    """Read a cycle, such as 1,2,5,3, or pairs of a process and its stand-in, such as 1>2,2>3,3>1."""
    everyone = range(1, size + 1)
    if text == "auto":
        return UpdateTable.cyclic(everyone)
    pairs = re.findall(r"(\d+)>(\d+)", text)
    if re.fullmatch(r"\d+(,\d+)*", text):
        table = UpdateTable.cyclic([int(word) for word in text.split(",")])
    elif pairs and text == ",".join(map(">".join, pairs)):
        table = UpdateTable.of({int(failed): int(by) for failed, by in pairs})
    else:
        raise UsageError(
            f"expected a cycle of all processes, such as 1,2,3, or who replaces whom, such as"
            f" '1>2,2>3,3>1', got {text!r}"
        )
    if table.members != tuple(everyone):
        raise ConfigError(f"the table {text!r} must name each of the processes 1 to {size} once")
    return table


PARAMETERS = (
    Parameter("coterie", "plane", "the quorums, such as plane, grid or majority", parse_coterie),
    _time("sigma", "2", "the longest time that a message takes"),
    _time("lambda", "1", "the longest time until a message is answered"),
    _wait("t-max", "T_max, how long to wait before asking who is down; auto: 4 T_d"),
    _wait("t-limit", "what T_max is doubled up to while answers come; auto: 8 T_max"),
    Parameter(
        "keep",
        "larger",
        "which of two nested quorums an update keeps: larger or smaller",
        lambda text, _: _parse_keep(text),
    ),
    Parameter(
        "table",
        "auto",
        "who stands in for whom: a cycle such as 1,2,5,3,7,6,4, or pairs such as 1>2,2>3,3>1",
        _parse_table,
    ),
    Parameter(
        "failures",
        "auto",
        "how many may be down at once, which the table must bear; auto: all but one",
        _parse_failures,
    ),
)
