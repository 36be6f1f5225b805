"""Deadlocks in which locks are shared, over several programs and among the tasks of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.algorithms.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.cluster.admin.status import inspect_waits
from coterie.cluster.url import make_visit
from coterie.cluster.voter.report import describe_obstacles
from coterie.locks import lock as locks
from coterie.locks.deadlocks.reports import LockOwner, OwnerId, Requester, Wanted
from coterie.locks.leases.frames import LockReport, LockStanding, OwnerReport, Owners
from coterie.locks.leases.owner_query import OwnerQuery
from tests.cluster.local_cluster import until
from tests.cluster.test_deadlock_cluster import Program, World, in_world

GAVE_WAY = "gave way in a cycle of"


async def hear_the_voters(program: Program) -> None:
    """Let a program's clock follow: requests of one that has heard nothing count as older."""
    async with program.c.lock(f"of-{id(program)}"):
        pass


async def want(program: Program, lock: str, *, shared: bool) -> None:
    await hear_the_voters(program)
    program.want(program.c.lock(lock, shared=shared))
    await program.waits()


async def at_voters(made: World, program: Program, lock: str) -> None:
    """Wait until a request lies with all voters."""
    name = program.engine.group.supply.identity.name

    def arrived() -> bool:
        ballots = [node.voting.voter.ballots.get(lock) for node in made.nodes]
        return all(b and any(c.participant == name for c in b.queue) for b in ballots)

    await until(arrived, "the request to arrive")


@pytest.mark.parametrize("changes", [{}, {"policy": "quorum"}])
@pytest.mark.parametrize("sharers", [1, 3])
def test_one_who_wants_a_lock_alone_waits_for_all_who_share_it(
    sharers: int, changes: dict[str, Any]
) -> None:
    """Whichever of them closes the circle, and whichever voters know of it."""

    async def test(made: World) -> None:
        *readers, writer = made.programs
        for reader in readers:
            await reader.hold(reader.c.lock("x", shared=True))
        await writer.hold("y")
        await want(writer, "x", shared=False)
        await want(readers[-1], "y", shared=False)
        for reader in readers[:-1]:
            reader.want("z")  # they end when they have had it
        outcomes = await made.outcomes()
        assert sorted(outcome.startswith(GAVE_WAY) for outcome in outcomes[-2:]) == [False, True]
        await made.is_clean()

    in_world(test, programs=sharers + 1, **changes)


async def behind_a_reader(made: World) -> tuple[Program, Program]:
    """Let a writer wait for a lock that the first program shares; give that, and one that has another."""
    reader, writer, sharer = made.programs
    await reader.hold(reader.c.lock("x", shared=True))
    await sharer.hold("z")
    await writer.hold("nothing")
    await hear_the_voters(writer)
    writer.want("x")
    await at_voters(made, writer, "x")
    return reader, sharer


@pytest.mark.parametrize("victim", ["reader", "sharer"])
def test_a_circle_through_the_line_of_a_lock_is_found(victim: str) -> None:
    """The sharer waits for the writer before it, that for the reader, and that for the sharer.

    The writer holds nothing, and is not the one to give way. Of the others the younger wait does.
    """

    async def test(made: World) -> None:
        reader, sharer = await behind_a_reader(made)
        if victim == "reader":
            await want(sharer, "x", shared=True)
            await at_voters(made, sharer, "x")
            await want(reader, "z", shared=False)
        else:
            await want(reader, "z", shared=False)
            await at_voters(made, reader, "z")
            await want(sharer, "x", shared=True)
        read, wrote, shared = await made.outcomes()
        assert wrote == "had x"
        given_way = {"reader": read, "sharer": shared}
        assert given_way.pop(victim) == f"{GAVE_WAY} 3"
        assert given_way.popitem()[1].startswith("had ")
        await made.is_clean()

    in_world(test, programs=3)


