"""Messages per CPU second: our simulator against the same model written on SimPy.

The model is Ricart-Agrawala with everyone always wanting in. On SimPy it is written twice: with a
timeout and a callback per message, which is the fastest way there, and with a process and a store
per node, which is the usual one. The SimPy models count messages and entries and nothing else; ours
runs with all its metrics, its monitors and its readiness for faults.

    python benchmarks/simulator_against_simpy.py [PROCESSES [ENTRIES [REPETITIONS]]]
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

import simpy

from coterie import catalogue
from coterie.simulate import Closed, Constant, Network, Simulation, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from coterie.simulate import Latency

    Delay = Callable[[], float]
    Run = Callable[[int, int, Latency], tuple[int, int]]  # gives messages and entries


@dataclass(frozen=True, slots=True)
class Request:
    stamp: tuple[int, int]


class Reply:
    __slots__ = ()


class Node:
    """A node of the model on SimPy; how messages travel is left to `send`."""

    def __init__(self, env: simpy.Environment, me: int, nodes: list[Node], entries: int) -> None:
        self.env = env
        self.me = me
        self.nodes = nodes
        self.left = entries
        self.highest = 0
        self.stamp: tuple[int, int] | None = None
        self.awaiting: set[int] = set()
        self.deferred: set[int] = set()
        self.messages = 0
        self.entries = 0

    def send(self, to: int, message: Request | Reply) -> None:
        raise NotImplementedError

    def acquire(self) -> None:
        self.highest += 1
        self.stamp = (self.highest, self.me)
        self.awaiting = set(range(1, len(self.nodes)))
        self.awaiting.remove(self.me)
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
    """Style 1: each message is a timeout with a callback."""

    delay: Delay

    def send(self, to: int, message: Request | Reply) -> None:
        self.messages += 1
        timeout = self.env.timeout(self.delay(), (self.me, to, message))
        timeout.callbacks.append(self.arrive)

    def arrive(self, event: Any) -> None:
        sender, to, message = event.value
        self.nodes[to].receive(sender, message)


class StoreNode(Node):
    """Style 2: each node is a process that takes messages out of its store."""

    delay: Delay
    inbox: simpy.Store

    def send(self, to: int, message: Request | Reply) -> None:
        self.messages += 1
        self.env.process(self.carry(to, message))

    def carry(self, to: int, message: Request | Reply) -> Generator[simpy.Event, Any, None]:
        yield self.env.timeout(self.delay())
        yield self.nodes[to].inbox.put((self.me, message))

    def serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            sender, message = yield self.inbox.get()
            self.receive(sender, message)
