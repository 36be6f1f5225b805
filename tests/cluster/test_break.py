"""An operator ends the hold of a program that is alive: the next gets the lock with a larger token."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie.cluster.admin.connection import consult
from coterie.cluster.admin.holds import NodeAnswer, break_hold
from coterie.cluster.config import Config, convert
from coterie.cluster.url import make_visit
from coterie.cluster.voter.frames import BreakHold, HoldBroken
from coterie.cluster.wire.security import Security
from coterie.errors import LockLost, ProtocolError
from tests.cluster.local_cluster import COTERIE, document, running, until, url_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET, OPERATORS = "a secret of all programs", "a secret of operators alone"


def config_of(**security: str) -> Config:
    return msgspec.structs.replace(convert(document(3)), security=Security(**security))


async def broken(url: str, lock: str = "x") -> list[NodeAnswer]:
    return await break_hold(make_visit(url), lock)


def test_the_holder_hears_of_it_and_the_next_in_line_has_a_larger_token() -> None:
    async def main() -> None:
        config = config_of()
        async with (
            running(config),
            coterie.connect(url_of(config)) as stuck,
            coterie.connect(url_of(config)) as patient,
        ):
            tokens = []

            async def hold() -> None:
                async with stuck.lock("x") as held:
                    tokens.append(held.token)
                    await asyncio.Event().wait()

            holder = asyncio.create_task(hold())
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


def test_a_lock_that_is_kept_unused_goes_back_and_one_that_is_free_is_left_alone() -> None:
    async def main() -> None:
        config = config_of()
        async with running(config) as nodes, coterie.connect(url_of(config)) as program:
            assert [answer.told for answer in await broken(url_of(config))] == [(), (), ()]
            async with program.lock("x"):
                pass
            assert {len(answer.told) for answer in await broken(url_of(config))} == {1}
            await until(
                lambda: not any(node.voting.voter.ballots for node in nodes), "the votes to go back"
            )
            async with program.lock("x") as held:
                assert held.valid

    asyncio.run(main())


async def answer_to(config: Config, security: Security, role: Any) -> HoldBroken:
    member = config.membership.members[0]
    operator = security.operator_bytes()
    mine = msgspec.structs.replace(
        config.membership.credentials(security.secret_bytes(), operator), configuration=""
    )
    async with consult(member.address, mine, None, member.name, role=role) as consultation:
        return await consultation.ask(BreakHold("x"), HoldBroken)


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


def test_without_a_secret_of_their_own_operators_have_that_of_all() -> None:
    async def main() -> None:
        config = config_of(secret=SECRET)
        async with running(config):
            assert await answer_to(config, config.security, "operator") == HoldBroken((), ())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "arguments", "status", "said"),
    [
        ("file:{tmp}", ["x", "--yes"], 64, "only holds on a cluster"),
        ("{cluster}", ["free", "--yes"], 1, "is not held"),
        ("{cluster}", ["x"], 64, "add --yes"),
        ("{cluster}", ["x", "--yes"], 0, "told to stop"),
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
