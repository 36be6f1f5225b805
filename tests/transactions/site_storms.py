"""Random transactions over several sites, while sites crash, restart, pause and are cut off."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from coterie.lab.serializability import check
from coterie.lab.simulate import Crash, Fault, Lose, Network, Partition, Pause, Restart, Uniform
from coterie.lab.trials.clients import BusySite
from coterie.lab.trials.sites import PATIENCE, Outcome, build_sites, run_sites
from coterie.lab.trials.trial import Program, program
from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import BEGINNING
from coterie.transactions.site.placement import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.serializability import Report
    from coterie.transactions.schemes.scheduler import Scheduler

KEYS = tuple("abcdefgh")
OPERATIONS = ("r", "r", "u", "w", "w", "d", "s")
TROUBLE = 150.0  # until then things go wrong
END = 4000.0  # and by then everything has been settled


def draw(dice: Random) -> Program:
    parts = []
    for _ in range(dice.randint(1, 4)):
        op = dice.choice(OPERATIONS)
        if op == "s":
            low, high = sorted(dice.sample([*KEYS, "i"], 2))
            parts.append(f"s({low},{high})")
        else:
            parts.append(f"{op}({dice.choice(KEYS)})")
    if dice.random() < 0.05:
        parts.append("a")
    return program(" ".join(parts))


def draw_updates(dice: Random) -> Program:
    """Draw one that updates a key or two of few, or one that reads them, which is in the way."""
    keys = dice.sample(KEYS[:4], dice.randint(1, 2))
    if dice.random() < 0.4:
        return program(" ".join(f"r({key})" for key in (*keys, *keys)))
    return program(" ".join(f"u({key})" for key in keys) + "".join(f" w({key})" for key in keys))


def draw_mixture(dice: Random) -> Program:
    """Draw one with every operation on few keys: for update, of which most are written at the end."""
    parts, last = [], []
    for key in dice.sample(KEYS[:4], dice.randint(1, 3)):
        op = dice.choice("uurswd")
        if op == "s":
            low, high = sorted(dice.sample([*KEYS[:4], "e"], 2))
            parts.append(f"s({low},{high})")
            continue
        parts.append(f"{op}({key})")
        if op == "u" and dice.random() < 0.8:
            last.append(f"{dice.choice('wwd')}({key})")
    if dice.random() < 0.2:
        parts.append(f"r({dice.choice(KEYS[:4])})")
    return program(" ".join(parts + last))


def random_trouble(dice: Random, sites: int) -> list[Fault]:
    """Draw crashes in the middle of what a site sends, restarts, pauses, cuts and losses."""
    faults: list[Fault] = []
    for _ in range(dice.randint(1, 3)):
        site, time = dice.randint(1, sites), dice.uniform(1, TROUBLE)
        after = dice.choice((None, 0, 1, 2, 3))
        # One that is to die in the middle of a step may not take one for long.
        returns = [time + dice.uniform(5, 80), 2 * TROUBLE, 4 * TROUBLE, 8 * TROUBLE]
        faults += [Crash(site, time, after), *(Restart(site, moment) for moment in returns)]
    for _ in range(dice.randint(0, 2)):
        faults.append(Pause(dice.randint(1, sites), dice.uniform(1, TROUBLE), dice.uniform(5, 120)))
    if sites > 1 and dice.random() < 0.5:
        cut = dice.randint(1, sites)
        rest = tuple(site for site in range(1, sites + 1) if site != cut)
        faults.append(Partition(((cut,), rest), dice.uniform(1, TROUBLE), dice.uniform(5, 100)))
    if dice.random() < 0.3:
        faults.append(Lose(0.1, dice.uniform(1, TROUBLE), 50.0))
    return faults


def site_storm(
    build: Callable[[int, int], Scheduler],
    sites: int,
    seed: int,
    *,
    clients: int = 2,
    transactions: int = 6,
    trouble: bool = True,
    kind: type[BusySite] = BusySite,
    drawn: Callable[[Random], Program] = draw,
) -> Outcome:
    """Run a few clients of each site, in trouble for a while, and then until all is settled."""
    dice = Random(seed)
    programs = [
        [[drawn(dice) for _ in range(transactions)] for _ in range(clients)] for _ in range(sites)
    ]
    settings = {**PATIENCE, "think": dice.choice((0.0, 0.5))}
    built = build_sites(build, programs, left=transactions, kind=kind, **settings)
    faults = random_trouble(dice, sites) if trouble else []
    duplication = dice.choice((0.0, 0.05)) if trouble else 0.0
    network = Network(Uniform(0.5, 1.5), duplication=duplication)
    return run_sites(built, network, faults=faults, seed=seed, until=END, history=True)


def named_storm(name: str, variant: str | None, sites: int, seed: int, **more: object) -> Outcome:
    return site_storm(scheme(name).variant(variant).build, sites, seed, **more)  # type: ignore[arg-type]  # passed on as given


def judge(outcome: Outcome) -> Report:
    """Hold all that must hold at the end of a run in which everybody has come back."""
    assert outcome.run is not None
    assert not outcome.run.violations, outcome.run.violations
    assert outcome.history is not None
    report = check(outcome.history)
    assert report.serializable, report.anomalies
    for site in outcome.sites:
        facts = site.facts()
        assert not facts["in doubt"], f"site {site.me} is in doubt"
        assert not facts["not acknowledged"], f"site {site.me} waits for acknowledgements"
        assert not facts["under way"], f"something is under way at site {site.me}"
        assert not site.open_transactions(), f"something is under way from site {site.me}"
        assert not site.scheduler.active
        assert all(not client.left for client in site.clients), "a client never got through"
    assert contents(outcome) == expected(outcome)
    return report


def contents(outcome: Outcome) -> dict[str, str]:
    """Give what the sites hold at the end; each its own keys and no others."""
    found = {}
    for site in outcome.sites:
        for key, item in site.scheduler.latest():
            assert site_of(key, len(outcome.sites)) == site.me
            if item.value is not None:
                found[key] = item.value.decode()
    return found


def expected(outcome: Outcome) -> dict[str, str]:
    """Give the newest version of each key that a committed transaction wrote: all of its writes."""
    newest: dict[str, tuple[tuple[int, ...], str | None]] = {}
    assert outcome.history is not None
    for transaction in outcome.history.transactions.values():
        if transaction.outcome.value != "committed":
            continue
        for access in transaction.accesses:
            if access.op == "write":
                assert isinstance(access.version, tuple)
                known = newest.get(str(access.key), (BEGINNING, None))
                if known[0] <= access.version:
                    newest[str(access.key)] = access.version, access.value
    return {key: value for key, (_, value) in newest.items() if value is not None}
