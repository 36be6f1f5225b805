"""The run as a whole: one seed decides everything, and the short ways lead to the same place."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.errors import ConfigError, MisuseError, UsageError
from coterie.lab.scenario.replay import replay
from coterie.lab.simulate import (
    Closed,
    Constant,
    Exponential,
    LogNormal,
    Matrix,
    Network,
    OneAtATime,
    Result,
    Simulation,
    Uniform,
)
from coterie.lab.simulate.outbox import GroupOutbox
from coterie.process import Outbox
from coterie.trace import Header
from tests.harness import build
from tests.lab.simulate.toys import Note, Postman, Server

if TYPE_CHECKING:
    from coterie.lab.simulate import Latency

PROGRAM = """
import sys
from coterie.catalogue import find
from coterie.lab.simulate import Closed, Exponential, Network, Simulation, random_faults
from coterie.trace import Header

entry = find("maekawa")
result = Simulation(
    entry.build(entry.setup(7)),
    workload=Closed(5, hold=Exponential(1)),
    network=Network(Exponential(1)),
    faults=random_faults(1, 7, duration=40, pauses=3, partitions=0, drift=0.1),
    seed=int(sys.argv[1]),
    header=Header(algorithm="maekawa", size=7),
    max_time=2000,
).run()
sys.stdout.write(repr(result.violations) + result.trace.to_lines())
"""


def output(seed: int, hash_seed: str) -> bytes:
    command = [sys.executable, "-c", PROGRAM, str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    first, again, other = output(3, "0"), output(3, "4711"), output(4, "0")
    assert first.count(b"\n") > 100
    assert first == again
    assert first != other


LATENCIES = [
    Constant(1),
    Uniform(0.5, 1.5),
    Exponential(1),
    LogNormal(1, 1),
    Matrix([[1, 4], [5, 2]]),
]


@pytest.mark.parametrize("latency", LATENCIES, ids=lambda latency: type(latency).__name__)
@pytest.mark.parametrize("name", ["ricart-agrawala", "maekawa", "suzuki-kasami"])
def test_looking_on_changes_nothing(name: str, latency: Latency) -> None:
    """With a trace each message goes the long way, alone; the result is that of the short way."""

    def run(**watch: Any) -> Result:
        workload = Closed(4, hold=Uniform(0, 2))
        network = Network(latency)
        return Simulation(build(name, 7), workload=workload, network=network, seed=5, **watch).run()

    bare = run()
    watched = run(header=Header(algorithm=name, size=7), order="count", measure_bytes=True)
    assert watched.trace is not None
    assert bare.violations == []
    assert bare.entries == 28
    events = watched.events  # a message to many is many of them on the long way
    assert events >= bare.events
    seen = {"trace": None, "overtakings": None, "bytes": None, "events": bare.events}
    assert msgspec.structs.replace(watched, **seen) == bare
    replay(watched.trace)
    weighed = run(measure_bytes=True)
    assert weighed.bytes == watched.bytes
    assert msgspec.structs.replace(weighed, bytes=None) == bare


def test_a_simulation_runs_once() -> None:
    simulation = Simulation([Postman(1)])
    simulation.run()
    with pytest.raises(MisuseError, match="runs once"):
        simulation.run()


def test_processes_are_numbered_in_order() -> None:
    for processes in ([], [Postman(2)], [Postman(2), Postman(1)]):
        with pytest.raises(ConfigError, match="1 to N in order"):
            Simulation(processes)


@pytest.mark.parametrize("limit", ["until", "max_time", "max_events"])
def test_a_limit_is_greater_than_nothing(limit: str) -> None:
    options: dict[str, Any] = {limit: 0}
    with pytest.raises(UsageError, match=f"{limit} must be greater than 0, got 0"):
        Simulation([Postman(1)], **options)


def test_the_run_ends_when_the_workload_is_over_and_all_is_quiet() -> None:
    result = Simulation([Server(1), Server(2)], workload=OneAtATime(2, [2], hold=4)).run()
    assert (result.stopped, result.time, result.messages) == ("done", 14, 6)


def test_the_outbox_of_the_simulator_wishes_what_the_plain_one_does() -> None:
    plain, grouped = Outbox[Note](2), GroupOutbox()
    grouped.me = 2
    for out in (plain, grouped):
        assert isinstance(out, Outbox)
        out.send(3, Note(1))
        out.send(2, Note(2))
        out.broadcast({4, 1, 3}, Note(3))
        out.broadcast([3, 2, 1], Note(4))
        out.broadcast([2], Note(5))
        out.set_timer("A", 1)
        out.cancel_timer("A")
    assert [(to, message) for group, message in grouped.groups for to in group] == plain.sends
    assert (grouped.local, grouped.timers) == (plain.local, plain.timers)
