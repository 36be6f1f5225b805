"""Rounds of transactions that go wrong on weak stores: each round has keys of its own.

In a round a few transactions wait for each other after their first reads, so that each has read before
any has written. What a store does about that is its level of isolation.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from coterie.lab.audit.client import Client

    Script: TypeAlias = Callable[[Client], Awaitable[None]]


class Round(NamedTuple):
    """Transactions that run at the same time, and the keys that have a value before."""

    scripts: Sequence[Script]
    keys: Sequence[str] = ()
    value: str = ""

    async def fill(self, client: Client) -> None:
        """Give the keys their value."""
        for key in self.keys:
            await client.write(key, self.value)


def bank(prefix: str, random: Random) -> Round:
    """Move money between accounts, and add up all of them."""
    accounts = [f"{prefix}{name}" for name in ("ann", "bob", "cyd")]
    amounts = [random.randint(1, 50) for _ in range(2)]
    transfers = [
        partial(_transfer, pair=(first, second), amount=amount)
        for first, second, amount in zip(accounts, accounts[1:], amounts, strict=False)
    ]
    return Round([*transfers, partial(_add_up, accounts=accounts)], accounts, "100")


async def _transfer(client: Client, pair: tuple[str, str], amount: int) -> None:
    balances = [_number(await client.read(key)) for key in pair]
    await client.meet()
    for key, balance, change in zip(pair, balances, (-amount, amount), strict=True):
        await client.write(key, str(balance + change))


async def _add_up(client: Client, accounts: Sequence[str]) -> None:
    await client.read(accounts[0])
    await client.meet()
    await client.pause()  # until transfers have committed, perhaps
    for key in accounts[1:]:
        await client.read(key)


def lost_update(prefix: str, random: Random) -> Round:
    """Add to a counter that others have read, too."""
    counter = f"{prefix}counter"
    adding = [partial(_add, key=counter) for _ in range(random.randint(2, 3))]
    return Round(adding, [counter], "0")


async def _add(client: Client, key: str) -> None:
    count = _number(await client.read(key))
    await client.meet()
    await client.write(key, str(count + 1))


def write_skew(prefix: str, random: Random) -> Round:
    """Go home if another one is on call, as two doctors do at the same time."""
    doctors = [f"{prefix}{name}" for name in ("ann", "bob", "cyd")[: random.randint(2, 3)]]
    leaving = [
        partial(_go_home, me=me, other=doctors[(place + 1) % len(doctors)])
        for place, me in enumerate(doctors)
    ]
    return Round(leaving, doctors, "on call")


async def _go_home(client: Client, me: str, other: str) -> None:
    await client.read(me)
    seen = await client.read(other)
    await client.meet()
    if seen is not None and seen.startswith("on call"):
        await client.write(me, "at home")


def phantom(prefix: str, random: Random) -> Round:
    """Book a room that has no booking yet: look at all rows of a prefix, then insert one."""
    guests = [f"{prefix}room/{name}" for name in ("ann", "bob", "cyd")[: random.randint(2, 3)]]
    booking = [partial(_book, prefix=f"{prefix}room/", guests=guests, me=me) for me in guests]
    return Round(booking)


async def _book(client: Client, prefix: str, guests: Sequence[str], me: str) -> None:
    taken = await client.scan(prefix, guests)
    await client.meet()
    if not taken:
        await client.write(me, "booked")


def list_append(prefix: str, random: Random) -> Round:
    """Append to lists and read them, as Elle does."""
    lists = [f"{prefix}list/{name}" for name in "xy"]
    scripts = []
    for _ in range(random.randint(2, 4)):
        reads = random.sample(lists, random.randint(1, 2))
        appends = sorted(random.sample(lists, random.randint(1, 2)))  # so that they do not deadlock
        scripts.append(partial(_append, reads=reads, appends=appends, again=random.random() < 0.3))
    return Round(scripts)


async def _append(
    client: Client, reads: Sequence[str], appends: Sequence[str], *, again: bool
) -> None:
    for key in reads:
        await client.read_list(key)
    await client.meet()
    for key in appends:
        await client.append(key)
    if again:
        await client.read_list(reads[0])


def _number(value: str | None) -> int:
    """Return the number at the beginning of a value, behind which stands its writer."""
    return int((value or "0").partition(" ")[0])


WORKLOADS: dict[str, Callable[[str, Random], Round]] = {
    "bank": bank,
    "lost-update": lost_update,
    "write-skew": write_skew,
    "phantom": phantom,
    "list-append": list_append,
}
