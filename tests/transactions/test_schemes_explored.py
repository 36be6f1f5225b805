"""All interleavings of small transactions under every scheme, with pinned counts.

Of all of them together: how many ends there are, and how many transactions were committed and
refused in them. None may be stuck, and each must be explained by a serial order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from coterie.lab.trials.trial import explore
from coterie.transactions.catalogue import scheme
from tests.transactions.announced import announced_at_two_sites
from tests.transactions.desk import Tally, page, spread_over_two_sites, table_row, tally, trial_of
from tests.transactions.scripts import (
    GIVEN_UP,
    INSERTS,
    INSTALLS,
    KEYS,
    LOST_UPDATE,
    OPPOSITE_WRITES,
    READ_SKEW,
    READERS,
    THREE_SKEWED,
    WRITE_SKEW,
)
from tests.transactions.stamped import HISTORIES, WATCHED, ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.trials.trial import Trial
    from coterie.transactions.schemes.scheduler import Scheduler

Counts: TypeAlias = tuple[int, int, int]  # ends, commits and refusals

DISJOINT = ("u(x) w(x)", "u(y) w(y)")

# By detection, wait-die and wound-wait.
LOCKING = {
    ("r(x) w(y)", "r(y) w(x)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("r(x) w(x)", "r(x) w(x)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("u(x) w(x)", "u(x) w(x)"): ((8, 16, 0), (8, 13, 3), (8, 14, 2)),
    ("s(a,b) w(x)", "s(x,y) w(a)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("s(a,c) w(a)", "s(a,c) w(b)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("r(x) w(y)", "w(x)", "w(y) r(x)"): ((570, 1686, 24), (320, 832, 128), (463, 1249, 140)),
    ("r(x) w(y)", "r(y) w(x)", "w(x) w(y)"): ((226, 540, 138), (163, 319, 170), (201, 434, 169)),
    ("r(x) w(x)", "r(x) w(x)", "w(x)"): ((128, 340, 44), (112, 218, 118), (118, 275, 79)),
    ("r(x) w(x)", "u(x)", "u(x)"): ((1234, 3702, 0), (943, 2669, 160), (731, 2088, 105)),
    ("r(x) w(x)", "w(x)", "s(,)"): ((363, 1089, 0), (249, 619, 128), (231, 646, 47)),
    ("w(x) w(y)", "s(,)", "w(y)"): ((361, 1082, 1), (256, 667, 101), (259, 723, 54)),
    ("s(a,b) w(x)", "s(x,y) w(a)", "w(a)"): ((307, 822, 99), (186, 425, 133), (274, 684, 138)),
    ("r(x) w(x)", "u(x) w(x)", "s(x,)"): ((714, 1902, 240), (552, 1312, 344), (464, 1160, 232)),
}

# By timestamp ordering, Thomas's rule, multiversion, and multiversion that drops versions.
STAMPED = {
    "lost update": ((17, 20, 14), (17, 20, 14), (17, 20, 14), (17, 20, 14)),
    "write skew": ((58, 61, 55), (58, 61, 55), (58, 61, 55), (58, 61, 55)),
    "blind writes": ((70, 135, 5), (70, 140, 0), (70, 140, 0), (70, 139, 1)),
    "read between writes": ((353, 934, 125), (355, 940, 125), (357, 966, 105), (353, 934, 125)),
    "chain of reads": ((230, 434, 256), (230, 434, 256), (230, 434, 256), (230, 434, 256)),
    "write that aborts": ((388, 765, 233), (389, 766, 232), (392, 784, 224), (388, 765, 233)),
    "insertions into scans": ((17, 20, 14), (17, 20, 14), (17, 20, 14), (17, 20, 14)),
    "deletion under a scan": (
        (841, 2039, 484),
        (841, 2039, 484),
        (864, 2088, 504),
        (841, 2039, 484),
    ),
    "delete and put again": ((353, 934, 125), (355, 940, 125), (357, 966, 105), (353, 934, 125)),
    "reader between writers": (
        (868, 2144, 460),
        (876, 2174, 454),
        (884, 2428, 224),
        (880, 2378, 262),
    ),
    "circle of two": ((17, 20, 14), (17, 20, 14), (17, 20, 14), (17, 20, 14)),
    "circle through a gap": ((17, 20, 14), (17, 20, 14), (17, 20, 14), (17, 20, 14)),
    "circle of three": ((506, 866, 652), (506, 866, 652), (518, 890, 664), (506, 866, 652)),
    "circle of writes": (
        (1082, 1856, 1390),
        (1082, 1856, 1390),
        (1091, 1868, 1405),
        (1086, 1860, 1398),
    ),
    "insertion that aborts": ((520, 655, 385), (520, 655, 385), (527, 662, 392), (520, 655, 385)),
    "two scans": ((17, 20, 14), (17, 20, 14), (17, 20, 14), (17, 20, 14)),
}
RESTARTED = {  # the site ends and comes back once, at every moment
    ("timestamp-ordering", "circle of two"): (86, 83, 50),
    ("timestamp-ordering", "circle through a gap"): (86, 83, 50),
    ("multiversion", "circle of two"): (87, 84, 50),
    ("multiversion", "circle through a gap"): (87, 84, 50),
}
OPTIMISTIC: list[tuple[tuple[str, ...], str, Counts]] = [
    (LOST_UPDATE, "parallel", (50, 52, 48)),
    (LOST_UPDATE, "serial", (50, 52, 48)),
    (WRITE_SKEW, "parallel", (50, 52, 48)),
    (WRITE_SKEW, "serial", (50, 52, 48)),
    (INSERTS, "parallel", (50, 52, 48)),
    (INSERTS, "serial", (50, 52, 48)),
    (("s(a,c) w(c)", "s(c,d) w(a) d(b)"), "parallel", (91, 93, 89)),
    (("s(a,c) w(c)", "s(c,d) w(a) d(b)"), "serial", (91, 93, 89)),
    (INSTALLS, "parallel", (4026, 8675, 3403)),
    (INSTALLS, "serial", (3518, 8297, 2257)),
    (READERS, "parallel", (4834, 10232, 4270)),
    (READERS, "serial", (3254, 6194, 3568)),
    (THREE_SKEWED, "parallel", (14922, 30756, 14010)),
    (THREE_SKEWED, "serial", (10590, 21840, 9930)),
    (GIVEN_UP, "parallel", (1052, 1880, 224)),
    (GIVEN_UP, "serial", (836, 1448, 224)),
]
OPTIMISTIC_AT_TWO_SITES: list[tuple[tuple[str, ...], str, Counts]] = [
    (WRITE_SKEW, "parallel", (168, 170, 166)),
    (WRITE_SKEW, "serial", (168, 170, 166)),
    (OPPOSITE_WRITES, "parallel", (168, 224, 112)),
    (("u(x) w(x) w(y)", "u(y) w(y) w(x)"), "parallel", (660, 662, 658)),
    (("r(x) w(y)", "w(x)", "r(y) r(x)"), "parallel", (33188, 69315, 30249)),
]
CONSERVATIVE: list[tuple[tuple[str, ...], str, Counts]] = [
    (LOST_UPDATE, "classes", (5, 10, 0)),
    (LOST_UPDATE, "unanalysed", (5, 10, 0)),
    (WRITE_SKEW, "classes", (5, 10, 0)),
    (READ_SKEW, "classes", (55, 110, 0)),
    (READ_SKEW, "unanalysed", (55, 110, 0)),
    (INSERTS, "classes", (5, 10, 0)),
    (("s(a,c) s(a,c)", "w(a) d(b)"), "classes", (55, 110, 0)),
    (INSTALLS, "classes", (160, 480, 0)),
    (INSTALLS, "unanalysed", (160, 480, 0)),
    (THREE_SKEWED, "classes", (45, 135, 0)),
    (DISJOINT, "classes", (70, 140, 0)),
    (DISJOINT, "unanalysed", (17, 34, 0)),
]
CONSERVATIVE_AT_TWO_SITES: list[tuple[tuple[str, ...], str, Counts]] = [
    (WRITE_SKEW, "classes", (7, 14, 0)),
    (OPPOSITE_WRITES, "classes", (140, 280, 0)),
    (("r(x) w(y)", "w(x)", "r(y)"), "classes", (1348, 4044, 0)),
    (("r(x) w(y)", "w(x)", "r(y)"), "unanalysed", (1348, 4044, 0)),
]


def at_one_site() -> Iterator[tuple[str, str, tuple[str, ...], Counts]]:
    variants = [variant.name for variant in scheme("two-phase-locking").variants]
    for scripts, by_variant in LOCKING.items():
        for variant, counts in zip(variants, by_variant, strict=True):
            yield "two-phase-locking", variant, scripts, counts
    for name, table in (("optimistic", OPTIMISTIC), ("conservative", CONSERVATIVE)):
        for scripts, variant, counts in table:
            yield name, variant, scripts, counts
    yield "conservative", "classes", GIVEN_UP, (21, 42, 0)


def begin(scheduler: Scheduler, scripts: tuple[str, ...]) -> Trial:
    """Bring in transactions; conservative ones begin at once, in the order of their stamps.

    That costs no generality: the older ones do not notice whether a younger one has begun.
    """
    trial = trial_of(scheduler, scripts, KEYS)
    for name in trial.movable() if scheduler.announced else ():
        trial.begin(name)
    return trial


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant", "scripts", "counts"), list(at_one_site()))
def test_every_interleaving_is_serializable_and_ends(
    name: str, variant: str, scripts: tuple[str, ...], counts: Counts
) -> None:
    """Nobody waits for ever: every deadlock is broken, and no wake-up is lost."""
    trial = begin(scheme(name).build(variant), scripts)
    assert tally(explore(trial)) == Tally(*counts, stuck=0, wrong=0)


def at_two_sites() -> Iterator[tuple[str, str, tuple[str, ...], Counts]]:
    tables = (("optimistic", OPTIMISTIC_AT_TWO_SITES), ("conservative", CONSERVATIVE_AT_TWO_SITES))
    for name, table in tables:
        for scripts, variant, counts in table:
            yield name, variant, scripts, counts


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant", "scripts", "counts"), list(at_two_sites()))
def test_every_interleaving_over_two_sites_is_serializable_and_ends(
    name: str, variant: str, scripts: tuple[str, ...], counts: Counts
) -> None:
    """2.5 g, 2.6 k: with every order of prepares and commits at the two sites."""
    schedulers = [scheme(name).build(variant, site, 2) for site in (1, 2)]
    spread = announced_at_two_sites if schedulers[0].announced else spread_over_two_sites
    assert tally(explore(spread(schedulers, scripts))) == Tally(*counts, stuck=0, wrong=0)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(WATCHED)), ids=list(WATCHED))
@pytest.mark.parametrize("history", STAMPED)
def test_every_interleaving_by_stamps_is_serializable_and_ends(history: str, place: int) -> None:
    """2.2 a to f, i, 2.4 e: and every wait goes from a larger to a smaller stamp."""
    kind = list(WATCHED.values())[place]
    counts = STAMPED[history][place]
    assert ends(kind(), *HISTORIES[history]) == Tally(*counts, stuck=0, wrong=0)


@pytest.mark.parametrize(("name", "history"), RESTARTED)
def test_every_interleaving_with_a_restart_is_serializable_and_ends(
    name: str, history: str
) -> None:
    """2.2 e."""
    found = ends(WATCHED[name](), *HISTORIES[history], restart=True)
    assert found == Tally(*RESTARTED[name, history], stuck=0, wrong=0)


# The pages tell these counts


def test_the_page_of_locking_tells_what_was_explored() -> None:
    rows = [line for line in page("two-phase-locking").splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{'; '.join(scripts)}` | "
        + " | ".join(f"{n:,}, {c:,}, {r:,}" for n, c, r in found)
        + " |"
        for scripts, found in LOCKING.items()
    ]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("optimistic", OPTIMISTIC + OPTIMISTIC_AT_TWO_SITES),
        ("conservative", CONSERVATIVE + CONSERVATIVE_AT_TWO_SITES),
    ],
)
def test_a_page_tells_what_was_explored(
    name: str, table: list[tuple[tuple[str, ...], str, Counts]]
) -> None:
    lines = page(name).splitlines()
    assert [row for row in table if table_row(*row) not in lines] == []


@pytest.mark.parametrize("name", [name for name in WATCHED if "," not in name])
def test_a_page_of_a_stamped_scheme_sums_up_what_was_explored(name: str) -> None:
    place = list(WATCHED).index(name)
    total = [sum(part) for part in zip(*(row[place] for row in STAMPED.values()), strict=True)]
    told = "{:,} schedules, {:,} commits, {:,} refusals".format(*total)
    assert told in " ".join(page(name).split())


def test_the_page_of_multiversion_tells_what_was_explored_while_versions_are_dropped() -> None:
    dropping = sum(row[-1][0] for row in STAMPED.values())
    text = " ".join(page("multiversion").split())
    assert f"after every step: {dropping:,} schedules" in text
