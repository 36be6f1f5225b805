"""An operator ends the hold of a program that is alive: the next gets the lock with a larger token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member
from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.cluster.admin.holds import NodeAnswer, break_hold, find_hold
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.query import consult
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import BreakHold, HoldBroken
from coterie.errors import ConfigError, LockLost, ProtocolError, UsageError
from coterie.locks.breaker import TOKEN_MAX
from tests.cluster.local_cluster import COTERIE, document, running, until, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.client.access import Visit

SECRET, OPERATORS = "a secret of all programs", "a secret of operators alone"

NOTHING = BreakHold("x", (), 0)


def config_of(**security: Any) -> Config:
    return msgspec.structs.replace(convert(document(3)), security=Security(**security))


async def broken(url: str, lock: str = "x") -> list[NodeAnswer]:
    visit = make_visit(url)
    return await break_hold(visit, await find_hold(visit, lock))


async def waiting(visit: Visit, count: int, lock: str = "x") -> None:
    """Wait until so many tasks stand in line, as the nodes see it."""
    while len((await find_hold(visit, lock)).state.waiters) != count:
        pass  # each look takes some round trips


async def enter_and_stay(program: coterie.Coordinator, tokens: list[int], **mode: Any) -> None:
    async with program.lock("x", **mode) as held:
        tokens.append(held.token)
        await asyncio.Event().wait()


def test_the_holder_hears_of_it_and_the_next_in_line_has_a_larger_token() -> None:
    async def main() -> None:
        config = config_of()
        async with (
            running(config),
            coterie.connect(url_of(config)) as stuck,
            coterie.connect(url_of(config)) as patient,
        ):
            tokens: list[int] = []
            holder = asyncio.create_task(enter_and_stay(stuck, tokens))
            await until(lambda: tokens, "the hold")
            waiter = asyncio.create_task(patient.lock("x").acquire())
            await asyncio.sleep(0)
            answers = await broken(url_of(config))
            assert {len(answer.told) for answer in answers} == {1}
            with pytest.raises(LockLost, match="coterie break"):
                await holder
            held = await waiter
            assert held is not None
            assert held.token > tokens[0]
            await held.release()

    asyncio.run(main())


def test_a_lock_that_is_kept_unused_or_free_is_left_alone() -> None:
    async def main() -> None:
        config = config_of()
        async with running(config), coterie.connect(url_of(config)) as program:
            assert [answer.told for answer in await broken(url_of(config))] == [(), (), ()]
            async with program.lock("x") as before:
                pass
            assert [answer.told for answer in await broken(url_of(config))] == [(), (), ()]
            async with program.lock("x") as held:
                assert held.token > before.token

    asyncio.run(main())


def test_a_lock_that_was_released_since_it_was_looked_at_goes_back() -> None:
    async def main() -> None:
        config = config_of()
        visit = make_visit(url_of(config))
        async with running(config) as nodes, coterie.connect(url_of(config)) as program:
            async with program.lock("x"):
                seen = await find_hold(visit, "x")
            assert {len(answer.told) for answer in await break_hold(visit, seen)} == {1}
            await until(
                lambda: not any(node.voting.voter.ballots for node in nodes), "the votes to go back"
            )
            async with program.lock("x") as held:
                assert held.valid

    asyncio.run(main())


def test_an_order_that_is_late_at_a_node_leaves_the_next_holder_alone() -> None:
    """The order comes to the nodes one after the other, and a quorum of them suffices for a hold."""

    async def main() -> None:
        config = config_of()
        url = url_of(config)
        async with (
            running(config),
            coterie.connect(url) as stuck,
            coterie.connect(url) as patient,
        ):
            first = await stuck.lock("x").acquire()
            assert first is not None
            visit = make_visit(url)
            waiter = asyncio.create_task(patient.lock("x").acquire())
            await waiting(visit, 1)
            again = asyncio.create_task(stuck.lock("x").acquire())
            await waiting(visit, 2)
            seen = await find_hold(visit, "x")
            await break_hold(visit, seen)
            held = await waiter
            assert held is not None
            answers = await break_hold(visit, seen)  # as a node does that is slower than all this
            assert [answer.told for answer in answers] == [(), (), ()]
            assert held.valid
            await held.release()
            # The same program has it again, with a larger token.
            second = await again
            assert second is not None
            assert second.token > held.token > first.token
            answers = await break_hold(visit, seen)
            assert [answer.told for answer in answers] == [(), (), ()]
            assert second.valid

    asyncio.run(main())


def test_the_next_task_of_the_program_that_has_the_lock_by_then_goes_on() -> None:
    """It has the lock by the same votes, so nodes cannot tell its hold from the one that was seen."""

    async def main() -> None:
        config = config_of()
        url = url_of(config)
        async with running(config), coterie.connect(url) as program:
            first = await program.lock("x").acquire()
            assert first is not None
            visit = make_visit(url)
            task = asyncio.create_task(program.lock("x").acquire())
            await waiting(visit, 1)
            seen = await find_hold(visit, "x")
            await first.release()
            second = await task
            assert second is not None
            assert second.token > first.token
            assert {len(answer.told) for answer in await break_hold(visit, seen)} == {1}
            # What was told before this answer of each node has come.
            assert (await find_hold(visit, "x")).token == second.token
            assert second.valid

    asyncio.run(main())


def test_all_that_share_are_told_and_one_that_waits_to_be_alone_comes_next() -> None:
    async def main() -> None:
        config = config_of()
        url = url_of(config)
        async with (
            running(config),
            coterie.connect(url) as one,
            coterie.connect(url) as other,
            coterie.connect(url) as patient,
        ):
            tokens: list[int] = []
            sharers = [
                asyncio.create_task(enter_and_stay(program, tokens, shared=True))
                for program in (one, one, other)
            ]
            await until(lambda: len(tokens) == len(sharers), "the holds")
            waiter = asyncio.create_task(patient.lock("x").acquire())
            await waiting(make_visit(url), 1)
            assert {len(answer.told) for answer in await broken(url)} == {2}
            ends = await asyncio.gather(*sharers, return_exceptions=True)
            assert [type(end) for end in ends] == [LockLost] * len(sharers)
            held = await waiter
            assert held is not None
            assert held.token > max(tokens)

    asyncio.run(main())


def test_a_hold_with_a_lease_of_its_own_is_ended_also_if_its_body_goes_on() -> None:
    async def main() -> None:
        config = config_of()
        url = url_of(config)
        async with (
            running(config),
            coterie.connect(url) as deaf,
            coterie.connect(url) as patient,
        ):
            entered, ended = asyncio.Event(), asyncio.Event()

            async def hold() -> None:
                async with deaf.lock("x", lease=0.5) as held:
                    entered.set()
                    while not ended.is_set():
                        with contextlib.suppress(asyncio.CancelledError):
                            await ended.wait()
                    assert not held.valid

            holder = asyncio.create_task(hold())
            await entered.wait()
            await broken(url)
            async with patient.lock("x") as held:
                assert not holder.done()
                ended.set()
                with pytest.raises(LockLost, match="coterie break"):
                    await holder
                assert held.valid

    asyncio.run(main())


def test_the_next_task_of_the_same_program_asks_the_nodes_and_waits_for_its_turn() -> None:
    async def main() -> None:
        config = config_of()
        url = url_of(config)
        visit = make_visit(url)
        async with (
            running(config),
            coterie.connect(url) as busy,
            coterie.connect(url) as patient,
        ):
            order: list[str] = []

            async def pass_through(program: coterie.Coordinator, name: str) -> None:
                async with program.lock("x") as held:
                    assert held.token > tokens[0]
                    order.append(name)

            tokens: list[int] = []
            holder = asyncio.create_task(enter_and_stay(busy, tokens))
            await until(lambda: tokens, "the hold")
            before = asyncio.create_task(pass_through(patient, "the other program"))
            await waiting(visit, 1)
            after = asyncio.create_task(pass_through(busy, "the same program"))
            await waiting(visit, 2)
            await broken(url)
            await asyncio.gather(before, after)
            assert order == ["the other program", "the same program"]
            with pytest.raises(LockLost):
                await holder

    asyncio.run(main())


def test_a_node_that_is_down_is_named_and_the_others_suffice() -> None:
    async def main() -> None:
        config = config_of()
        url = url_of(config)
        async with running(config) as nodes, coterie.connect(url) as program:
            tokens: list[int] = []
            holder = asyncio.create_task(enter_and_stay(program, tokens))
            await until(lambda: tokens, "the hold")
            await nodes[0].stop()
            visit = make_visit(url)
            holding = await find_hold(visit, "x")
            assert list(holding.troubles) == ["a"]
            told = [len(answer.told) for answer in await break_hold(visit, holding)]
            assert told == [0, 1, 1]
            with pytest.raises(LockLost):
                await holder

    asyncio.run(main())


def test_classic_algorithms_have_no_holds_that_can_be_ended() -> None:
    async def main() -> None:
        config = convert(document(2, algorithm="lamport"))
        program = Program(event=lambda *_: None, failure=lambda _: None)
        node = Classic(config, "a", program)
        await node.start()
        try:
            with pytest.raises(UsageError, match="runs lamport, whose holds cannot be ended"):
                await broken(url_of(config))
        finally:
            await node.stop()

    asyncio.run(main())


async def answer_to(
    config: Config, security: Security, role: Any, order: BreakHold = NOTHING
) -> HoldBroken:
    member = config.membership.members[0]
    operator = security.operator_bytes()
    mine = msgspec.structs.replace(
        config.membership.credentials(security.secret_bytes(), operator), configuration=""
    )
    async with consult(member.address, mine, None, member.name, role=role) as consultation:
        return await consultation.ask(order, HoldBroken)


def test_only_operators_give_orders() -> None:
    async def main() -> None:
        config = config_of(secret=SECRET, operator_secret=OPERATORS)
        async with running(config):
            assert await answer_to(config, config.security, "operator") == HoldBroken((), ())
            with pytest.raises(ProtocolError, match="COTERIE_OPERATOR_SECRET_FILE"):
                await answer_to(config, Security(secret=SECRET), "operator")
            with pytest.raises(ProtocolError, match="closed the connection"):
                await answer_to(config, config.security, "admin")

    asyncio.run(main())


def test_an_order_without_the_secret_of_operators_says_what_to_configure() -> None:
    async def main() -> None:
        config = config_of(operator_secret=OPERATORS)
        async with running(config), coterie.connect(url_of(config)) as program:
            await program.lock("x").acquire()
            with pytest.raises(ConfigError, match="COTERIE_OPERATOR_SECRET_FILE"):
                await broken(url_of(config))

    asyncio.run(main())


def test_a_program_needs_no_right_to_read_the_secret_of_operators(tmp_path: Path) -> None:
    """Programs and nodes may share one file; a node cannot do without, nor can an order."""
    config = convert(document(3, **{"operator-secret-file": "hidden"}), tmp_path)
    assert config.security.secret_bytes() == b""
    with pytest.raises(ConfigError, match="hidden"):
        config.security.operator_bytes()
    with pytest.raises(ConfigError, match="hidden"):
        Node(config, "a")


def test_an_order_about_another_participant_leaves_the_holder_alone() -> None:
    async def main() -> None:
        config = config_of()
        order = BreakHold("x", ("another",), TOKEN_MAX)
        async with (
            running(config),
            coterie.connect(url_of(config)) as program,
            program.lock("x") as held,
        ):
            answer = await answer_to(config, config.security, "operator", order)
            assert answer == HoldBroken((), ())
            assert held.valid

    asyncio.run(main())


def test_no_admin_tells_nodes_of_a_configuration() -> None:
    async def main() -> None:
        config = config_of(secret=SECRET, operator_secret=OPERATORS)
        async with running(config) as nodes:
            member = config.membership.members[0]
            mine = msgspec.structs.replace(
                config.membership.credentials(SECRET.encode()), configuration=""
            )
            before = nodes[0].voting.voter.configuration
            assert before is not None
            rule = msgspec.structs.replace(before.rule, number=7)
            members = tuple(
                Member(seat, each.name, "00", str(each.address))
                for seat, each in enumerate(config.membership.members, 1)
            )
            made_up = Configuration(rule, members)
            async with consult(member.address, mine, None, member.name) as consultation:
                consultation.send(NewConfiguration(made_up))
                with pytest.raises(ProtocolError, match="closed the connection"):
                    await consultation.ask(GetMembership(), MembershipReply)
            assert nodes[0].voting.voter.configuration == before

    asyncio.run(main())


def test_without_a_secret_of_their_own_operators_have_that_of_all() -> None:
    async def main() -> None:
        config = config_of(secret=SECRET)
        async with running(config):
            assert await answer_to(config, config.security, "operator") == HoldBroken((), ())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "arguments", "status", "said"),
    [
        ("file:{tmp}", ["x", "--yes"], 1, "is not held"),
        ("{cluster}", ["free", "--yes"], 1, "is not held"),
        ("{cluster}", ["x"], 64, "add --yes"),
        ("{cluster}", ["x", "--yes"], 0, "told to stop"),
        ("{cluster}", ["Mu\u0308ller & So\u0308hne", "--yes"], 0, "told to stop"),
    ],
)
def test_the_command(
    tmp_path: Path, url: str, arguments: list[str], status: int, said: str
) -> None:
    async def main() -> subprocess.CompletedProcess[str]:
        config = config_of()
        chosen = url.format(tmp=tmp_path, cluster=url_of(config))
        async with running(config), coterie.connect(url_of(config)) as program:
            await program.lock("x").acquire()
            await program.lock("M\u00fcller & S\u00f6hne").acquire()
            return await asyncio.to_thread(
                subprocess.run,
                [*COTERIE, "break", *arguments, "--url", chosen],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )

    done = asyncio.run(main())
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done.stderr


AT_A_TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""


CTRL_C = "\x03"
AGAIN_SECONDS = 1.0


def type_at_the_prompt(command: list[str], typed: str) -> tuple[int, str]:
    """Type when the prompt is there; press Ctrl-C again if that is not heard, as a person does.

    Between writing a prompt and waiting for the answer the interpreter notes an interrupt, and acts
    on it only when a line has come.
    """
    with subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = b""
        while b"to end the hold:" not in shown:
            more = os.read(process.stdout.fileno(), 1000)
            assert more, shown
            shown += more
        process.stdin.write(typed.encode())
        process.stdin.flush()
        while more:
            if typed == CTRL_C and not select.select([process.stdout], [], [], AGAIN_SECONDS)[0]:
                process.stdin.write(typed.encode())
                process.stdin.flush()
                continue
            more = os.read(process.stdout.fileno(), 1000)
            shown += more
    return process.returncode, shown.decode()


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ("x\n", 0, "told to stop"),
        ("y\n", 64, "nothing was done"),
        ("\n", 64, "nothing was done"),
        (CTRL_C, 130, "Type the name"),
    ],
)
def test_at_a_terminal_the_name_has_to_be_typed(typed: str, status: int, said: str) -> None:
    async def main() -> tuple[int, str]:
        config = config_of()
        command = [*COTERIE, "break", "x", "--url", url_of(config)]
        async with running(config), coterie.connect(url_of(config)) as program:
            held = await program.lock("x").acquire()
            assert held is not None
            ended = await asyncio.to_thread(type_at_the_prompt, command, typed)
            if status == 0:
                await held.lost.wait()
            assert held.valid is (status != 0)
            return ended

    code, shown = asyncio.run(main())
    assert (code, said in shown) == (status, True), shown
