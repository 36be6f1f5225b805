"""Programs that take locks in random order, over sockets and over lock files, with a referee.

All programs run in this event loop, so the referee sees the whole truth at any moment. Nobody has a
timeout: whoever waits in a deadlock waits for ever unless it is found, and a deadlock that was true
between the passes is still true when its victim gives way.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.voter.report import describe_obstacles
from coterie.locks.deadlocks.collection import Collection, Suspicion
from coterie.locks.deadlocks.waits import Waits
from coterie.locks.internals import engine_of
from coterie.locks.leases import blockers
from coterie.locks.leases.frames import AskOwner, Owners
from coterie.locks.leases.owner_query import OwnerQuery
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from coterie.cluster.node import Node
    from coterie.locks.deadlocks.reports import Hold, Wanted

PROGRAMS, TASKS, ROUNDS = 3, 4, 8
LOCKS = "abcde"


class Referee:
    """Objects to victims who could have gone on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all_waits: list[Waits] = []
        self.nodes: list[Node] = []
        self.engines: list[ClusterEngine] = []
        self.objections: list[str] = []
        self.victims = 0
        give_way = Waits.give_way
        referee = self

        def watched(waits: Waits, suspicion: Suspicion) -> Any:
            stuck = referee.truth().graph().deadlocked()
            error = give_way(waits, suspicion)
            if error is not None:
                assert suspicion.victim is not None
                referee.victims += 1
                if suspicion.victim.id not in stuck:
                    referee.objections.append(str(error))
            return error

        monkeypatch.setattr(Waits, "give_way", watched)

    def truth(self) -> Collection:
        """Everything that all programs know, at this moment."""
        truth = Collection(
            waits.describe(owner) for waits in self.all_waits for owner in waits.blocked()
        )
        while wanted := truth.wanted():
            for lock in wanted:
                truth.hear(lock, self._holds(lock))
        return truth

    def _holds(self, wanted: Wanted) -> list[Hold]:
        """Name who holds a lock; in the way of a request to share is also whom the voters name."""
        if not wanted.shared:
            return [hold for waits in self.all_waits for hold in waits.holds(wanted)]
        survey = OwnerQuery(range(len(self.nodes)))
        for voter, node in enumerate(self.nodes):
            survey.name(
                voter,
                Owners(
                    1, (describe_obstacles(wanted, node.voting.voter.ballots.get(wanted.lock)),), {}
                ),
            )
        for engine in self.engines:
            asked = AskOwner(0, 1, (wanted,), search=True)
            survey.hear(blockers.report(engine.group, engine.waits, asked))
        return survey.holds(wanted)


def random_wish(c: locks.Coordinator, random: Random, sharing: float) -> Any:
    """Want one lock, any of two, two, or one and any of two; some of them in shared mode."""
    one, two, three = (
        c.lock(name, shared=random.random() < sharing) for name in random.sample(LOCKS, 3)
    )
    match random.randrange(5):
        case 0 | 1:
            return one
        case 2:
            return c.lock_any(one, two)
        case 3:
            return c.lock_all(one, two)
        case _:
            return c.lock_any(c.lock_all(one, two), three)


async def work(c: locks.Coordinator, random: Random, sharing: float) -> int:
    """Take something, then something else, again and again; count the rounds that went well."""
    done = 0
    for _ in range(ROUNDS):
        # A lock that one has already makes no sense to want; it is refused at once.
        with contextlib.suppress(coterie.DeadlockDetected, coterie.MisuseError):
            async with random_wish(c, random, sharing):
                await asyncio.sleep(random.choice((0.0, 0.001, 0.01)))
                async with random_wish(c, random, sharing):
                    await asyncio.sleep(random.choice((0.0, 0.001)))
                    done += 1
    return done


async def soak(urls: list[str], referee: Referee, seed: int, sharing: float = 0.0) -> None:
    async with contextlib.AsyncExitStack() as stack:
        programs = [await stack.enter_async_context(locks.connect(url)) for url in urls]
        engines = [engine_of(program) for program in programs]
        referee.all_waits = [engine.waits for engine in engines]
        referee.engines = [engine for engine in engines if isinstance(engine, ClusterEngine)]
        tasks = [
            work(program, Random(f"{seed}/{place}/{number}"), sharing)
            for place, program in enumerate(programs)
            for number in range(TASKS)
        ]
        done = await asyncio.gather(*tasks)
    assert not referee.objections, f"seed {seed}"
    assert referee.victims, f"seed {seed}: nothing was tried"
    assert sum(done) > 0


@contextlib.asynccontextmanager
async def cluster(referee: Referee) -> AsyncIterator[str]:
    config = convert(document(3, lease=10.0))
    async with running(config) as referee.nodes:
        yield url_of(config)


@pytest.mark.parametrize("sharing", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(2))
def test_on_a_cluster_nobody_hangs_and_no_victim_could_have_gone_on(
    seed: int, sharing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    referee = Referee(monkeypatch)

    async def main() -> None:
        async with asyncio.timeout(60), cluster(referee) as url:
            await soak([url] * PROGRAMS, referee, seed, sharing)

    asyncio.run(main())


def test_over_lock_files_nobody_hangs_and_no_victim_could_have_gone_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    referee = Referee(monkeypatch)

    async def main() -> None:
        async with asyncio.timeout(60):
            await soak([f"file:{tmp_path}"] * PROGRAMS, referee, seed=0)

    asyncio.run(main())
