"""`coterie status` far from the nodes: it waits by the round trip that it has measured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.admin.status import ClusterState, inspect, inspect_waits
from coterie.cluster.membership.config import convert
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.lab.stack.world import World

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.lab.stack.world.machine import Process

NODES = ("a", "b", "c")
URL = "coterie://" + ",".join(f"{name}:7400" for name in NODES)
CONFIG = {
    "cluster": "distant",
    "lease": 60.0,
    "nodes": {name: {"address": f"{name}:7400"} for name in NODES},
}


class Scene:
    """A cluster with a program that holds x, and one that waits for it, this far from each other."""

    def __init__(self, world: World, one_way: float) -> None:
        self.world = world
        world.network.delay = one_way
        for name in (*NODES, "holder", "waiter", "admin"):
            world.machine(name)
        for name in NODES:
            world.start(name, name, 1, self._node)
        self.state: ClusterState | None = None
        self.graph: Graph[str] | None = None
        world.start("holder", "holder", 1, self._take)
        world.run(world.now + 30)
        world.start("waiter", "waiter", 1, self._take)
        world.run(world.now + 30)

    async def _node(self, process: Process) -> None:
        node = Node(convert(CONFIG), process.name, new_cluster=True)
        await node.start()
        await asyncio.Event().wait()

    async def _take(self, process: Process) -> None:
        async with coterie.connect(URL) as c, c.lock("x"):
            await asyncio.Event().wait()

    async def _look(self, process: Process) -> None:
        self.state = await inspect(make_visit(URL), locks=True)
        _, self.graph = await inspect_waits(make_visit(URL))

    def look(self) -> float:
        """Ask for the status; return how long that took."""
        began = self.world.now
        self.world.start("admin", "admin", 1, self._look)
        self.world.run(self.world.now + 60, lambda: self.graph is not None)
        return self.world.now - began


@pytest.mark.parametrize("one_way", [0.001, 0.2, 0.35, 0.6])
def test_nodes_locks_and_waits_are_shown_however_far_the_nodes_are(one_way: float) -> None:
    with World(1) as world:
        scene = Scene(world, one_way)
        took = scene.look()
        assert scene.state is not None
        assert [node.trouble for node in scene.state.nodes] == ["", "", ""]
        [lock] = scene.state.locks
        assert len(lock.holders) == 1
        assert len(lock.waiters) == 1
        assert not lock.silent
        assert scene.graph is not None
        assert len(scene.graph.edges()) == 2, "the program waits for the lock, that for its holder"
        assert took < 40 * one_way + 0.1, "it waits for answers, not for the time to pass"
