"""Random transactions against one scheduler: who moves next, who gives up, who tries again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from coterie.lab.trials.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.transactions.schemes.scheduler import Scheduler

KEYS = ("a", "b", "c", "d")
OPERATIONS = ("r", "r", "u", "w", "w", "d", "s")


def script(dice: random.Random, operations: Sequence[str] = OPERATIONS) -> str:
    parts = []
    for _ in range(dice.randint(1, 5)):
        op = dice.choice(operations)
        if op == "s":
            low, high = sorted(dice.sample([*KEYS, "e"], 2))
            parts.append(f"s({low},{high})")
        else:
            parts.append(f"{op}({dice.choice(KEYS)})")
    return " ".join(parts)


def storm(
    scheduler: Scheduler,
    seed: int,
    *,
    clients: int = 4,
    transactions: int = 24,
    aborts: float = 0.03,
    operations: Sequence[str] = OPERATIONS,
    tries: int = 12,
    in_order: bool = False,
    scripts: Callable[[random.Random], str] | None = None,
) -> Trial:
    """Run transactions of a few clients to their ends, each tried again when it is refused.

    Stamps grow with the beginnings, but a beginning may take its stamp a little before others
    that move first, unless all begin `in_order`, as soon as they have their stamps. The trial ends
    with somebody waiting only if nobody could move any more.
    """
    dice = random.Random(seed)
    trial = Trial(scheduler, KEYS)
    stamp = 0
    left = transactions
    current: list[tuple[str, str, int, int] | None] = [None] * clients  # name, script, age, tries
    while True:
        for client, work in enumerate(current):
            state = trial.runners[work[0]].state if work else "committed"
            if work and state == "refused" and work[3] < tries:
                stamp += 1
                name = f"T{stamp}"
                current[client] = (name, work[1], work[2], work[3] + 1)
                trial.add(name, stamp, work[1], age=work[2], failures=work[3] + 1)
            elif state in ("committed", "aborted", "refused"):
                current[client] = None
                if left:
                    left -= 1
                    stamp += 1
                    text = scripts(dice) if scripts else script(dice, operations)
                    current[client] = (f"T{stamp}", text, stamp, 0)
                    trial.add(f"T{stamp}", stamp, text)
        new = [name for name, runner in trial.runners.items() if runner.state == "new"]
        for name in new if in_order else ():
            trial.begin(name)
        movable = trial.movable()
        if not movable:
            return trial
        under_way = [name for name in trial.runners if not trial.runners[name].over]
        if dice.random() < aborts:
            trial.abort(dice.choice(under_way))
        else:
            trial.move(dice.choice(movable))