@pytest.mark.parametrize("last", ["reader", "sharer"])
def test_a_circle_through_the_line_among_tasks_of_one_program_is_found(
    last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever wait closes it: all is known here, so no other program is asked."""
    monkeypatch.setattr(locks, "REGISTER_SECONDS", 0.0)  # the three waits come one after the other

    async def test(made: World) -> None:
        reader, writer, sharer = (Program(made.programs[0].c) for _ in range(3))
        await reader.hold(reader.c.lock("x", shared=True))
        await sharer.hold("z")
        await writer.hold("nothing")
        await want(writer, "x", shared=False)
        if last == "reader":
            await want(sharer, "x", shared=True)
            reader.want("z")
        else:
            await want(reader, "z", shared=False)
            sharer.want(sharer.c.lock("x", shared=True))
        outcomes = await asyncio.gather(reader.task, sharer.task)
        assert sorted(outcome.startswith(GAVE_WAY) for outcome in outcomes) == [False, True]
        assert await writer.task == "had x"
        assert made.programs[0].engine.waits.searches == 0

    in_world(test, programs=1)


@pytest.mark.parametrize("joins", [False, True])
def test_a_circle_through_a_writer_in_the_line_of_another_program_is_found(joins: bool) -> None:
    """The sharer comes after a writer behind a reader of its own program, which waits for the sharer.

    Or the sharer would join a hold that another task of its program has.
    """

    async def test(made: World) -> None:
        reader, sharer = made.programs
        writer, other = Program(reader.c), Program(sharer.c)
        await reader.hold(reader.c.lock("x", shared=True))
        await sharer.hold("z")
        await writer.hold("nothing")
        if joins:
            await other.hold(other.c.lock("x", shared=True))
        await want(writer, "x", shared=False)
        if joins:
            participant = sharer.engine.group.supply.participant
            await until(lambda: participant.is_wanted("x"), "the sharer to hear of the writer")
        await want(sharer, "x", shared=True)
        if not joins:
            await at_voters(made, sharer, "x")
        await want(reader, "z", shared=False)
        await asyncio.wait({reader.task, sharer.task}, return_when=asyncio.FIRST_COMPLETED)
        if joins:
            other.want("y")  # it ends when it has had it
        outcomes = await asyncio.gather(reader.task, sharer.task)
        assert sorted(outcome.startswith(GAVE_WAY) for outcome in outcomes) == [False, True]
        assert await writer.task == "had x"

    in_world(test, programs=2)


def test_a_circle_through_a_line_that_is_partly_in_another_program_is_found() -> None:
    """The sharer waits in its own program behind a hold that the writer elsewhere waits for."""

    async def test(made: World) -> None:
        reader, writer, sharer = made.programs[0], made.programs[1], Program(made.programs[0].c)
        await reader.hold(reader.c.lock("x", shared=True))
        await sharer.hold("z")
        await writer.hold("nothing")
        await hear_the_voters(writer)
        writer.want("x")
        await at_voters(made, writer, "x")
        participant = reader.engine.group.supply.participant
        await until(lambda: participant.is_wanted("x"), "the reader to hear of the writer")
        await want(sharer, "x", shared=True)
        await want(reader, "z", shared=False)
        outcomes = await asyncio.gather(reader.task, sharer.task)
        assert sorted(outcome.startswith(GAVE_WAY) for outcome in outcomes) == [False, True]
        assert await writer.task == "had x"

    in_world(test, programs=2)


def test_who_shares_with_others_that_wait_is_in_no_circle() -> None:
    """Two hold a lock together and want each other's other locks to share: nobody is in the way."""

    async def test(made: World) -> None:
        ann, bob = made.programs
        for program, own in ((ann, "a"), (bob, "b")):
            await program.hold(*(program.c.lock(name, shared=True) for name in (own, "x")))
        ann.want(ann.c.lock("b", shared=True))
        bob.want(bob.c.lock("a", shared=True))
        assert await made.outcomes() == ["had b", "had a"]
        assert ann.engine.waits.victims == bob.engine.waits.victims == 0

    in_world(test, programs=2)


def test_the_graph_of_a_cluster_shows_who_is_ahead_of_one_who_wants_to_share() -> None:
    async def test(made: World) -> None:
        reader, sharer = await behind_a_reader(made)
        await want(sharer, "x", shared=True)
        await at_voters(made, sharer, "x")
        await want(reader, "z", shared=False)
        _, graph = await inspect_waits(make_visit(reader.c.url.partition("?")[0]))
        [core] = graph.cores()
        assert {"x", "x (shared)", "z"} <= set(core)
        for program in made.programs:
            program.task.cancel()
        await asyncio.gather(*(p.task for p in made.programs), return_exceptions=True)

    in_world(test, 3, ("deadlock-detection=off",))


# What voters say, and what is made of it

WANTED = Wanted("x", shared=True, requester=Requester("s", 1))


def claim(who: str, age: int, *, shared: bool = False) -> Claim:
    return Claim(who, 1, age, age, 0, shared)


def ballot(owners: list[Claim], queue: list[Claim]) -> Ballot:
    return Ballot(0, [Tenure(owner, 1, 9) for owner in owners], queue)


R, S = claim("r", 1, shared=True), claim("s", 5, shared=True)


@pytest.mark.parametrize(
    ("owners", "queue", "told_owners", "told_queue"),
    [
        ([R], [claim("w", 3), S], (), ("w", "s")),
        ([R], [claim("v", 2), claim("w", 3), S], (), ("v", "s")),
        ([claim("w", 3)], [S], ("w",), ("w", "s")),
        ([claim("w", 7)], [S], ("w",), ("s",)),  # it is younger, and yields
        ([R, S], [claim("w", 7)], ("s",), ("w",)),  # it counts if the hold is in force
        ([R], [claim("w", 7)], (), ()),  # nothing is asked of this voter
    ],
)
def test_a_voter_tells_who_is_ahead_of_a_request_to_share(
    owners: list[Claim],
    queue: list[Claim],
    told_owners: tuple[str, ...],
    told_queue: tuple[str, ...],
) -> None:
    report = describe_obstacles(WANTED, ballot(owners, queue))
    assert report == LockReport(WANTED, told_owners, told_queue)


def test_a_voter_that_knows_nothing_of_a_lock_says_so() -> None:
    assert describe_obstacles(WANTED, None) == LockReport(WANTED, (), ())


@pytest.mark.parametrize(
    ("queue", "state", "is_ahead"),
    [
        (("w", "s"), "nothing", True),
        (("w",), "held", True),
        (("w",), "nothing", False),  # it waits for other votes, and has this one
    ],
)
def test_who_waits_at_a_voter_is_ahead_of_those_whose_request_or_hold_is_there(
    queue: tuple[str, ...], state: Any, is_ahead: bool
) -> None:
    survey = OwnerQuery([1])
    survey.name(1, Owners(1, (LockReport(WANTED, (), queue),), {}))
    writer = LockOwner(OwnerId("w", 1), "host:1", "writer", None)
    survey.hear(
        OwnerReport(1, 1, "w", (LockStanding(WANTED, "waiting", 0, 0.0, waiting=(writer,)),))
    )
    survey.hear(OwnerReport(1, 1, "s", (LockStanding(WANTED, state, 0, 0.0, shared=True),)))
    assert [hold.owner for hold in survey.holds(WANTED)] == ([writer] if is_ahead else [])
