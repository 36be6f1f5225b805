"""A store over three sites on real sockets: whole transfers, whatever ends in between."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cluster.membership.config import convert
from coterie.cluster.store import join_store, own_site
from coterie.errors import (
    ConfigError,
    Conflict,
    MisuseError,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from coterie.lab.serializability import check
from tests.cluster.local_cluster import until
from tests.cluster.store_cluster import (
    Sites,
    configured,
    document,
    fill,
    keys_at,
    running,
    total,
    transfer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from coterie.transactions.store.transaction import Transaction

pytestmark = pytest.mark.usefixtures("open_and_guarded")

A, B, C = (keys_at(site, 3) for site in (1, 2, 3))
ACCOUNTS = [*A, *B, *C]
SCHEMES = (
    "two-phase-locking",
    "timestamp-ordering",
    "thomas-write-rule",
    "multiversion",
    "conservative",
    "optimistic",
)


async def clients(sites: Sites, transfers: int) -> None:
    async def client(name: str, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(transfers):
            source, target = dice.sample(ACCOUNTS, 2)
            await transfer(sites[name], source, target)

    await asyncio.gather(*(client(name, seed) for seed, name in enumerate("aabbcc")))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_transfers_between_sites_conserve_the_sum(scheme: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running(configured(tmp_path, scheme=scheme)) as sites:
            await fill(sites["a"], ACCOUNTS)
            await clients(sites, 4)
            assert await total(sites["c"]) == 900
            committed = sum(store.counts.committed for store in sites.stores.values())
            assert committed == 26
            if scheme == "conservative":
                assert all(not store.counts.refused for store in sites.stores.values())
            await until(lambda: not sites.unsettled(), "everything to be acknowledged")

    asyncio.run(main())


def test_a_transaction_of_one_site_sends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], A)
            for _ in range(10):
                await transfer(sites["a"], A[0], A[1])
            assert sites.messages() == 0
            await fill(sites["a"], [B[0]])
            await until(lambda: not sites.unsettled(), "the acknowledgement")
            assert sites.messages() == 5  # a request and its answer, prepare, outcome, thanks

    asyncio.run(main())


def test_the_cost_of_a_transaction_of_two_sites(tmp_path: Path) -> None:
    """Where the coordinator is one of them: two messages to read for update, and four to commit.

    With a lease that is long no site has to ask again, however slow the machine is.
    """
    config = configured(tmp_path, lease=1000.0)

    async def main() -> None:
        async with asyncio.timeout(20), running(config) as sites:
            await fill(sites["a"], [A[0], B[0]])
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            before = sites.messages()
            await transfer(sites["a"], A[0], B[0])
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            assert sites.messages() - before == 2 + 4

    asyncio.run(main())


@pytest.mark.parametrize("variant", ["detection", "wait-die", "wound-wait"])
def test_of_two_that_read_what_the_other_writes_one_commits(variant: str, tmp_path: Path) -> None:
    """Write skew: x and y are at different sites, and each transaction writes one after it has read both."""
    config = configured(tmp_path, store={"scheme": "two-phase-locking", "variant": variant})

    async def main() -> None:
        async with asyncio.timeout(60), running(config) as sites:
            await fill(sites["a"], ACCOUNTS)
            met = asyncio.Barrier(2)

            async def withdraw(name: str, own: str, other: str) -> None:
                async with sites[name].transaction() as transaction:
                    left = await transaction.get(own, for_update=True)
                    left += await transaction.get(other)
                    await transaction.put(own, left - 200)
                    await met.wait()

            for index in range(3):
                pairs = (("a", A[index], B[index]), ("b", B[index], A[index]))
                results = await asyncio.gather(
                    *(withdraw(*each) for each in pairs), return_exceptions=True
                )
                assert any(isinstance(result, Conflict) for result in results), results
            await until(lambda: not sites.unsettled(), "everything to end")

    asyncio.run(main())


def test_everything_is_there_after_all_sites_were_started_again(tmp_path: Path) -> None:
    config = configured(tmp_path)

    async def main(expected: int | None) -> None:
        async with asyncio.timeout(20), running(config) as sites:
            if expected is None:
                await fill(sites["a"], ACCOUNTS)
            assert await total(sites["b"]) == 900
            await clients(sites, 2)

    asyncio.run(main(None))
    asyncio.run(main(900))


def crash_after(sites: Sites, name: str, appends: int, *, kept: bool = True) -> asyncio.Event:
    """Let a site write so much more to its log, and then do nothing any more, as if killed.

    The last write has reached the disk, or nothing of it.
    """
    node = own_site(sites[name]).node
    log = node.log
    append: Callable[[Sequence[bytes]], None] = log.append
    left = appends
    crashed = asyncio.Event()

    def append_and_die(records: Sequence[bytes]) -> None:
        nonlocal left
        left -= 1
        if left or kept:
            append(records)
        if not left:
            crashed.set()
            raise OSError("killed by the test")

    log.append = append_and_die  # type: ignore[method-assign]  # for one crash
    return crashed


@pytest.mark.parametrize("victim", ["a", "b"], ids=["coordinator", "participant"])
@pytest.mark.parametrize(
    ("appends", "kept", "together"),
    [(1, True, True), (1, False, True), (2, True, False), (2, False, False), (3, True, False)],
)
def test_a_site_that_dies_after_a_log_write_leaves_no_half_transfer(
    victim: str, appends: int, kept: bool, together: bool, tmp_path: Path
) -> None:
    """2.8 a on real sockets: it dies in mid-commit, comes back, and everybody agrees."""

    async def main() -> None:
        turn = asyncio.Semaphore(3 if together else 1)

        async def attempt(sites: Sites, index: int) -> None:
            async with turn:
                await transfer(sites["a"], A[index], B[index])

        async with asyncio.timeout(60), running(configured(tmp_path)) as sites:
            await fill(sites["c"], ACCOUNTS)
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            crashed = crash_after(sites, victim, appends, kept=kept)
            tasks = [asyncio.create_task(attempt(sites, index)) for index in range(3)]
            await crashed.wait()
            await sites.stop(victim)
            await sites.start(victim)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: not sites.unsettled(), "everything to be settled")
            assert await total(sites["c"]) == 900
            await judge(sites, results)

    asyncio.run(main())


async def judge(sites: Sites, results: Sequence[object]) -> None:
    """What was told to have committed has; what was told to have failed has not."""
    for index, result in enumerate(results):

        async def look(transaction: Transaction, index: int = index) -> tuple[Any, Any]:
            return await transaction.get(A[index]), await transaction.get(B[index])

        values = await sites["c"].run(look)
        assert values in ((100, 100), (99, 101))
        if result is None:
            assert values == (99, 101)
        elif not isinstance(result, OutcomeUnknown):
            assert values == (100, 100), result


def test_a_site_in_doubt_says_so_and_is_helped_when_its_coordinator_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """2.8 c on real sockets."""

    def is_logged() -> bool:
        return any(
            getattr(record, "event", "") == "transaction-in-doubt" for record in caplog.records
        )

    async def main() -> None:
        async with asyncio.timeout(60), running(configured(tmp_path)) as sites:
            await fill(sites["c"], ACCOUNTS)
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            node = own_site(sites["a"]).node
            crashed = crash_after(sites, "a", 1)  # its own vote, and the decision
            task = asyncio.create_task(transfer(sites["a"], A[0], B[0]))
            await crashed.wait()
            assert node.has_ended
            await until(lambda: sites["b"].facts()["in doubt"], "the doubt to be seen")
            while not is_logged():  # with the first message after it has asked in vain
                await fill(sites["c"], [B[1]], 100)
            with pytest.raises(OutcomeUnknown):
                await task
            await sites.stop("a")
            await sites.start("a")
            await until(lambda: not sites["b"].facts()["in doubt"], "the decision")
            await judge(sites, [None])

    asyncio.run(main())


def test_a_store_that_is_closed_in_mid_commit_tells_unknown_and_not_aborted(tmp_path: Path) -> None:
    """2.0 f: the site of the key is away, so nobody can tell."""

    async def main() -> None:
        async with asyncio.timeout(60), running(configured(tmp_path)) as sites:
            await fill(sites["a"], ACCOUNTS)
            await until(lambda: not sites.unsettled(), "the acknowledgements")
            crashed = crash_after(sites, "b", 1)

            async def work(transaction: Transaction) -> None:
                await transaction.put(B[0], 1)

            task = asyncio.create_task(sites["a"].run(work))
            await crashed.wait()
            with pytest.raises(OutcomeUnknown, match="may have been committed or not"):
                await task
            await sites.stop("b")
            await sites.start("b")

            async def look(transaction: Transaction) -> Any:
                return await transaction.get(B[0])

            assert await sites["c"].run(look) == 1

    asyncio.run(main())


def test_a_deadlock_of_two_sites_ends_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], ACCOUNTS)
            met = asyncio.Barrier(2)

            async def crossed(name: str, first: str, second: str) -> int:
                attempts = 0

                async def work(transaction: Transaction) -> None:
                    nonlocal attempts
                    attempts += 1
                    await transaction.put(first, attempts)
                    if attempts == 1:
                        await met.wait()
                    await transaction.put(second, attempts)

                await sites[name].run(work)
                return attempts

            tries = await asyncio.gather(crossed("a", A[0], B[0]), crossed("b", B[0], A[0]))
            assert sorted(tries) == [1, 2]

    asyncio.run(main())


def test_a_cancelled_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    """2.0 d over several sites: the next one gets through."""

    async def main() -> None:
        async with asyncio.timeout(20), running(configured(tmp_path)) as sites:
            await fill(sites["a"], ACCOUNTS)
            async with sites["a"].transaction() as holder:
                await holder.put(B[0], 1)
                waiting = asyncio.create_task(transfer(sites["c"], B[0], A[0]))
                await until(lambda: sites["b"].facts()["waiting"], "the other to wait")
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await transfer(sites["c"], B[0], A[0])
            await until(lambda: not sites.unsettled(), "everything to end")

    asyncio.run(main())


def test_a_site_that_is_away_makes_requests_fail_and_its_return_makes_them_work(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running(configured(tmp_path)) as sites:
            await fill(sites["a"], ACCOUNTS)
            await sites.stop("b")
            with pytest.raises(Conflict, match="does not answer"):
                async with sites["a"].transaction() as transaction:
                    await transaction.get(B[0])
            await transfer(sites["a"], A[0], C[0])
            await sites.start("b")
            await transfer(sites["a"], A[0], B[0])
            assert await total(sites["b"]) == 900

    asyncio.run(main())


def test_a_node_that_is_gone_need_not_be_waited_for(tmp_path: Path) -> None:
    """2.5 f: a conservative transaction waits for its word, until somebody says that none comes."""

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            running(configured(tmp_path, scheme="conservative")) as sites,
        ):
            await fill(sites["a"], ACCOUNTS)
            await sites.stop("c")
            waiting = asyncio.create_task(transfer(sites["a"], A[0], B[0]))
            for name in "ab":
                await until(lambda name=name: sites[name].facts()["waiting"], "it to wait")  # type: ignore[misc]  # a default makes it of this turn
                sites[name].close_source("c")
            await waiting
            await transfer(sites["b"], A[0], B[0])
            await sites.start("c")
            await transfer(sites["c"], A[0], C[0])
            assert await total(sites["c"]) == 900

    asyncio.run(main())


def test_only_another_node_can_be_closed_and_only_where_its_word_counts(tmp_path: Path) -> None:
    async def main(scheme: str, node: str) -> None:
        async with running(configured(tmp_path / scheme, scheme=scheme)) as sites:
            sites["a"].close_source(node)

    for scheme, node, kind, text in (
        ("two-phase-locking", "b", MisuseError, "only the schemes conservative and multiversion"),
        ("conservative", "a", MisuseError, "node 'a' is this one"),
        ("multiversion", "z", ConfigError, "no node is called 'z'"),
    ):
        with pytest.raises(kind, match=text):
            asyncio.run(main(scheme, node))


def test_a_history_over_sites_is_recorded_and_serializable(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path)
        async with asyncio.timeout(20), running(config) as sites:
            await sites.stop("a")
            async with join_store(config, node="a", record=True) as store:
                await fill(store, ACCOUNTS)
                await asyncio.gather(*(transfer(store, A[i], B[i]) for i in range(3)))
                assert check(store.history()).serializable

    asyncio.run(main())


def test_nodes_without_a_site_are_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no data directory"):
        asyncio.run(_join(document(data=None), "a"))
    plain = document(data=str(tmp_path))
    del plain["nodes"]["b"]["store"]
    with pytest.raises(ConfigError, match=r"add store = .* to \[nodes.b\]"):
        asyncio.run(_join(plain, "a"))
    with pytest.raises(UsageError, match="no scheme 'nonsense'"):
        asyncio.run(_join(document(scheme="nonsense"), "a"))
    with pytest.raises(ConfigError, match="no node is called 'z'"):
        asyncio.run(_join(document(), "z"))


def test_sites_of_different_schemes_do_not_work_together(tmp_path: Path) -> None:
    written = document(2)
    other = {**written, "store": {"scheme": "optimistic"}}

    async def main() -> None:
        first = convert(written, tmp_path)
        second = convert(other, tmp_path)
        async with (
            asyncio.timeout(20),
            join_store(first, node="a") as store,
            join_store(second, node="b"),
        ):
            with pytest.raises(Conflict, match="does not answer"):
                async with store.transaction() as transaction:
                    await transaction.get(keys_at(2, 1, 2)[0])

    asyncio.run(main())


async def _join(config: Any, node: str) -> None:
    async with join_store(config, node=node):
        pass


def test_a_site_that_cannot_start_lets_go_of_everything(tmp_path: Path) -> None:
    """Its address is taken, or its directory is of another store; then it starts after all."""

    async def main() -> None:
        config = configured(tmp_path, 2)
        taken = config.options("a").store
        assert taken is not None
        server = await asyncio.start_server(lambda *_: None, taken.host, taken.port)
        with pytest.raises(Unavailable):
            await _join(config, "a")
        server.close()
        await _join(config, "a")
        with pytest.raises(ConfigError, match="over the sites a, b"):
            await _join(configured(tmp_path, 3), "a")
        await _join(config, "a")

    asyncio.run(main())


def test_two_processes_cannot_be_the_same_site(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path)
        async with join_store(config, node="a"):
            with pytest.raises(ConfigError, match="another process"):
                await _join(config, "a")

    asyncio.run(main())


def test_it_is_found_under_the_name_that_the_package_exports() -> None:
    assert coterie.join_store is join_store


def test_an_error_of_the_user_leaves_no_trace_and_is_not_hidden(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path, scheme="optimistic")
        async with asyncio.timeout(20), running(config) as sites:
            await fill(sites["a"], ACCOUNTS)

            async def work(transaction: Transaction) -> None:
                await transaction.put(B[0], 1 + await transaction.get(C[0]))
                raise ValueError("of the user")

            with pytest.raises(ValueError, match="of the user"):
                await sites["a"].run(work)
            await until(lambda: not sites.unsettled(), "everything to end")
            assert await total(sites["b"]) == 900

    asyncio.run(main())


def test_an_error_that_came_of_a_mix_of_states_is_a_conflict(tmp_path: Path) -> None:
    """2.6 f over several sites: what it has read was never there at one time, so it tries again."""

    async def main() -> None:
        config = configured(tmp_path, scheme="optimistic")
        async with asyncio.timeout(20), running(config) as sites:
            await fill(sites["a"], ACCOUNTS)

            async def work(transaction: Transaction) -> None:
                before = await transaction.get(B[0])
                await transfer(sites["c"], B[0], C[0])
                assert before + await transaction.get(C[0]) == 200, "never seen by anybody"

            with pytest.raises(Conflict, match="written since"):
                await sites["a"].run(work, tries=1)
            await until(lambda: not sites.unsettled(), "everything to end")

    asyncio.run(main())


def test_a_wait_for_another_site_ends_with_the_timeout(tmp_path: Path) -> None:
    async def main() -> None:
        config = configured(tmp_path)
        async with asyncio.timeout(20), running(config) as sites:
            await fill(sites["a"], ACCOUNTS)
            await sites.stop("c")
            async with join_store(config, node="c", timeout=0.05) as hasty:
                async with sites["a"].transaction() as holder:
                    await holder.put(B[0], 1)
                    with pytest.raises(Conflict, match=r"has waited 0\.05 s"):
                        async with hasty.transaction() as transaction:
                            await transaction.put(B[0], 2)
                await until(lambda: not sites.unsettled(), "everything to end")
            await sites.start("c")

    asyncio.run(main())


def test_a_store_keeps_out_who_does_not_know_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTERIE_SECRET_FILE", raising=False)  # it would be that of both

    async def main() -> None:
        written = document(2)
        for name in ("right", "wrong"):
            (tmp_path / name).write_text(f"the {name} secret of this store")
            (tmp_path / name).chmod(0o600)
        right = convert({**written, "secret-file": "right"}, tmp_path)
        wrong = convert({**written, "secret-file": "wrong"}, tmp_path)
        key = keys_at(2, 1, 2)[0]
        async with asyncio.timeout(20), join_store(right, node="a") as store:
            async with join_store(wrong, node="b"):
                with pytest.raises(Conflict, match="does not answer"):
                    async with store.transaction() as transaction:
                        await transaction.get(key)
            async with join_store(right, node="b"):
                await fill(store, [key])

    asyncio.run(main())
