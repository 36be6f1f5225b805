"""What transactions do in comparisons: bank transfers, SmallBank, and the mixes of YCSB.

Keys are drawn by Zipf's law: with theta 0 all alike, with 0.99 the first of 1,000 takes an
eighth. One map from ranks to keys serves all clients, else each would have hot keys of its own and
the skew would vanish.

A transfer reads exactly what it writes, so it cannot tell snapshot isolation from serializability.
SmallBank can: of its triple of a balance, a deposit into savings and a cheque on both accounts,
snapshots allow an order that no serial execution has (Alomari, Cahill, Fekete and Röhm, 2008).
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from typing import TYPE_CHECKING

from coterie.errors import UsageError
from coterie.lab.trials.trial import Program, Request

if TYPE_CHECKING:
    from collections.abc import Callable

SHUFFLE = 1987  # of ranks and keys: hot keys lie anywhere in the order of keys


class Zipf:
    """Draws keys from `key-0000` on; the key of rank k with a weight of 1 / k to the power theta."""

    def __init__(self, size: int, theta: float) -> None:
        """Prepare; that takes time in proportion to the number of keys, a drawing does not."""
        if size < 2:
            raise UsageError(f"a workload needs at least 2 keys, got {size}")
        if not 0 <= theta < 2:
            raise UsageError(f"theta must be from 0 (all keys alike) to less than 2, got {theta}")
        weights = (1 / rank**theta for rank in range(1, size + 1))
        self._sums = list(itertools.accumulate(weights))
        self._keys = list(range(size))
        random.Random(SHUFFLE).shuffle(self._keys)

    def draw(self, dice: random.Random) -> int:
        """Draw the number of a key."""
        return self._keys[bisect_left(self._sums, dice.random() * self._sums[-1])]

    def pair(self, dice: random.Random) -> tuple[int, int]:
        """Draw two different ones."""
        first = second = self.draw(dice)
        while second == first:
            second = self.draw(dice)
        return first, second


class Workload:
    """A mix of transactions over a number of keys, drawn with a skew."""

    def __init__(self, name: str, keys: int = 1000, theta: float = 0.0) -> None:
        """Choose a mix by name."""
        if name not in MIXES:
            raise UsageError(f"there is no workload {name!r}; choose one of {', '.join(MIXES)}")
        self.name = name
        self._mix = MIXES[name]
        self._zipf = Zipf(keys, theta)

    def draw(self, dice: random.Random) -> Program:
        """Draw a transaction."""
        return self._mix(self._zipf, dice)


def transfer(zipf: Zipf, dice: random.Random) -> Program:
    """Move money between two accounts: two reads on the way to two writes."""
    source, target = (account(number) for number in zipf.pair(dice))
    return (update(source), update(target), write(source), write(target))


def smallbank(zipf: Zipf, dice: random.Random) -> Program:
    """Draw one of SmallBank's six transactions, each as often as the others."""
    customer, other = zipf.pair(dice)
    checking, savings = f"checking-{customer:04}", f"savings-{customer:04}"
    theirs = f"checking-{other:04}"
    balance = (read(savings), read(checking))
    deposit = (update(checking), write(checking))
    save = (update(savings), write(savings))
    cheque = (read(savings), read(checking), write(checking))
    send = (update(checking), update(theirs), write(checking), write(theirs))
    reading = (update(savings), update(checking), update(theirs))
    amalgamate = (*reading, write(savings), write(checking), write(theirs))
    return dice.choice((balance, deposit, save, cheque, send, amalgamate))


def ycsb(reads: float, *, before_writing: bool = False) -> Callable[[Zipf, random.Random], Program]:
    """Make a mix of so many reads among writes, four in a transaction."""

    def mix(zipf: Zipf, dice: random.Random) -> Program:
        requests: list[Request] = []
        for number in sorted({zipf.draw(dice) for _ in range(4)}):
            key = account(number)
            if dice.random() < reads:
                requests.append(read(key))
            elif before_writing:
                requests += [update(key), write(key)]
            else:
                requests.append(write(key))
        return tuple(requests)

    return mix


def scans(zipf: Zipf, dice: random.Random) -> Program:
    """Look through some keys in a row, nineteen times out of twenty; else insert or write one."""
    number = zipf.draw(dice)
    if dice.random() < 0.05:
        return (write(account(number)),)
    end = number + dice.randint(1, 20)
    return (Request("s", account(number), account(end)),)


def account(number: int) -> str:
    """Name a key."""
    return f"key-{number:04}"


def read(key: str) -> Request:
    """Read a key."""
    return Request("r", key)


def update(key: str) -> Request:
    """Read a key on the way to writing it."""
    return Request("u", key)


def write(key: str) -> Request:
    """Write a key."""
    return Request("w", key)


MIXES: dict[str, Callable[[Zipf, random.Random], Program]] = {
    "bank": transfer,
    "smallbank": smallbank,
    "ycsb-a": ycsb(0.5),
    "ycsb-b": ycsb(0.95),
    "ycsb-c": ycsb(1.0),
    "ycsb-e": scans,
    "ycsb-f": ycsb(0.5, before_writing=True),
}
