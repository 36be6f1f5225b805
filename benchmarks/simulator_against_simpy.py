"""Messages per CPU second: our simulator against the same model written on SimPy.

The model is Ricart-Agrawala with everyone always wanting in. On SimPy it is written twice: with a
timeout and a callback per message, which is the fastest way there, and with a process per message
and a store per node, which is the usual one. The SimPy models count messages and entries and
nothing else; ours runs with its metrics, its monitors and its readiness for faults. Two rows add
what SimPy has not: the trace of all messages, and the monitor of causal order.

    python benchmarks/simulator_against_simpy.py [REPETITIONS]

The runs of a row are interleaved, and what is compared is the median of the ratios of each
repetition. A thousand processes are run once: a million messages are under way at the same time.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import simpy

from coterie import catalogue
from coterie.lab.simulate import Closed, Constant, Network, Simulation, Uniform
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@dataclass(frozen=True, slots=True)
class Request:
    stamp: tuple[int, int]


class Reply:
    __slots__ = ()


class Node(ABC):
    """A node of the model on SimPy, without the way its messages travel."""

    def __init__(
        self, env: simpy.Environment, me: int, size: int, entries: int, delay: Callable[[], float]
    ) -> None:
        self.env = env
        self.me = me
        self.size = size
        self.left = entries
        self.delay = delay
        self.highest = 0
        self.stamp: tuple[int, int] | None = None
        self.awaiting: set[int] = set()
        self.deferred: set[int] = set()
        self.messages = 0
        self.entries = 0

    @abstractmethod
    def send(self, to: int, message: Request | Reply) -> None: ...

    def acquire(self) -> None:
        self.highest += 1
        self.stamp = (self.highest, self.me)
        self.awaiting = set(range(1, self.size + 1)) - {self.me}
        request = Request(self.stamp)
        for peer in sorted(self.awaiting):
            self.send(peer, request)

    def receive(self, sender: int, message: Request | Reply) -> None:
        if isinstance(message, Request):
            stamp = message.stamp
            if stamp[0] > self.highest:
                self.highest = stamp[0]
            if self.stamp is not None and self.stamp < stamp:
                self.deferred.add(sender)
            else:
                self.send(sender, Reply())
        else:
            self.awaiting.remove(sender)
            if not self.awaiting:
                self.entries += 1
                self.env.timeout(0).callbacks.append(self.release)

    def release(self, _: simpy.Event) -> None:
        self.stamp = None
        deferred, self.deferred = sorted(self.deferred), set()
        for peer in deferred:
            self.send(peer, Reply())
        self.left -= 1
        if self.left:
            self.acquire()


class CallbackNode(Node):
    """Each message is a timeout with a callback."""

    nodes: list[CallbackNode]

    def send(self, to: int, message: Request | Reply) -> None:
        self.messages += 1
        callbacks = self.env.timeout(self.delay(), (self.me, to, message)).callbacks
        callbacks.append(self.arrive)

    def arrive(self, event: Any) -> None:
        sender, to, message = event.value
        self.nodes[to - 1].receive(sender, message)

    def begin(self) -> None:
        self.acquire()


class StoreNode(Node):
    """Each message is a process that puts it into the store from which its receiver is fed."""

    nodes: list[StoreNode]
    inbox: simpy.Store

    def send(self, to: int, message: Request | Reply) -> None:
        self.messages += 1
        self.env.process(self.carry(to, message))

    def carry(self, to: int, message: Request | Reply) -> Generator[simpy.Event, Any, None]:
        yield self.env.timeout(self.delay())
        self.nodes[to - 1].inbox.put((self.me, message))

    def serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            sender, message = yield self.inbox.get()
            self.receive(sender, message)

    def begin(self) -> None:
        self.inbox = simpy.Store(self.env)
        self.env.process(self.serve())
        self.acquire()


def on_simpy(
    kind: type[CallbackNode | StoreNode], size: int, entries: int, spread: float
) -> tuple[int, float]:
    """Run the SimPy model; give its messages and CPU seconds."""
    env = simpy.Environment()
    draw = Random(0).random
    low = 1 - spread / 2
    delay = (lambda: low + spread * draw()) if spread else (lambda: 1.0)
    nodes: Any = [kind(env, me, size, entries, delay) for me in range(1, size + 1)]
    started = process_time()
    for node in nodes:
        node.nodes = nodes
        node.begin()
    env.run()
    seconds = process_time() - started
    assert all(node.entries == entries for node in nodes)
    return sum(node.messages for node in nodes), seconds


@dataclass(frozen=True)
class Row:
    """What is run: so many processes and entries of each, and how messages travel."""

    size: int
    entries: int
    spread: float = 0.0  # of uniform delays around 1; 0: constant
    extra: str = ""
    stores: bool = True  # also the slow way of SimPy
    once: bool = False

    def __str__(self) -> str:
        latency = f"uniform, 1 ± {self.spread / 2}" if self.spread else "constant"
        extra = f", {self.extra}" if self.extra else ""
        return f"N = {self.size:,}, {self.entries} entries each, latency {latency}{extra}"


ROWS = (
    Row(10, 100, 1.0),
    Row(100, 10, 1.0),
    Row(1_000, 1, 1.0, stores=False, once=True),
    Row(10, 100),
    Row(100, 10),
    Row(100, 10, extra="trace on", stores=False),
    Row(100, 10, extra="order monitor on", stores=False),
)


def on_coterie(row: Row) -> tuple[int, float]:
    """Run our model; give its messages and CPU seconds."""
    algorithm = catalogue.find("ricart-agrawala")
    spread = row.spread
    simulation = Simulation(
        algorithm.build(algorithm.setup(row.size)),
        workload=Closed(row.entries),
        network=Network(Uniform(1 - spread / 2, 1 + spread / 2) if spread else Constant(1.0)),
        header=Header(algorithm=algorithm.name, size=row.size) if "trace" in row.extra else None,
        order="count" if "order" in row.extra else "ignore",
    )
    started = process_time()
    result = simulation.run()
    seconds = process_time() - started
    assert result.stopped == "done"
    assert result.entries == row.size * row.entries
    return result.messages, seconds


def compare(row: Row, repetitions: int) -> None:
    """Run both sides in turn and print how they compare."""
    model = row.size, row.entries, row.spread
    runs: dict[str, Callable[[], tuple[int, float]]] = {
        "SimPy, timeout and callback": lambda: on_simpy(CallbackNode, *model),
        "coterie": lambda: on_coterie(row),
    }
    if row.stores:
        runs["SimPy, process and store"] = lambda: on_simpy(StoreNode, *model)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 if row.once else repetitions):
        for name, run in runs.items():
            messages, seconds = run()
            rates[name].append(messages / seconds)
    print(row)
    for name, measured in rates.items():
        ours = zip(rates["coterie"], measured, strict=True)
        ratio = median(our / theirs for our, theirs in ours)
        line = f"  {name:28} {median(measured):>11,.0f} messages per CPU second"
        print(line if name == "coterie" else f"{line}   coterie is {ratio:.2f} times as fast")


def main() -> None:
    """Run all rows."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print("Ricart-Agrawala, everyone always wants in")
    for row in ROWS:
        compare(row, repetitions)


if __name__ == "__main__":
    main()
