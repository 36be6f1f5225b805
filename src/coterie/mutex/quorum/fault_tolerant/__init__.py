"""The coterie algorithm of 1996: as published, and repaired, finished and proven."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coterie.catalogue import Algorithm, Cost, Costs, Parameter, Setup, Variant, between, unknown
from coterie.coteries import UpdateTable, parse_coterie
from coterie.errors import ConfigError, UsageError
from coterie.mutex.quorum.costs import voting_costs
from coterie.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.mutex.quorum.fault_tolerant.published import Published
from coterie.mutex.quorum.fault_tolerant.settings import Settings

if TYPE_CHECKING:
    from coterie.coteries import Keep
    from coterie.mutex.quorum.costs import Quorums

VARIANTS: dict[str, type[FaultTolerant]] = {"repaired": FaultTolerant, "published": Published}
T_MAX_IN_T_D = 4  # the default of T_max; it only has to be longer than T_d
PATIENCE_IN_T_MAX = 8  # three answers double the time to the next question


def settings_of(setup: Setup) -> Settings:
    """Put a user's choices together, or raise `ConfigError` if they do not fit."""
    chosen = setup.parameters
    sigma, lambda_, t_max = chosen["sigma"], chosen["lambda"], chosen["t-max"]
    t_d = 2 * sigma + lambda_
    if t_max is None:
        t_max = T_MAX_IN_T_D * t_d
    if t_max <= t_d:
        raise ConfigError(
            f"T_max must be longer than T_d = 2 sigma + lambda = {t_d:g}, not {t_max:g}: an answer"
            " to one question could be taken for that to the next"
        )
    table: UpdateTable = chosen["table"]
    table.require(chosen["failures"])
    return Settings(
        quorums=tuple(tuple(sorted(quorum)) for quorum in chosen["coterie"].quorums),
        stand_ins=table.stand_ins,
        sigma=sigma,
        lambda_=lambda_,
        t_max=t_max,
        patience_max=t_max if setup.variant == "published" else PATIENCE_IN_T_MAX * t_max,
        keep=chosen["keep"],
    )


def _quorums(setup: Setup) -> Quorums:
    coterie = setup.parameters["coterie"]
    return {me: tuple(sorted(coterie.quorum_for(me))) for me in range(1, setup.size + 1)}


def _build(setup: Setup) -> list[FaultTolerant]:
    settings = settings_of(setup)
    process = VARIANTS[setup.variant]
    return [process(me, quorum, settings=settings) for me, quorum in _quorums(setup).items()]


_voting = voting_costs(_quorums, "K")


def _saturated(setup: Setup) -> Cost:
    low = _voting.saturated(setup).low
    return between(low, math.inf, "3(K - 1) to 6(K - 1), and 2 for each wait of T_max")


def _parse_time(text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 < time < math.inf:
        raise UsageError(f"expected a time greater than 0, not {text!r}")
    return time


def _parse_t_max(text: str) -> float | None:
    return None if text == "auto" else _parse_time(text)


def _parse_keep(text: str) -> Keep:
    directions: dict[str, Keep] = {"larger": "larger", "smaller": "smaller"}
    if text not in directions:
        raise UsageError(unknown("quorums to keep", text, directions))
    return directions[text]


def _parse_failures(text: str, size: int) -> int:
    if text == "auto":
        return size - 1
    if not text.isdecimal() or int(text) >= size:
        raise UsageError(f"of {size} processes 0 to {size - 1} may fail, or 'auto', not {text!r}")
    return int(text)


def _parse_table(text: str, size: int) -> UpdateTable:
    """Read a cycle, such as 1,2,5,3, or who replaces whom, such as 1>2,2>3,3>1."""
    everyone = range(1, size + 1)
    if text == "auto":
        return UpdateTable.cyclic(everyone)
    words = text.replace(">", ",").split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(
            f"expected a cycle of all processes, such as 1,2,3, or who replaces whom, such as"
            f" '1>2,2>3,3>1', not {text!r}"
        )
    numbers = [int(word) for word in words]
    if ">" in text:
        table = UpdateTable.of(dict(zip(numbers[::2], numbers[1::2], strict=True)))
    else:
        table = UpdateTable.cyclic(numbers)
    if table.members != tuple(everyone):
        raise ConfigError(f"the table {text!r} must name each of the processes 1 to {size} once")
    return table


def _parameter(name: str, default: str, summary: str, parse: Any) -> Parameter:
    return Parameter(name, default, summary, lambda text, _: parse(text))


ALGORITHM = Algorithm(
    name="fault-tolerant",
    family="quorum",
    summary="lock a quorum; if a member crashes another stands in for it",
    citation=(
        "An algorithm for mutual exclusion in which coteries are updated at run time, for any"
        " number of faulty processes. RIMS Kokyuroku 950, 1996, pages 101-105 (in Japanese);"
        " repaired, and extended by the return of crashed processes."
    ),
    process=FaultTolerant,
    build=_build,
    costs=Costs(
        idle=_voting.idle,
        again=_voting.again,
        saturated=_saturated,
        client_delay=_voting.client_delay,
        synchronisation_delay=_voting.synchronisation_delay,
    ),
    assumes=("reliable links", "messages take sigma at most, answers lambda"),
    bears=("crash", "recovery without memory"),
    causal=False,
    variants=(
        Variant("repaired", "whoever is inside when a quorum changes says so, and others wait"),
        Variant("published", "as printed: whoever is inside is forgotten", sound=False),
    ),
    parameters=(
        Parameter(
            "coterie", "plane", "the quorums, such as plane, grid or majority", parse_coterie
        ),
        _parameter("sigma", "2", "the longest time that a message takes", _parse_time),
        _parameter("lambda", "1", "the longest time until a message is answered", _parse_time),
        _parameter(
            "t-max",
            "auto",
            "T_max, how long to wait before asking who is down; auto: 4 T_d",
            _parse_t_max,
        ),
        _parameter("keep", "larger", "which of two nested quorums: larger or smaller", _parse_keep),
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
    ),
)
